/**
 * The application under test: a route for each situation, and what happened inside.
 *
 * REDIS_URL, REDIS_CLUSTER, PORT and TRUST_PROXY are as for ../app.js.
 */

import express from 'express';
import { Redis } from 'ioredis';
import { DenyCache } from '../ratelimit/deny-cache.js';
import { byIp, connect, rateLimit } from '../ratelimit/index.js';

/**
 * @import { Dimension } from '../ratelimit/middleware.js'
 * @import { Limit } from '../ratelimit/rules.js'
 * @import { Store } from '../ratelimit/store.js'
 */

const url = process.env.REDIS_URL ?? '';
const cluster = process.env.REDIS_CLUSTER === '1';
const log = { warn: (/** @type {string} */ line) => console.log(`${Date.now()} ${line}`) };

// Where requests are counted exactly, a busy machine must not look like an outage.
const patient = connect(url, { cluster, log, timeout: 1000 });
// Where time is measured, the default holds. (Not on a cluster: when a node fails, the others are
// slow for a moment, since they write that to their disks.)
const store = connect(url, { cluster, log, timeout: cluster ? 200 : 50 });

// --- Which calls are tried -----------------------------------------------------------------------

/** @type {Record<string, number>} */
const tries = {};
const acquire = store.acquire.bind(store);
store.acquire = (/** @type {Limit[]} */ limits, /** @type {number} */ upTo) => {
  tries[limits[0].key] = (tries[limits[0].key] ?? 0) + 1;
  return acquire(limits, upTo);
};

// --- Whether the server agrees with what the deny cache refuses ----------------------------------

const peeks = { refused: 0, right: 0, wrong: 0, tooLate: 0 };
const server = new Redis(url);

/**
 * About every tenth refusal, and about each of the last ones before permits come back.
 *
 * @param {DenyCache} cache
 * @param {import('../ratelimit/decision.js').Decision} denial
 */
async function check({ denials }, { limits: [limit], retryAfter }) {
  peeks.refused += 1;
  if (peeks.refused % 10 && retryAfter > 20) return;
  const until = denials.get(limit.id)?.until ?? 0;
  const [granted] = /** @type {number[]} */ (await server.call('RL.PEEK', limit.key, limit.rule));
  // The answer means something only if it came before the memory of the denial ended.
  if (performance.now() >= until) peeks.tooLate += 1;
  else peeks[granted ? 'wrong' : 'right'] += 1;
}

const { find } = DenyCache.prototype;
DenyCache.prototype.find = function (/** @type {Limit[]} */ limits) {
  const denial = find.call(this, limits);
  if (denial && !cluster) void check(this, denial);
  return denial;
};

// --- Routes --------------------------------------------------------------------------------------

/** @param {express.Request} req */
const byUser = (req) => req.get('x-user');

/** @type {(window: string, limit: number, more?: Partial<Dimension>) => Dimension} */
const sliding = (window, limit, more) => ({ window, limit, algo: 'sliding', ...more });

const app = express();
app.set('trust proxy', process.env.TRUST_PROXY);

/**
 * @param {Store} store
 * @param {string} name
 * @param {Record<string, Dimension>} dimensions
 * @param {import('../ratelimit/limiter.js').Options} [options]
 */
function route(store, name, dimensions, options) {
  const limit = rateLimit(store, name, dimensions, options);
  app.get(`/${name}`, limit, (_req, res) => void res.send('hello'));
}

route(patient, 'burst', { all: sliding('2s', 20) });
route(
  patient,
  'two',
  { ip: sliding('1h', 5, { by: byIp }), user: sliding('1h', 3, { by: byUser }) },
  { denyCache: false },
);
route(patient, 'headers', {
  ip: { window: '90500ms', limit: 9, algo: 'bucket', burst: 12, cost: 2, by: byIp },
  user: sliding('1h', 100, { name: 'named', by: byUser }),
});
route(patient, 'never', { all: sliding('1m', 5, { cost: 6 }) });
route(patient, 'bad', { all: sliding('1m', -1) });
route(patient, 'xff', { ip: sliding('1h', 100, { by: byIp }) });
route(patient, 'shadow', { all: sliding('1h', 1), user: sliding('1h', 2, { by: byUser }) });
route(patient, 'memory', { user: { window: '1h', limit: 2, algo: 'bucket', by: byUser } });
route(patient, 'attack', { all: sliding('1s', 10) });
route(patient, 'batch', { all: sliding('1h', 100) }, { batch: 10, batchTtl: 1000 });
route(patient, 'shared', { all: sliding('1h', 100) }, { batch: 10, batchTtl: 1000 });
route(patient, 'ttl', { all: sliding('1h', 100) }, { batch: 10 });
for (const how of ['kill', 'stop']) {
  route(store, `${how}-open`, { all: sliding('1h', 20) });
  route(store, `${how}-closed`, { all: sliding('1h', 20) }, { onAway: 'closed' });
}
route(store, 'under-way', { all: sliding('1h', 20) });
if (cluster) {
  for (let n = 0; n < 300; n++) route(patient, `slot-${n}`, { all: sliding('1h', 2) });
  for (let n = 0; n < 20; n++) route(store, `hang-${n}`, { all: sliding('1h', 1000) });
}

app.get('/stats', (_req, res) => void res.json({ tries, peeks }));

await Promise.all([store.warmUp(), patient.warmUp()]);
const listener = app.listen(Number(process.env.PORT), '127.0.0.1', () => {
  const { port } = /** @type {import('node:net').AddressInfo} */ (listener.address());
  console.log(`listening on http://127.0.0.1:${port}`);
});
