/**
 * What a client sees while Redis is there.
 */

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { Agent, request } from 'undici';
import { byIp } from '../ratelimit/index.js';
import { keyOf } from '../ratelimit/rules.js';
import { AppServer, RedisServer } from './servers.js';

/** @type {RedisServer} */
let server;
/** @type {AppServer} */
let app;

before(async () => {
  server = await RedisServer.start();
  app = await AppServer.start(server.url);
});

after(async () => {
  await app?.stop();
  await server?.stop();
});

/**
 * @param {string} path
 * @param {Record<string, string>} [headers]
 */
const get = (path, headers = {}) => fetch(app.url + path, { headers });

/**
 * @param {number} count
 * @param {() => Promise<Response>} ask
 */
const burst = (count, ask) => Promise.all(Array.from({ length: count }, ask));

test('exactly the limit of a burst passes', async () => {
  const answers = await burst(60, () => get('/burst'));
  const passed = answers.filter((answer) => answer.status === 200);
  const refused = answers.filter((answer) => answer.status === 429);
  assert.deepEqual([passed.length, refused.length], [20, 40]);
  for (const { headers } of answers) {
    assert.equal(headers.get('ratelimit-policy'), '"all";q=20;w=2');
  }
  const left = passed.map(({ headers }) => headers.get('ratelimit')?.split(';t=')[0]);
  assert.deepEqual(new Set(left), new Set(Array.from({ length: 20 }, (_, i) => `"all";r=${i}`)));
  for (const answer of refused) {
    const wait = answer.headers.get('retry-after') ?? '';
    assert.match(wait, /^[12]$/);
    assert.equal(answer.headers.get('ratelimit'), `"all";r=0;t=${wait}`);
    assert.match(answer.headers.get('content-type') ?? '', /^application\/problem\+json/);
    const problem = /** @type {any} */ (await answer.json());
    assert.deepEqual(problem['violated-policies'], ['all']);
  }

  // Who waits as told gets through.
  await sleep(1000 * Number(refused.at(-1)?.headers.get('retry-after')));
  assert.equal((await get('/burst')).status, 200);
});

test('two dimensions refuse on their own and leak nothing', async () => {
  const statuses = async (/** @type {string} */ user) => {
    const answers = await burst(13, () => get('/two', { 'x-user': user }));
    return answers.filter((answer) => answer.status === 200).length;
  };
  // With COST 0, since RL.PEEK answers what a call would, and that would take a permit.
  const remaining = async (/** @type {string} */ key, /** @type {number} */ limit) =>
    (await server.peek(key, `WINDOW 1h LIMIT ${limit} ALGO sliding COST 0`))[2];

  assert.equal(await statuses('ann'), 3);
  assert.equal(await remaining(keyOf('two', 'ip', '127.0.0.1'), 5), 2); // refusals took nothing
  assert.equal(await statuses('bob'), 2);
  assert.equal(await remaining(keyOf('two', 'user', 'bob'), 3), 1); // nor here
});

test('the headers say what the server says', async () => {
  for (let i = 0; i < 2; i++) {
    // RL.PEEK answers what the next call will.
    const reply = await server.peek(
      keyOf('headers', 'ip', '127.0.0.1'),
      keyOf('headers', 'user', 'ann'),
      'WINDOW 90500ms LIMIT 9 ALGO bucket BURST 12 COST 2 WINDOW 1h LIMIT 100 ALGO sliding WITHKEYS',
    );
    const { status, headers } = await get('/headers', { 'x-user': 'ann' });
    assert.equal(status, 200);
    const [ip, user] = reply[6].map(
      (/** @type {number[]} */ [, , left, , reset]) => `r=${left};t=${Math.ceil(reset / 1000)}`,
    );
    assert.equal(headers.get('ratelimit-policy'), '"ip";q=9;w=91, "user";q=100;w=3600');
    assert.equal(headers.get('ratelimit'), `"ip";${ip}, "user";${user}`);
    assert.equal(headers.get('retry-after'), null);
  }
});

test('what can never be granted has no Retry-After', async () => {
  for (let i = 0; i < 2; i++) {
    // The second time from the deny cache.
    const { status, headers } = await get('/never');
    assert.equal(status, 429);
    assert.equal(headers.get('retry-after'), null);
    assert.equal(headers.get('ratelimit'), '"all";r=5');
  }
});

