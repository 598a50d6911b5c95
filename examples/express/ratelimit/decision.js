/**
 * The reply of RL.ACQUIREX ... WITHKEYS, and the headers that tell a client about it.
 */

/** @import { Limit } from './rules.js' */

/**
 * How one of the limits stands. Times are in milliseconds.
 *
 * @typedef {object} State
 * @property {number} granted
 * @property {number} remaining
 * @property {number} retryAfter
 * @property {number} resetAfter
 * @property {number} window
 * @property {number} quota
 */

/**
 * `binding` is the limit that decided. Do not look for the denied one among the states: under a
 * policy with SHADOW a key looks denied there and never denies.
 *
 * @typedef {object} Decision
 * @property {Limit[]} limits
 * @property {State[]} states one for each limit
 * @property {number} granted 0 is a denial, more than 1 a batch
 * @property {number} retryAfter in milliseconds; -1 when the call can never be granted
 * @property {number} binding an index of the limits
 */

/**
 * @param {Limit[]} limits
 * @param {any[]} reply
 * @returns {Decision}
 */
export function parse(limits, [granted, , , retryAfter, , binding, keys]) {
  const states = keys.map((/** @type {number[]} */ key) => {
    const [granted, , remaining, retryAfter, resetAfter, window, quota] = key;
    return { granted, remaining, retryAfter, resetAfter, window, quota };
  });
  return { limits, states, granted, retryAfter, binding };
}

/**
 * What a decision means for whoever got none of the permits that it granted. It does not say when
 * there are more, so the wait is the shortest there is: a second, in the headers.
 *
 * @param {Decision} decision
 * @returns {Decision}
 */
export function usedUp(decision) {
  if (!decision.granted) return decision;
  const states = decision.states.with(decision.binding, {
    ...decision.states[decision.binding],
    granted: 0,
    retryAfter: 1,
  });
  return { ...decision, states, granted: 0, retryAfter: 1 };
}

/**
 * The fields of draft-ietf-httpapi-ratelimit-headers, and Retry-After on a denial.
 *
 * @param {Decision} decision
 * @returns {Record<string, string>}
 */
export function headersOf({ limits, states, granted, retryAfter }) {
  const policies = states.map(
    ({ quota, window }, i) => `"${limits[i].dimension}";q=${quota};w=${seconds(window)}`,
  );
  const items = states.map((state, i) => {
    const wait = state.granted ? state.resetAfter : state.retryAfter;
    const until = wait < 0 ? '' : `;t=${seconds(wait)}`;
    return `"${limits[i].dimension}";r=${state.remaining}${until}`;
  });
  return {
    'RateLimit-Policy': policies.join(', '),
    RateLimit: items.join(', '),
    ...(!granted && retryAfter >= 0 && { 'Retry-After': String(Math.max(1, seconds(retryAfter))) }),
  };
}

/**
 * Rounded up: a client that waits as told must not come too early.
 *
 * @param {number} ms
 */
const seconds = (ms) => Math.ceil(ms / 1000);
