/**
 * The connection to Redis: one call, answered in time or not at all.
 *
 * `Away` means that there is no verdict, and the mode of the route decides. Any other error is a
 * bug of the caller and is not caught.
 */

import { once } from 'node:events';
import { Cluster, Command, Redis, ReplyError } from 'ioredis';
import { OutageLog } from './outage-log.js';
import { rulesOf } from './rules.js';

/** @import { Limit } from './rules.js' */

/** The limiter could not be asked, or could not answer. */
export class Away extends Error {
  name = 'Away';
  /** Full memory stops new limiters only, the others go on. */
  memoryFull = this.message.startsWith('OOM ');
}

/**
 * ioredis knows the commands of Redis itself only. It takes others for commands without keys, and
 * in a cluster sends them to any node, to be corrected by a MOVED two times out of three. This one
 * tells its keys, so it goes where they are.
 */
class Acquire extends Command {
  #keys;

  /**
   * @param {string[]} keys
   * @param {string} rules
   */
  constructor(keys, rules) {
    super('RL.ACQUIREX', [...keys, rules], { replyEncoding: 'utf8' });
    this.#keys = keys;
  }

  getKeys() {
    return this.#keys;
  }
}

export class Store {
  #client;
  /** @type {Error | undefined} Tells more than the error of a command that found no connection. */
  #connectionError;

  /**
   * @param {Redis | Cluster} client
   * @param {number} timeout in milliseconds
   * @param {Pick<Console, 'warn'>} log
   */
  constructor(client, timeout, log) {
    this.#client = client;
    this.timeout = timeout;
    this.outages = new OutageLog(log);
    client.on('error', (/** @type {Error} */ error) => (this.#connectionError = error));
    client.on('ready', () => (this.#connectionError = undefined));
  }

  /**
   * Takes up to `upTo` permits from every limit, or from none. Never tried twice: a call that timed
   * out may have been carried out.
   *
   * @param {Limit[]} limits
   * @param {number} upTo
   * @returns {Promise<any[]>}
   */
  async acquire(limits, upTo = 1) {
    const keys = limits.map((limit) => limit.key);
    const command = new Acquire(keys, rulesOf(limits, upTo));
    try {
      return await inTime(this.timeout, /** @type {any} */ (this.#client.sendCommand(command)));
    } catch (error) {
      throw this.#judge(/** @type {Error} */ (error));
    }
  }

  /**
   * Waits for the connection, so that the first requests find one. An application starts all the
   * same when Redis is away.
   *
   * @param {number} ms
   */
  async warmUp(ms = 1000) {
    const client = this.#client;
    const connected = async () => {
      if (client.status !== 'ready') await once(client, 'ready');
      // Each node of a cluster is connected when it is first used.
      if (client instanceof Cluster) await Promise.all(client.nodes().map((node) => node.ping()));
    };
    await inTime(ms, connected()).catch(() => {});
  }

  close() {
    this.outages.close();
    this.#client.disconnect();
  }

  /** @param {Error} error */
  #judge(error) {
    if (error instanceof ReplyError) {
      return AWAY_REPLIES.test(error.message) ? new Away(error.message) : error;
    }
    if (error instanceof Away || error instanceof TypeError) return error;
    return new Away(this.#connectionError?.message || error.message);
  }
}

const AWAY_REPLIES =
  /^(OOM|READONLY|LOADING|CLUSTERDOWN|MASTERDOWN|TRYAGAIN|MISCONF|NOREPLICAS|BUSY|ERR unknown command|ERR max number of clients) /;

/**
 * @param {string} url
 * @param {object} [options]
 * @param {boolean} [options.cluster] the URL is of a node of a cluster
 * @param {number} [options.timeout] in milliseconds, for everything that a call needs
 * @param {Pick<Console, 'warn'>} [options.log]
 * @param {import('ioredis').RedisOptions} [options.redis] further options of ioredis
 */
export function connect(url, { cluster = false, timeout = 50, log = console, redis = {} } = {}) {
  if (redis.keyPrefix || new URLSearchParams(url.split('?')[1]).has('keyPrefix')) {
    throw new TypeError('keyPrefix has no effect: ioredis does not put it on keys of RL.ACQUIREX');
  }
  /** @type {import('ioredis').RedisOptions} */
  const common = {
    // A call that is under way when the connection breaks fails. By default it is sent again.
    maxRetriesPerRequest: 0,
    // A peer that vanished is noticed after a second of silence, and not when TCP gives up.
    socketTimeout: 1000,
    ...redis,
  };
  const retryStrategy = (/** @type {number} */ times) => Math.min(50 * times, 500);
  if (!cluster) {
    // Without a connection a call fails at once, and is not kept for later.
    const client = new Redis(url, { ...common, retryStrategy, enableOfflineQueue: false });
    return new Store(client, timeout, log);
  }
  const client = new Cluster([url], {
    clusterRetryStrategy: retryStrategy,
    enableOfflineQueue: false,
    redisOptions: common,
    // What is to be tried again, must be so within the timeout, or not at all.
    maxRedirections: 3,
    retryDelayOnTryAgain: timeout / 5,
    retryDelayOnFailover: 0,
    retryDelayOnClusterDown: 0,
  });
  return new Store(client, timeout, log);
}

/**
 * @template T
 * @param {number} ms
 * @param {Promise<T>} promise
 * @returns {Promise<T>}
 */
async function inTime(ms, promise) {
  /** @type {NodeJS.Timeout | undefined} */
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Away(`no answer within ${ms} ms`)), ms);
  });
  try {
    return await Promise.race([promise, /** @type {Promise<never>} */ (late)]);
  } finally {
    clearTimeout(timer);
  }
}
