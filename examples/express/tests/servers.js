/**
 * The servers of the tests, each with a folder of its own: redis-server with the module, a cluster
 * of three, and an application in a process of its own.
 */

import assert from 'node:assert/strict';
import { execFile, fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { Redis } from 'ioredis';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const SERVER = process.env.RL_TEST_SERVER ?? 'redis-server';
const MODULE = resolve(
  process.env.RL_TEST_MODULE ?? join(ROOT, '../../target/release/libredis_rl.so'),
);
const CLI = SERVER.includes('/') ? join(dirname(SERVER), 'redis-cli') : 'redis-cli';

/**
 * @template T
 * @param {string} what
 * @param {() => T | Promise<T>} done
 * @param {number} ms
 */
export async function waitFor(what, done, ms = 10_000) {
  const deadline = performance.now() + ms;
  for (;;) {
    const result = await done();
    if (result) return result;
    assert.ok(performance.now() < deadline, `no ${what} within ${ms} ms`);
    await sleep(10);
  }
}

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = /** @type {import('node:net').AddressInfo} */ (server.address());
  server.close();
  await once(server, 'close');
  return port;
}

export class RedisServer {
  /** @type {any} */
  #process;
  #args;
  #folder;

  /**
   * @param {string} folder
   * @param {number} port
   * @param {string[]} args
   */
  constructor(folder, port, args) {
    this.#folder = folder;
    this.#args = [
      '--port',
      `${port}`,
      '--bind',
      '127.0.0.1',
      '--save',
      '',
      '--dir',
      folder,
      ...args,
    ];
    this.port = port;
    this.url = `redis://127.0.0.1:${port}`;
    this.client = new Redis(this.url, { lazyConnect: true, retryStrategy: () => 20 });
    this.client.on('error', () => {});
  }

  /**
   * @param {{ args?: string[], module?: boolean }} [options]
   */
  static async start({ args = [], module = true } = {}) {
    const folder = await mkdtemp(join(tmpdir(), 'redis-rl-'));
    const load = module ? ['--loadmodule', MODULE] : [];
    const server = new RedisServer(folder, await freePort(), [...load, ...args]);
    try {
      await server.start();
    } catch (error) {
      await server.stop();
      throw error;
    }
    return server;
  }

  async start() {
    this.#process = spawn(SERVER, this.#args, { stdio: ['ignore', 'pipe', 'inherit'] });
    let log = '';
    this.#process.stdout?.on('data', (/** @type {Buffer} */ data) => (log += data));
    await waitFor('Redis', () => {
      assert.equal(this.#process.exitCode, null, log);
      return log.includes('Ready to accept connections');
    });
    await this.client.ping();
  }

  /** @param {NodeJS.Signals} signal */
  async send(signal) {
    this.#process.kill(signal);
    if (signal === 'SIGKILL') await once(this.#process, 'exit');
  }

  async stop() {
    this.client.disconnect();
    if (this.#process.exitCode === null && this.#process.signalCode === null) {
      await this.send('SIGKILL');
    }
    await rm(this.#folder, { recursive: true });
  }

  /** @param {string} command */
  async calls(command) {
    const stats = await this.client.info('commandstats');
    return Number(stats.split(`cmdstat_${command}:calls=`)[1]?.split(',')[0] ?? 0);
  }

  /** How many commands the server has carried out. */
  async commands() {
    const stats = await this.client.info('stats');
    return Number(/total_commands_processed:(\d+)/.exec(stats)?.[1]);
  }

  async moved() {
    const stats = await this.client.info('errorstats');
    return Number(/errorstat_MOVED:count=(\d+)/.exec(stats)?.[1] ?? 0);
  }

  /** @param {string[]} args the keys and the rules */
  async peek(...args) {
    return /** @type {any[]} */ (await this.client.call('RL.PEEK', ...args));
  }
}

export async function startCluster() {
  const args = ['--cluster-enabled', 'yes', '--cluster-node-timeout', '2000'];
  args.push('--cluster-require-full-coverage', 'no');
  /** @type {RedisServer[]} */
  const nodes = [];
  for (let i = 0; i < 3; i++) {
    const bus = ['--cluster-port', String(await freePort())];
    nodes.push(await RedisServer.start({ args: [...args, ...bus] }));
  }
  const addresses = nodes.map((node) => `127.0.0.1:${node.port}`);
  await promisify(execFile)(CLI, ['--cluster', 'create', ...addresses, '--cluster-yes']);
  for (const node of nodes) {
    await waitFor('cluster', async () =>
      /** @type {string} */ (await node.client.cluster('INFO')).includes('cluster_state:ok'),
    );
  }
  return nodes;
}

/**
 * Another way to a server, by which each of its replies takes longer.
 *
 * @param {RedisServer} server
 * @param {number} ms
 */
export async function farAway(server, ms) {
  const proxy = createServer((client) => {
    const redis = connect(server.port, '127.0.0.1');
    client.on('data', (data) => redis.write(data));
    redis.on('data', (data) => setTimeout(() => client.write(data), ms));
    for (const [socket, other] of [
      [client, redis],
      [redis, client],
    ]) {
      socket.on('error', () => {});
      socket.on('close', () => other.destroy());
    }
  }).listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  const { port } = /** @type {import('node:net').AddressInfo} */ (proxy.address());
  return { url: `redis://127.0.0.1:${port}`, stop: () => proxy.close() };
}

/** An application in a process of its own. It trusts 127.0.0.2 as a proxy, and nobody else. */
export class AppServer {
  #process;
  log = '';
  url = '';

  /**
   * @param {string} file
   * @param {Record<string, string>} env
   */
  constructor(file, env) {
    const all = { ...process.env, PORT: '0', TRUST_PROXY: '127.0.0.2', ...env };
    this.#process = fork(join(ROOT, file), { env: all, stdio: 'pipe' });
    for (const stream of [this.#process.stdout, this.#process.stderr]) {
      stream?.on('data', (data) => (this.log += data));
    }
  }

  /**
   * @param {string} redis
   * @param {Record<string, string>} [env]
   */
  static async start(redis, env = {}, file = 'tests/app.js') {
    const app = new AppServer(file, { REDIS_URL: redis, ...env });
    const listening = () => {
      assert.equal(app.#process.exitCode, null, app.log);
      return /listening on (\S+)/.exec(app.log)?.[1];
    };
    try {
      app.url = /** @type {string} */ (await waitFor('application', listening));
    } catch (error) {
      await app.stop();
      throw error;
    }
    return app;
  }

  /** @returns {Promise<any>} */
  async stats() {
    return (await fetch(`${this.url}/stats`)).json();
  }

  async stop() {
    if (this.#process.exitCode !== null) return;
    this.#process.kill('SIGKILL');
    await once(this.#process, 'exit');
  }
}
