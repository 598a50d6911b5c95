/**
 * Permits fetched in advance.
 */

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { headersOf } from '../ratelimit/decision.js';
import { connect } from '../ratelimit/index.js';
import { Limiter } from '../ratelimit/limiter.js';
import { keyOf, textOf } from '../ratelimit/rules.js';
import { AppServer, RedisServer, farAway } from './servers.js';

/** @type {RedisServer} */
let server;
/** @type {AppServer[]} */
let apps;

before(async () => {
  server = await RedisServer.start();
  apps = await Promise.all([AppServer.start(server.url), AppServer.start(server.url)]);
});

after(async () => {
  await Promise.all((apps ?? []).map((app) => app.stop()));
  await server?.stop();
});

/**
 * How many of a burst pass.
 *
 * @param {AppServer} app
 * @param {string} path
 * @param {number} count
 */
async function burst(app, path, count) {
  const answers = await Promise.all(Array.from({ length: count }, () => fetch(app.url + path)));
  const statuses = answers.map((answer) => answer.status);
  assert.ok(statuses.every((status) => status === 200 || status === 429));
  return statuses.filter((status) => status === 200).length;
}

test('a burst passes exactly the limit with few calls', async () => {
  assert.equal(await burst(apps[0], '/batch', 150), 100);
  // Ten fetches of ten, and one that is denied; or fewer, since one asks for all who wait.
  assert.ok((await server.calls('rl.acquirex')) <= 11);
});

test('two processes pass no more than the limit', async () => {
  const passed = await Promise.all(apps.map((app) => burst(app, '/shared', 80)));
  const sum = passed[0] + passed[1];
  assert.ok(passed.every((count) => count >= 10));
  // Each may sit on what is left of its last batch.
  assert.ok(sum <= 100 && sum >= 100 - 2 * 9, `${sum} passed`);
});

test('a batch is dropped after its time', async () => {
  const before = await server.calls('rl.acquirex');
  await burst(apps[0], '/ttl', 1);
  await sleep(100); // batchTtl, by default
  await burst(apps[0], '/ttl', 1);
  assert.equal((await server.calls('rl.acquirex')) - before, 2);
});

// Each fetch gets a few permits, so none is ever denied, while ever more requests wait.
test('overload is refused and no outage', async (t) => {
  const proxy = await farAway(server, 2);
  t.after(() => proxy.stop());
  /** @type {string[]} */
  const warnings = [];
  const log = { warn: (/** @type {string} */ line) => warnings.push(line) };
  const store = connect(proxy.url, { timeout: 250, log }); // for a busy machine
  t.after(() => store.close());
  await store.warmUp();
  const limiter = new Limiter(store, 'overload', { batch: 20 });
  const rule = textOf({ window: '1s', limit: 2000, algo: 'bucket', burst: 100 });
  const limits = [{ dimension: 'all', key: keyOf('overload', 'all'), rule, id: 'all' }];

  const callsBefore = await server.calls('rl.acquirex');
  const requests = [];
  const start = performance.now();
  for (let ms = 0; ms < 1000; ms = performance.now() - start) {
    while (requests.length < 6 * ms) requests.push(limiter.acquire(limits)); // 6000 a second
    await sleep(1);
  }
  const decisions = await Promise.all(requests);
  const seconds = (performance.now() - start) / 1000;
  const calls = (await server.calls('rl.acquirex')) - callsBefore;
  const passed = decisions.filter(({ granted }) => granted === 1);
  const refused = decisions.filter(({ granted }) => granted === 0);
  t.diagnostic(`${passed.length} passed, ${refused.length} refused, ${calls} calls`);

  assert.deepEqual(warnings, []);
  assert.equal(passed.length + refused.length, decisions.length);
  assert.ok(passed.length > 1000 * seconds && passed.length <= 100 + 2000 * seconds);
  assert.ok(refused.length > 1000);
  for (const headers of refused.map(headersOf)) {
    assert.equal(headers['Retry-After'], '1');
    assert.equal(headers.RateLimit, '"all";r=0;t=1');
  }
});
