/**
 * All rules of a call are one string. Nobody hides a word of his own in it.
 */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { connect, rateLimit } from '../ratelimit/index.js';
import { textOf } from '../ratelimit/rules.js';
import { AppServer, RedisServer } from './servers.js';

/** @type {import('../ratelimit/rules.js').Rule} */
const RULE = { window: '1m', limit: 5, algo: 'bucket' };

/** @type {Record<string, any>[]} */
const HOSTILE = [
  ...['1 FORCE', '1\tFORCE', '1', '', 1.5, NaN, 2 ** 53, true, null].map((cost) => ({ cost })),
  ...['5 FORCE', Infinity].map((limit) => ({ limit })),
  ...['5 COST 0', {}].map((burst) => ({ burst })),
  ...['1m FORCE', '1m\nFORCE', ' 1m', '', ['1m FORCE'], null].map((window) => ({ window })),
  ...['bucket FORCE', 'bucket\r\n', ''].map((algo) => ({ algo })),
  ...['a b', 'a FORCE', 'a\n', '\u00a0', '', 'x'.repeat(65)].map((name) => ({ name })),
  // No rule here has a lease.
  ...['worker 1', 'worker FORCE', 'worker'].map((id) => ({ id })),
  { 'cost 0 force': 1 },
];

test('a rule that would be more than its words is refused before anything is sent', async (t) => {
  const server = await RedisServer.start();
  t.after(() => server.stop());
  const store = connect(server.url);
  t.after(() => store.close());
  await store.warmUp();
  const before = await server.commands();
  for (const option of HOSTILE) {
    const dimensions = { all: { ...RULE, ...option } };
    assert.throws(() => rateLimit(store, 'login', dimensions), TypeError, JSON.stringify(option));
  }
  for (const word of ['login FORCE', 'login\n', '', '{login}']) {
    assert.throws(() => rateLimit(store, word, { all: RULE }), TypeError);
    assert.throws(() => rateLimit(store, 'login', { [word]: RULE }), TypeError);
  }
  assert.equal(await server.commands(), before + 1); // the one that asks
});

test('equal rules are equal strings', () => {
  const text = 'WINDOW 1m LIMIT 5 ALGO bucket BURST 9 COST 2 NAME login.all';
  assert.equal(textOf({ ...RULE, burst: 9, cost: 2, name: 'login.all' }), text);
  assert.equal(textOf({ name: 'login.all', cost: 2, burst: 9, ...RULE }), text);
});

test('a route always sends the same string, which the server remembers', async (t) => {
  const server = await RedisServer.start();
  t.after(() => server.stop());
  const app = await AppServer.start(server.url);
  t.after(() => app.stop());
  for (let i = 0; i < 10; i++) {
    const headers = { 'x-user': `user-${i} FORCE` };
    assert.equal((await fetch(`${app.url}/headers`, { headers })).status, i < 6 ? 200 : 429);
  }
  // All but the last, which the deny cache refuses; each but the first two is remembered.
  assert.equal(await server.calls('rl.acquirex'), 7);
  assert.match(await server.client.info('rl'), /rl_rules_parsed:2\r/);
});
