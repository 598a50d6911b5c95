/**
 * Permits fetched in advance: one call of Redis for n requests.
 *
 * The price: a process may sit on up to n - 1 permits that nobody else gets, and uses a permit up
 * to `ttl` after it was taken.
 */

import { usedUp } from './decision.js';
import { oldest } from './deny-cache.js';

/**
 * @import { Decision } from './decision.js'
 * @import { Limit } from './rules.js'
 */

/** @typedef {{ resolve: (decision: Decision) => void, reject: (error: unknown) => void }} Waiter */

const MAX_ENTRIES = 10_000;

export class Batches {
  #ask;
  #size;
  #ttl;
  /** @type {Map<string, { one: Decision, left: number, until: number }>} */
  #batches = new Map();
  /** @type {Map<string, Waiter[]>} for the fetch that is under way */
  #waiting = new Map();

  /**
   * @param {(limits: Limit[], upTo: number) => Promise<Decision>} ask
   * @param {number} size
   * @param {number} ttl in milliseconds
   */
  constructor(ask, size, ttl) {
    this.#ask = ask;
    this.#size = size;
    this.#ttl = ttl;
  }

  /**
   * A permit from the batch of exactly these keys and rules, fetching one if need be. Who comes
   * while that is under way shares it, or batches would save nothing.
   *
   * @param {Limit[]} limits
   * @returns {Promise<Decision>}
   */
  async take(limits) {
    const id = limits.map((limit) => limit.id).join('\n');
    return (
      this.#handOut(id) ??
      new Promise((resolve, reject) => {
        const waiting = this.#waiting.get(id);
        if (waiting) waiting.push({ resolve, reject });
        else void this.#fetch(id, limits, [{ resolve, reject }]);
      })
    );
  }

  /** @param {string} id */
  #handOut(id) {
    const batch = this.#batches.get(id);
    if (!batch) return undefined;
    const fresh = performance.now() < batch.until;
    if (fresh) batch.left -= 1;
    if (!fresh || batch.left === 0) this.#batches.delete(id);
    return fresh ? batch.one : undefined;
  }

  /**
   * Until nobody waits. That takes two calls at most of whoever does: the one under way when he
   * came, and one that asks for all who are left.
   *
   * @param {string} id
   * @param {Limit[]} limits
   * @param {Waiter[]} waiting
   */
  async #fetch(id, limits, waiting) {
    this.#waiting.set(id, waiting);
    try {
      while (waiting.length > 0) {
        // Counted from before the call, so that no permit is used long after it was taken.
        const until = performance.now() + this.#ttl;
        const asked = Math.max(this.#size, waiting.length);
        const decision = await this.#ask(limits, asked);
        const { granted } = decision;
        const one = { ...decision, granted: Math.min(granted, 1) };
        const left = granted - waiting.length;
        for (const { resolve } of waiting.splice(0, granted)) resolve(one);
        if (left > 0) {
          this.#batches.set(id, { one, left, until });
          if (this.#batches.size > MAX_ENTRIES) this.#batches.delete(oldest(this.#batches));
        } else if (granted < asked) {
          // The limit had no more room, so who got nothing is refused.
          for (const { resolve } of waiting.splice(0)) resolve(usedUp(decision));
        }
      }
    } catch (error) {
      for (const { reject } of waiting) reject(error);
    } finally {
      this.#waiting.delete(id);
    }
  }
}
