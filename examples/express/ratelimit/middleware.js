/**
 * The Express side: a middleware for each route.
 */

import { isIPv6 } from 'node:net';
import { headersOf } from './decision.js';
import { Limiter } from './limiter.js';
import { keyOf, textOf } from './rules.js';
import { Away } from './store.js';

/**
 * @import { Request, RequestHandler, Response } from 'express'
 * @import { Decision } from './decision.js'
 * @import { Options } from './limiter.js'
 * @import { Rule } from './rules.js'
 * @import { Store } from './store.js'
 */

/**
 * What a route counts by: everything together, or each value of `by` on its own. A request for
 * which `by` answers undefined or null is not counted in this dimension.
 *
 * @typedef {Rule & { by?: (req: Request) => string | null | undefined }} Dimension
 */

/**
 * @param {Store} store
 * @param {string} name of the route
 * @param {Record<string, Dimension>} dimensions
 * @param {Options} [options]
 * @returns {RequestHandler}
 */
export function rateLimit(store, name, dimensions, options = {}) {
  for (const word of [name, ...Object.keys(dimensions)]) {
    if (!/^[\w.-]+$/.test(word)) throw new TypeError(`${word}: letters, digits, _ . - only`);
  }
  const limiter = new Limiter(store, name, options);
  const rules = Object.entries(dimensions).map(([dimension, { by, ...rule }]) => ({
    dimension,
    by,
    text: textOf({ name: `${name}.${dimension}`, ...rule }),
  }));

  /** @param {Request} req */
  const limitsOf = (req) =>
    rules.flatMap(({ dimension, by, text }) => {
      const value = by?.(req);
      if (by && value == null) return [];
      const key = keyOf(name, dimension, by && String(value));
      return [{ dimension, key, rule: text, id: `${key} ${text}` }];
    });

  return async (req, res, next) => {
    const limits = limitsOf(req);
    if (limits.length === 0) return next();
    /** @type {Decision} */
    let decision;
    try {
      decision = await limiter.acquire(limits);
    } catch (error) {
      if (!(error instanceof Away)) throw error;
      return limiter.onAway === 'open' ? next() : unavailable(res);
    }
    for (const [header, value] of Object.entries(headersOf(decision))) res.append(header, value);
    return decision.granted ? next() : refused(res, decision);
  };
}

/**
 * The client's address: the socket's, or, behind proxies that the application trusts (`trust
 * proxy`), the one they give. Of an IPv6 address its /64: that is what one customer gets, and can
 * choose from freely.
 *
 * @param {Request} req
 */
export function byIp({ ip = 'unknown' }) {
  const address = ip.replace(/^::ffff:(?=[\d.]+$)/i, '');
  if (!isIPv6(address)) return address;
  // The URL parser knows the one way to write an address.
  const { hostname } = new URL(`http://[${address.split('%')[0]}]`);
  const [front, back = []] = hostname
    .slice(1, -1)
    .split('::')
    .map((half) => half.split(':').filter(Boolean));
  const zeros = Array(8 - front.length - back.length).fill('0');
  return [...front, ...zeros, ...back].slice(0, 4).join(':') + '::/64';
}

/**
 * The problem type that the draft of the headers defines for a refusal.
 *
 * @param {Response} res
 * @param {Decision} decision
 */
function refused(res, { limits, binding }) {
  res
    .status(429)
    .type('application/problem+json')
    .json({
      type: 'https://iana.org/assignments/http-problem-types#quota-exceeded',
      title: 'Request cannot be satisfied as assigned quota has been exceeded',
      status: 429,
      'violated-policies': [limits[binding].dimension],
    });
}

/** @param {Response} res */
function unavailable(res) {
  res
    .status(503)
    .set('Retry-After', '1')
    .type('application/problem+json')
    .json({ title: 'Service Unavailable', status: 503 });
}
