/**
 * An attacker who does not stop when refused costs Redis next to nothing.
 */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AppServer, RedisServer } from './servers.js';
import { flood } from './traffic.js';

const REQUESTS = 10_000;
const LIMIT = 10;
const WINDOW = 1000;

test('refusals stay local and refuse nothing that would be granted', async (t) => {
  const server = await RedisServer.start();
  t.after(() => server.stop());
  const app = await AppServer.start(server.url);
  t.after(() => app.stop());

  const start = performance.now();
  // Long enough to see permits come back.
  const more = (/** @type {number} */ refused) =>
    refused < REQUESTS || performance.now() < start + 2.2 * WINDOW;
  const answers = await flood(app.url, '/attack', { more, connections: 16 });
  const windows = (performance.now() - start) / WINDOW;
  const calls = await server.calls('rl.acquirex');
  const { peeks } = await app.stats();
  const passed = answers.filter(({ status }) => status === 200).length;
  const refused = answers.filter(({ status }) => status === 429).length;
  t.diagnostic(
    `${passed} passed, ${refused} refused in ${windows.toFixed(1)} windows, ${calls} calls, ` +
      `RL.PEEK: ${JSON.stringify(peeks)}`,
  );

  assert.equal(passed + refused, answers.length);
  assert.ok(calls <= refused * 0.05);
  // The server agreed with each refusal that it was asked about.
  assert.equal(peeks.wrong, 0);
  assert.ok(peeks.right > REQUESTS * 0.08);
  // All permits were delivered, as they came back, and no more.
  assert.ok(passed >= LIMIT * Math.floor(0.95 * windows));
  assert.ok(passed <= LIMIT * (Math.floor(windows) + 1));
});
