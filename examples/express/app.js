/**
 * A small API whose routes are limited. Run it with `npm start`.
 */

import express from 'express';
import { byIp, connect, rateLimit } from './ratelimit/index.js';

const {
  PORT = '3000',
  REDIS_URL = 'redis://127.0.0.1:6379',
  REDIS_CLUSTER,
  REDIS_TIMEOUT_MS = '50',
  TRUST_PROXY = '',
} = process.env;

const store = connect(REDIS_URL, {
  cluster: REDIS_CLUSTER === '1',
  timeout: Number(REDIS_TIMEOUT_MS),
});

/**
 * A real application asks its authentication: a name that anybody can make up is no limit.
 *
 * @param {express.Request} req
 */
const byApiKey = (req) => req.get('x-api-key');

const limits = {
  // Guards something that breaks: without its limits the route rather answers 503.
  login: rateLimit(
    store,
    'login',
    {
      ip: { window: '1m', limit: 5, algo: 'sliding', by: byIp },
      all: { window: '1s', limit: 100, algo: 'bucket' },
    },
    { onAway: 'closed' },
  ),
  // Shares out a capacity: without its limits the route goes on.
  search: rateLimit(store, 'search', {
    user: { window: '1s', limit: 5, algo: 'bucket', burst: 20, by: byApiKey },
    ip: { window: '1m', limit: 600, algo: 'sliding', by: byIp },
  }),
  // Busy, and a few permits unused are no harm: one call of Redis for up to 20 requests.
  feed: rateLimit(
    store,
    'feed',
    { all: { window: '1s', limit: 2000, algo: 'bucket' } },
    { batch: 20 },
  ),
};

const app = express();
app.set('trust proxy', TRUST_PROXY || false);

app.post('/login', limits.login, (req, res) => void res.json({ token: '...' }));
app.get('/search', limits.search, (req, res) => void res.json({ found: [req.query.q] }));
app.get('/feed', limits.feed, (req, res) => void res.json({ items: [] }));

await store.warmUp();
const server = app.listen(Number(PORT), '127.0.0.1', () => {
  console.log(`listening on http://127.0.0.1:${/** @type {any} */ (server.address()).port}`);
});

process.once('SIGTERM', () => {
  server.close();
  store.close();
});
