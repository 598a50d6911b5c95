/**
 * What a request is limited by: a key in Redis, and the rule that holds for it.
 */

import { createHash } from 'node:crypto';

/**
 * A rule of RL.ACQUIREX. It is not checked here: the server does, and says what is wrong.
 *
 * Without `concurrency`: that wants a lease ID and a release at the end of the request, and a
 * denial of it must not be remembered, since a release can come at any time.
 *
 * @typedef {object} Rule
 * @property {string} window `500ms`, `60s`, `5m`, `1h`, `1d`; a bare number is milliseconds
 * @property {number} limit
 * @property {'sliding' | 'bucket' | 'leaky' | 'fixed' | 'counter'} algo
 * @property {number} [burst]
 * @property {number} [cost]
 * @property {string} [name] for RL.POLICY and the counters in INFO rl; `route.dimension` by default
 */

/**
 * One of the limits that a request must pass.
 *
 * @typedef {object} Limit
 * @property {string} dimension
 * @property {string} key
 * @property {string[]} rule its arguments
 * @property {string} id key and rule in one string: what a denial or a batch belongs to
 */

const MAX_PART = 64;

/**
 * @param {Rule} rule
 * @returns {string[]}
 */
export function argsOf({ window, limit, algo, burst, cost, name }) {
  const args = ['WINDOW', window, 'LIMIT', limit, 'ALGO', algo];
  if (burst !== undefined) args.push('BURST', burst);
  if (cost !== undefined) args.push('COST', cost);
  if (name !== undefined) args.push('NAME', name);
  return args.map(String);
}

/**
 * The key of a limit. All keys of a route share its hash tag, hence a slot of a cluster:
 * `rl:{login}:all`, `rl:{login}:ip:192.0.2.7`.
 *
 * @param {string} route
 * @param {string} dimension
 * @param {string} [value]
 */
export function keyOf(route, dimension, value) {
  const key = `rl:{${route}}:${dimension}`;
  return value === undefined ? key : `${key}:${part(value)}`;
}

/**
 * Users choose this text: they get neither braces nor a key of a megabyte.
 *
 * @param {string} value
 */
function part(value) {
  if (value.length <= MAX_PART && value.isWellFormed()) {
    const encoded = encodeURIComponent(value);
    if (encoded.length <= MAX_PART) return encoded;
  }
  // encodeURIComponent() never leaves a "#": nobody can name somebody else's hash.
  return '#' + createHash('sha256').update(value, 'utf16le').digest('hex');
}
