/**
 * One log line a second instead of one a request, while the limiter is away.
 */

const PERIOD = 1000;

/** @typedef {{ count: number, what: string, reason: string, timer: NodeJS.Timeout }} Outage */

export class OutageLog {
  #log;
  /** @type {Map<string, Outage>} */
  #outages = new Map();

  /** @param {Pick<Console, 'warn'>} log */
  constructor(log) {
    this.#log = log;
  }

  /**
   * The first request that went unchecked is logged at once, later ones are summed up. A timer
   * writes the sums, so they come out even when the traffic stops.
   *
   * @param {string} name
   * @param {string} what happened to the request: "passed unchecked", for example
   * @param {string} reason
   */
  note(name, what, reason) {
    const outage = this.#outages.get(name);
    if (outage) {
      outage.count += 1;
      Object.assign(outage, { what, reason });
    } else {
      this.#log.warn(`rate limiter away for '${name}': 1 request ${what}: ${reason}`);
      this.#watch(name);
    }
  }

  close() {
    for (const [name, { timer }] of this.#outages) {
      clearTimeout(timer);
      this.#report(name);
    }
    this.#outages.clear();
  }

  /** @param {string} name */
  #watch(name) {
    const tick = () => (this.#report(name) ? this.#watch(name) : this.#outages.delete(name));
    const timer = setTimeout(tick, PERIOD).unref();
    this.#outages.set(name, { count: 0, what: '', reason: '', timer });
  }

  /** @param {string} name */
  #report(name) {
    const { count, what, reason } = /** @type {Outage} */ (this.#outages.get(name));
    if (count === 0) return false;
    const requests = count === 1 ? '1 request' : `${count} requests`;
    this.#log.warn(
      `rate limiter away for '${name}': ${requests} ${what} in the last second: ${reason}`,
    );
    return true;
  }
}
