/**
 * Permits fetched in advance.
 */

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { AppServer, RedisServer } from './servers.js';

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
  // Ten fetches of ten, and one that is denied.
  assert.equal(await server.calls('rl.acquirex'), 11);
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
