/**
 * Remembers denials for a moment, so that a client that is refused a thousand times a second does
 * not cost Redis a thousand calls.
 */

/**
 * @import { Decision, State } from './decision.js'
 * @import { Limit } from './rules.js'
 */

const MAX_ENTRIES = 10_000;
/** How long an operator's change (RL.EXEMPT, RL.POLICY, DEL) can go unnoticed, in milliseconds. */
const MAX_TIME = 1000;

export class DenyCache {
  /** @type {Map<string, { until: number, readyAt: number, state: State }>} the oldest first */
  denials = new Map();

  /**
   * Only the binding key is known to have denied. A denial must not be believed for longer than it
   * holds, so it is counted from before the call, and less the millisecond that the server may have
   * rounded its clock down by.
   *
   * @param {Decision} decision
   * @param {number} askedAt
   */
  remember({ limits, states, retryAfter, binding }, askedAt) {
    const wait = retryAfter < 0 ? Infinity : retryAfter;
    const { id } = limits[binding]; // has the cost in it: a smaller one may pass
    this.denials.delete(id);
    this.denials.set(id, {
      until: askedAt + Math.min(wait, MAX_TIME) - 1,
      // What clients are told, on the other hand, is counted from now: never too short.
      readyAt: performance.now() + wait,
      state: states[binding],
    });
    if (this.denials.size > MAX_ENTRIES) this.denials.delete(oldest(this.denials));
  }

  /**
   * A denial that holds for one of these limits: the one with the longest wait.
   *
   * @param {Limit[]} limits
   * @returns {Decision | undefined}
   */
  find(limits) {
    const now = performance.now();
    let found;
    for (const limit of limits) {
      const denial = this.denials.get(limit.id);
      if (!denial) continue;
      if (now >= denial.until) this.denials.delete(limit.id);
      else if (!found || denial.readyAt > found.readyAt) found = { ...denial, limit };
    }
    if (!found) return undefined;
    const retryAfter = found.readyAt === Infinity ? -1 : Math.ceil(found.readyAt - now);
    return {
      limits: [found.limit],
      states: [{ ...found.state, retryAfter }],
      granted: 0,
      retryAfter,
      binding: 0,
    };
  }
}

/**
 * @param {Map<string, unknown>} map
 * @returns {string}
 */
export const oldest = (map) => map.keys().next().value ?? '';
