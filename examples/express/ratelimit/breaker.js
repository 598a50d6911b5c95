/**
 * A circuit breaker: stops asking after some failures in a row, and tries again now and then.
 */

export class Breaker {
  #threshold;
  #cooldown;
  #failures = 0;
  #openUntil = 0;
  reason = '';

  /**
   * @param {number} failures in a row that open it
   * @param {number} cooldown in milliseconds
   */
  constructor(failures, cooldown) {
    this.#threshold = failures;
    this.#cooldown = cooldown;
  }

  allows() {
    if (this.#failures < this.#threshold) return true;
    const now = performance.now();
    if (now < this.#openUntil) return false;
    // Half-open: this caller tries, the others are turned away until it reports.
    this.#openUntil = now + this.#cooldown;
    return true;
  }

  succeeded() {
    this.#failures = 0;
  }

  /** @param {string} reason */
  failed(reason) {
    this.#failures += 1;
    this.#openUntil = performance.now() + this.#cooldown;
    this.reason = reason;
  }
}
