/**
 * Permits fetched in advance: one call of Redis for n requests.
 *
 * The price: a process may sit on up to n - 1 permits that nobody else gets, and uses a permit up
 * to `ttl` after it was taken.
 */

import { oldest } from './deny-cache.js';
import { Away, inTime } from './store.js';

/**
 * @import { Decision } from './decision.js'
 * @import { Limit } from './rules.js'
 */

const MAX_ENTRIES = 10_000;

export class Batches {
  #ask;
  #size;
  #ttl;
  #timeout;
  /** @type {Map<string, { one: Decision, left: number, until: number }>} */
  #batches = new Map();
  /** @type {Map<string, Promise<Decision>>} */
  #fetches = new Map();

  /**
   * @param {(limits: Limit[], upTo: number) => Promise<Decision>} ask
   * @param {{ size: number, ttl: number, timeout: number }} options times in milliseconds
   */
  constructor(ask, { size, ttl, timeout }) {
    this.#ask = ask;
    this.#size = size;
    this.#ttl = ttl;
    this.#timeout = timeout;
  }

  /**
   * A permit from the batch of exactly these keys and rules, fetching one if need be. Who comes
   * while that is under way shares it, or batches would save nothing.
   *
   * @param {Limit[]} limits
   */
  async take(limits) {
    const id = limits.map((limit) => limit.id).join('\n');
    const deadline = performance.now() + this.#timeout;
    for (;;) {
      const permit = this.#handOut(id);
      if (permit) return permit;
      const underWay = this.#fetches.get(id);
      if (!underWay) return this.#fetch(id, limits);
      // Each fetch is in time, but one may have to wait for a share in several of them.
      const left = deadline - performance.now();
      if (left <= 0) throw new Away(`no answer within ${this.#timeout} ms`);
      const fetched = await inTime(left, underWay);
      if (!fetched.granted) return fetched;
    }
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
   * @param {string} id
   * @param {Limit[]} limits
   */
  #fetch(id, limits) {
    // Counted from before the call, so that no permit is used long after it was taken.
    const until = performance.now() + this.#ttl;
    const fetch = this.#ask(limits, this.#size)
      .then((decision) => {
        const one = { ...decision, granted: Math.min(decision.granted, 1) };
        if (decision.granted > 1) {
          // The first is for the request that fetched.
          this.#batches.set(id, { one, left: decision.granted - 1, until });
          if (this.#batches.size > MAX_ENTRIES) this.#batches.delete(oldest(this.#batches));
        }
        return one;
      })
      .finally(() => this.#fetches.delete(id));
    this.#fetches.set(id, fetch);
    return fetch;
  }
}
