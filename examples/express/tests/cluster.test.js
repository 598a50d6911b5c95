/**
 * On a cluster each call goes straight to the right node, and a node can hang on its own.
 */

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Cluster } from 'ioredis';
import { AppServer, startCluster, waitFor } from './servers.js';

const ROUTES = Array.from({ length: 300 }, (_, n) => `slot-${n}`);
const HANGING = Array.from({ length: 20 }, (_, n) => `hang-${n}`);

/** @type {import('./servers.js').RedisServer[]} */
let nodes;
/** @type {AppServer} */
let app;

before(async () => {
  nodes = await startCluster();
  app = await AppServer.start(nodes[0].url, { REDIS_CLUSTER: '1' });
});

after(async () => {
  await app?.stop();
  await Promise.all((nodes ?? []).map((node) => node.stop()));
});

const get = (/** @type {string} */ route) => fetch(`${app.url}/${route}`);

const moved = async () => {
  const counts = await Promise.all(nodes.map((node) => node.moved()));
  return counts.reduce((sum, count) => sum + count);
};

test('calls find their node', async (t) => {
  for (const expected of [200, 200, 429]) {
    for (const route of ROUTES) {
      const { status, headers } = await get(route);
      assert.deepEqual([status, headers.has('ratelimit')], [expected, true]);
    }
  }
  const calls = await Promise.all(nodes.map((node) => node.calls('rl.acquirex')));
  t.diagnostic(`${calls.join(' + ')} calls, ${await moved()} MOVED`);
  assert.equal(
    calls.reduce((sum, count) => sum + count),
    3 * ROUTES.length,
  );
  assert.ok(calls.every((count) => count > 0.2 * 3 * ROUTES.length));
  assert.equal(await moved(), 0);
});

test('without telling the keys they would not', async (t) => {
  const client = new Cluster([nodes[0].url]);
  const before = await moved();
  for (const route of ROUTES) {
    await client.call('RL.PEEK', `rl:{${route}}:all`, 'WINDOW 1h LIMIT 2 ALGO bucket');
  }
  client.disconnect();
  const count = (await moved()) - before;
  t.diagnostic(`${count} MOVED for ${ROUTES.length} calls by client.call()`);
  assert.ok(count > ROUTES.length / 3);
});

test('a hung node takes only its own limits along', async () => {
  const unlimited = async (/** @type {string[]} */ routes) => {
    const answers = await Promise.all(routes.map(get));
    return routes.filter((_, i) => !answers[i].headers.has('ratelimit'));
  };

  assert.deepEqual(await unlimited(HANGING), []);
  const keys = await nodes[1].client.keys('*');
  const own = HANGING.filter((route) => keys.includes(`rl:{${route}}:all`));
  await nodes[1].send('SIGSTOP');
  try {
    const away = await unlimited(HANGING);
    assert.ok(own.every((route) => away.includes(route)));
    // Others at most once, if the machine was busy elsewhere.
    assert.deepEqual(await unlimited(away.filter((route) => !own.includes(route))), []);
  } finally {
    await nodes[1].send('SIGCONT');
  }
  await waitFor('limits', async () => (await unlimited(HANGING)).length === 0, 5000);
});
