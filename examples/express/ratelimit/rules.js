/**
 * What a request is limited by: a key in Redis, and the rule that holds for it.
 */

import { createHash } from 'node:crypto';

/**
 * A rule of RL.ACQUIREX. Whether its numbers make sense is for the server to say.
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
 * @property {string} rule in the words of the command, see `textOf`
 * @property {string} id key and rule in one string: what a denial or a batch belongs to
 */

const MAX_PART = 64;

/** @type {(pattern: RegExp) => (value: unknown) => boolean} */
const word = (pattern) => (value) => typeof value === 'string' && pattern.test(value);

/**
 * What an option can be. In the order in which they are always written, since the server remembers
 * strings that repeat.
 *
 * @type {Record<keyof Rule, (value: unknown) => boolean>}
 */
const OPTIONS = {
  window: word(/^\d+[a-z]*$/),
  limit: Number.isSafeInteger,
  algo: word(/^[a-z]+$/),
  burst: Number.isSafeInteger,
  cost: Number.isSafeInteger,
  name: word(/^[\w.-]{1,64}$/),
};

/**
 * A rule as the command wants it. All rules are one argument, in which white space begins the next
 * word: a cost of `1 FORCE` would pass any limit. So only integers and single words get in.
 *
 * @param {Rule} rule
 */
export function textOf(rule) {
  for (const option of Object.keys(rule)) {
    if (!Object.hasOwn(OPTIONS, option)) throw new TypeError(`a rule has no ${option}`);
  }
  const options = /** @type {[keyof Rule, (value: unknown) => boolean][]} */ (
    Object.entries(OPTIONS)
  );
  return options
    .filter(([option]) => rule[option] !== undefined)
    .map(([option, fits]) => {
      const value = rule[option];
      if (!fits(value)) throw new TypeError(`${option} cannot be ${JSON.stringify(value)}`);
      return `${option.toUpperCase()} ${value}`;
    })
    .join(' ');
}

/**
 * The last argument of a call, for up to so many acquisitions.
 *
 * @param {Limit[]} limits
 * @param {number} upTo
 */
export function rulesOf(limits, upTo) {
  const rules = limits.map((limit) => limit.rule).join(' ');
  return upTo > 1 ? `${rules} UPTO ${upTo} WITHKEYS` : `${rules} WITHKEYS`;
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