test('a bug of the caller is an error and not an outage', async () => {
  for (let i = 0; i < 10; i++) assert.equal((await get('/bad')).status, 500);
  assert.match(app.log, /ReplyError\]?: ERR LIMIT must be 0 to 1000000000000, got '-1'/);
  assert.doesNotMatch(app.log, /rate limiter away for 'bad'/);
});

test('a full memory stops only new limiters', async () => {
  const ask = (/** @type {string} */ user) => get('/memory', { 'x-user': user });
  assert.equal((await ask('ann')).status, 200);
  await server.client.config('SET', 'maxmemory', 1);
  try {
    for (let i = 0; i < 10; i++) {
      // More than would open the breaker.
      const { status, headers } = await ask('bob');
      assert.deepEqual([status, headers.get('ratelimit')], [200, null]);
    }
    assert.deepEqual([(await ask('ann')).status, (await ask('ann')).status], [200, 429]);
  } finally {
    await server.client.config('SET', 'maxmemory', 0);
  }
});

test('X-Forwarded-For counts only from a trusted proxy', async () => {
  const used = async (/** @type {string} */ peer, /** @type {string} */ forwarded) => {
    await server.client.flushall();
    const dispatcher = new Agent({ localAddress: peer });
    const headers = { 'x-forwarded-for': forwarded };
    await request(`${app.url}/xff`, { dispatcher, headers });
    await dispatcher.close();
    return server.client.keys('*');
  };
  const key = (/** @type {string} */ ip) => [keyOf('xff', 'ip', ip)];

  assert.deepEqual(await used('127.0.0.1', '203.0.113.7'), key('127.0.0.1'));
  assert.deepEqual(await used('127.0.0.2', '203.0.113.7'), key('203.0.113.7'));
  // Only the rightmost untrusted address is beyond the client's control.
  const three = '198.51.100.1, 203.0.113.7, 127.0.0.2';
  assert.deepEqual(await used('127.0.0.2', three), key('203.0.113.7'));
});

test('IPv6 addresses count by /64', () => {
  const of = (/** @type {string} */ ip) => byIp(/** @type {any} */ ({ ip }));
  assert.equal(of('2001:db8:1:2:3:4:5:6'), '2001:db8:1:2::/64');
  assert.equal(of('2001:DB8:0001::6'), '2001:db8:1:0::/64');
  assert.equal(of('::1'), '0:0:0:0::/64');
  assert.equal(of('1::'), '1:0:0:0::/64');
  assert.equal(of('fe80::1%eth0'), 'fe80:0:0:0::/64');
  assert.equal(of('::ffff:192.0.2.7'), '192.0.2.7');
  assert.equal(of('192.0.2.7'), '192.0.2.7');
});

test('a shadowed key is not taken for the one that denied', async () => {
  const policy = ['shadow.all', 'WINDOW', '1h', 'LIMIT', 1, 'ALGO', 'sliding', 'SHADOW'];
  await server.client.call('RL.POLICY', 'SET', ...policy);
  const statuses = [];
  for (const user of ['ann', 'ann', 'ann', 'bob']) {
    statuses.push((await get('/shadow', { 'x-user': user })).status);
  }
  assert.deepEqual(statuses, [200, 200, 429, 200]);
});

test('users choose neither the slot nor the length of a key', () => {
  const values = ['{other}', 'a}b{c', 'x'.repeat(1_000_000), 'é'.repeat(60), '#', '\ud800'];
  for (const value of values) {
    const key = keyOf('login', 'user', value);
    assert.match(key, /^rl:\{login\}:user:[^{} \r\n]{1,65}$/);
    assert.notEqual(key, keyOf('login', 'user', `${value}x`));
  }
});

test('the application of the README', async () => {
  const example = await AppServer.start(server.url, { REDIS_TIMEOUT_MS: '1000' }, 'app.js');
  try {
    const statuses = [];
    for (let i = 0; i < 6; i++) {
      statuses.push((await fetch(`${example.url}/login`, { method: 'POST' })).status);
    }
    assert.deepEqual(statuses, [200, 200, 200, 200, 200, 429]);
    assert.equal((await fetch(`${example.url}/search`)).status, 200);
    assert.equal((await fetch(`${example.url}/feed`)).status, 200);
  } finally {
    await example.stop();
  }
});
