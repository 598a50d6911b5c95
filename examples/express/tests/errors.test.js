/**
 * Which errors mean that the limiter is away, and which are bugs: real replies of a real server.
 */

import assert from 'node:assert/strict';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { connect } from '../ratelimit/index.js';
import { Away } from '../ratelimit/store.js';
import { RedisServer, waitFor } from './servers.js';

const LIMIT = {
  dimension: 'all',
  key: 'rl:{errors}:all',
  rule: 'WINDOW 1m LIMIT 5 ALGO sliding',
  id: '',
};

/** @type {RedisServer} */
let server;

before(async () => {
  server = await RedisServer.start({ args: ['--enable-protected-configs', 'local'] });
});

after(() => server?.stop());

async function reply(url = server.url, warm = 1000) {
  const store = connect(url, { timeout: 1000 });
  await store.warmUp(warm);
  try {
    await store.acquire([LIMIT]);
    return 'granted';
  } catch (error) {
    return `${error instanceof Away ? 'away' : 'bug'}: ${/** @type {Error} */ (error).message}`;
  } finally {
    store.close();
  }
}

test('replies that mean away', async () => {
  const config = (/** @type {string} */ name, /** @type {string | number} */ value) =>
    server.client.config('SET', name, value);

  await config('min-replicas-to-write', 1);
  assert.match(await reply(), /^away: NOREPLICAS /);
  await config('min-replicas-to-write', 0);

  const gone = await mkdtemp(join(tmpdir(), 'gone-'));
  const [, folder] = /** @type {string[]} */ (await server.client.config('GET', 'dir'));
  await config('dir', gone);
  await rm(gone, { recursive: true });
  await config('save', '3600 1');
  await server.client.bgsave();
  await waitFor('failed save', async () =>
    (await server.client.info()).includes('rdb_last_bgsave_status:err'),
  );
  assert.match(await reply(), /^away: MISCONF /);
  await config('save', '');
  await config('dir', folder);

  await server.client.replicaof('127.0.0.1', 1);
  assert.match(await reply(), /^away: READONLY /);
  await server.client.replicaof('NO', 'ONE');

  await config('maxmemory', 1);
  assert.match(await reply(), /^away: OOM /);
  await config('maxmemory', 0);

  assert.match(await reply('redis://127.0.0.1:1', 50), /^away: connect ECONNREFUSED/);
  assert.equal(await reply(), 'granted');
});

test('a server without the module is away', async (t) => {
  const bare = await RedisServer.start({ module: false });
  t.after(() => bare.stop());
  assert.match(await reply(bare.url), /^away: ERR unknown command 'RL.ACQUIREX'/);
});

test('bugs are not taken for an outage', async () => {
  await server.client.call('ACL', 'SETUSER', 'few', 'on', '>pw', '~x', '+ping', '+info');
  assert.match(await reply(server.url.replace('//', '//few:pw@')), /^bug: NOPERM /);
  await server.client.set(LIMIT.key, 'a string');
  assert.match(await reply(), /^bug: WRONGTYPE /);
});

test('keyPrefix is refused, since it would not be put on the keys', () => {
  assert.throws(() => connect(server.url, { redis: { keyPrefix: 'app:' } }), /keyPrefix/);
  for (const cluster of [false, true]) {
    assert.throws(() => connect(`${server.url}/?keyPrefix=app:`, { cluster }), /keyPrefix/);
  }
});
