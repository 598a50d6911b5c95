/**
 * The limiter of one route: the deny cache first, then permits at hand, then Redis.
 */

import { ReplyError } from 'ioredis';
import { Batches } from './batches.js';
import { Breaker } from './breaker.js';
import { parse } from './decision.js';
import { DenyCache } from './deny-cache.js';
import { Away } from './store.js';

/**
 * @import { Decision } from './decision.js'
 * @import { Limit } from './rules.js'
 * @import { Store } from './store.js'
 */

/**
 * @typedef {object} Options times are in milliseconds
 * @property {'open' | 'closed'} [onAway] when Redis is away: let requests pass, or answer 503
 * @property {number} [breakerFailures] after so many failures in a row Redis is no longer asked ...
 * @property {number} [breakerCooldown] ... for so long; then one request tries
 * @property {boolean} [denyCache] remember denials for up to a second
 * @property {number} [batch] fetch so many permits with one call
 * @property {number} [batchTtl] drop fetched permits after that time
 */

/**
 * Knows nothing of HTTP. Each route has its own breaker: all its keys live on one node of a
 * cluster, and another node may be fine.
 */
export class Limiter {
  #store;
  #breaker;
  #denials;
  #batches;

  /**
   * @param {Store} store
   * @param {string} name
   * @param {Options} options
   */
  constructor(store, name, options) {
    const { onAway = 'open', breakerFailures = 5, breakerCooldown = 1000 } = options;
    const { denyCache = true, batch = 1, batchTtl = 100 } = options;
    this.name = name;
    this.onAway = onAway;
    this.#store = store;
    this.#breaker = new Breaker(breakerFailures, breakerCooldown);
    this.#denials = denyCache ? new DenyCache() : undefined;
    this.#batches = batch > 1 ? new Batches(this.#ask.bind(this), batch, batchTtl) : undefined;
  }

  /**
   * Takes a permit from every limit, or from none. Throws `Away` if nobody can tell.
   *
   * @param {Limit[]} limits
   * @returns {Promise<Decision>}
   */
  async acquire(limits) {
    const denial = this.#denials?.find(limits);
    if (denial) return denial;
    try {
      return await (this.#batches ? this.#batches.take(limits) : this.#ask(limits));
    } catch (error) {
      if (error instanceof Away) {
        const what = this.onAway === 'open' ? 'passed unchecked' : 'refused with 503';
        this.#store.outages.note(this.name, what, error.message);
      }
      throw error;
    }
  }

  /**
   * @param {Limit[]} limits
   * @param {number} [upTo]
   */
  async #ask(limits, upTo) {
    if (!this.#breaker.allows()) throw new Away(this.#breaker.reason);
    const askedAt = performance.now();
    let reply;
    try {
      reply = await this.#store.acquire(limits, upTo);
    } catch (error) {
      const away = error instanceof Away;
      // Redis is there. Its memory may be full, but that stops new limiters only.
      if (error instanceof ReplyError || (away && error.memoryFull)) this.#breaker.succeeded();
      else if (away) this.#breaker.failed(error.message);
      throw error;
    }
    this.#breaker.succeeded();
    const decision = parse(limits, reply);
    if (!decision.granted) this.#denials?.remember(decision, askedAt);
    return decision;
  }
}
