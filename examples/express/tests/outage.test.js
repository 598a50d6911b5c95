/**
 * Redis is killed, or hangs: requests are still answered, in time, and limited again afterwards.
 */

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { AppServer, RedisServer, waitFor } from './servers.js';
import { flood } from './traffic.js';

const TIME = 2200;
const CONNECTIONS = 4;

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
 * When the limiter was said to be away, and for how many requests.
 *
 * @param {string} name
 */
function logged(name) {
  const lines = app.log.matchAll(
    new RegExp(`^(\\d+) rate limiter away for '${name}': (\\d+) request`, 'gm'),
  );
  return Array.from(lines, ([, when, count]) => ({ when: Number(when), count: Number(count) }));
}

/** @param {string} name */
async function limitedAgain(name) {
  let unlimited = false;
  await waitFor(
    `limit on ${name}`,
    async () => {
      const limited = (await fetch(`${app.url}/${name}`)).headers.has('ratelimit');
      unlimited ||= !limited;
      return limited;
    },
    3000,
  );
  if (unlimited) await sleep(1100); // until the log has told of those requests
}

/**
 * A flood of two seconds while Redis is away, and what must be true of it but for the time.
 *
 * @param {string} how
 * @param {string[]} names
 */
async function outage(how, names) {
  await server.client.flushall();
  for (const name of names) await limitedAgain(name); // warm, and not shut out by a breaker
  const linesBefore = names.map((name) => logged(name).length);
  const { tries: before } = await app.stats();

  await server.send(how === 'kill' ? 'SIGKILL' : 'SIGSTOP');
  try {
    const end = performance.now() + TIME;
    const options = { more: () => performance.now() < end, connections: CONNECTIONS, pause: 20 };
    const answers = await Promise.all(names.map((name) => flood(app.url, `/${name}`, options)));
    const { tries } = await app.stats();

    for (const [i, name] of names.entries()) {
      // The breaker is open: five failures, with others under way, then one try a second.
      const key = `rl:{${name}}:all`;
      const tried = tries[key] - before[key];
      assert.ok(tried >= 5 && tried <= 5 + CONNECTIONS + TIME / 1000, `${tried} tries`);
      // The log has every request, in one line a second, though there is no more traffic.
      const lines = () => logged(name).slice(linesBefore[i]);
      const sum = () => lines().reduce((sum, { count }) => sum + count, 0);
      await waitFor('sum', () => sum() === answers[i].length, 3000);
      assert.equal(lines()[0].count, 1);
      lines().reduce((line, next) => {
        assert.ok(next.when - line.when >= 990);
        return next;
      });
    }
    return answers;
  } finally {
    await (how === 'kill' ? server.start() : server.send('SIGCONT'));
  }
}

for (const how of ['kill', 'stop']) {
  test(`${how}: the mode applies in time and the limit comes back`, async (t) => {
    const names = [`${how}-open`, `${how}-closed`];
    let [open, closed] = await outage(how, names);
    const slowest = () => Math.max(...[...open, ...closed].map(({ ms }) => ms));
    if (slowest() >= 100) {
      // Measured once more if the machine was busy elsewhere.
      await sleep(1100); // until the log is done with this outage
      [open, closed] = await outage(how, names);
    }
    t.diagnostic(`${open.length + closed.length} requests, the slowest ${slowest().toFixed()} ms`);
    assert.ok(slowest() < 100);
    for (const { status, headers } of open) {
      assert.deepEqual([status, headers.ratelimit], [200, undefined]);
    }
    for (const { status, headers } of closed) {
      assert.deepEqual([status, headers.ratelimit], [503, undefined]);
      assert.equal(headers['retry-after'], '1');
    }

    for (const name of names) {
      await limitedAgain(name);
      // A server that hung carries out what it was sent, so some permits may be gone.
      const statuses = [];
      for (let i = 0; i < 20; i++) statuses.push((await fetch(`${app.url}/${name}`)).status);
      assert.equal(statuses.at(-1), 429);
      assert.equal(statuses[0], 200);
    }
  });
}

test('what was under way is not sent again', async () => {
  const path = 'under-way';
  await limitedAgain(path);
  await server.send('SIGSTOP');
  await Promise.all([1, 2, 3].map(() => fetch(`${app.url}/${path}`)));
  await server.send('SIGKILL');
  await server.start();
  await limitedAgain(path);
  // One, and one more if the machine was busy elsewhere; but not those three.
  assert.ok((await server.calls('rl.acquirex')) <= 2);
});
