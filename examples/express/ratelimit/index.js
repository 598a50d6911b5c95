/**
 * Rate limiting of Express routes by redis-rl: a middleware, on ioredis.
 */

export { byIp, rateLimit } from './middleware.js';
export { connect } from './store.js';
