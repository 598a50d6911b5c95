/**
 * What counts as a failure of Redis, and what does not.
 */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect } from '../ratelimit/index.js';
import { Limiter } from '../ratelimit/limiter.js';
import { keyOf, textOf } from '../ratelimit/rules.js';
import { RedisServer } from './servers.js';

/** @returns {import('../ratelimit/rules.js').Limit[]} */
const limits = (/** @type {string} */ user, limit = 5) => {
  const key = keyOf('trial', 'user', user);
  const rule = textOf({ window: '1m', limit, algo: 'sliding' });
  return [{ dimension: 'user', key, rule, id: `${key} ${rule}` }];
};

for (const trial of ['full memory', "caller's bug"]) {
  test(`any answer to the trial closes it: ${trial}`, async (t) => {
    const server = await RedisServer.start();
    t.after(() => server.stop());
    const store = connect(server.url, { timeout: 1000, log: { warn: () => {} } });
    t.after(() => store.close());
    await store.warmUp();
    const limiter = new Limiter(store, 'trial', { breakerFailures: 1, breakerCooldown: 100 });

    assert.equal((await limiter.acquire(limits('ann'))).granted, 1);
    await server.client.replicaof('127.0.0.1', 1);
    await assert.rejects(limiter.acquire(limits('ann')), /READONLY/);
    await server.client.replicaof('NO', 'ONE');
    await assert.rejects(limiter.acquire(limits('ann')), /READONLY/); // though it no longer is

    await sleep(100);
    if (trial === 'full memory') {
      await server.client.config('SET', 'maxmemory', 1);
      await assert.rejects(limiter.acquire(limits('bob')), /OOM/);
      await server.client.config('SET', 'maxmemory', 0);
    } else {
      await assert.rejects(limiter.acquire(limits('bob', -1)), /LIMIT must be/);
    }
    assert.equal((await limiter.acquire(limits('ann'))).granted, 1);
  });
}
