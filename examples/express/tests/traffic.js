/**
 * Many requests.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import { Pool } from 'undici';

/**
 * Each connection sends one request after the other while `more(refused so far)`.
 *
 * @param {string} url
 * @param {string} path
 * @param {{ more: (refused: number) => boolean, connections: number, pause?: number }} options
 */
export async function flood(url, path, { more, connections, pause = 0 }) {
  const pool = new Pool(url, { connections });
  /** @type {{ status: number, headers: Record<string, unknown>, ms: number }[]} */
  const answers = [];
  let refused = 0;
  const run = async () => {
    while (more(refused)) {
      const start = performance.now();
      const { statusCode, headers, body } = await pool.request({ path, method: 'GET' });
      await body.dump();
      answers.push({ status: statusCode, headers, ms: performance.now() - start });
      if (statusCode === 429) refused += 1;
      if (pause) await sleep(pause);
    }
  };
  await Promise.all(Array.from({ length: connections }, run));
  await pool.close();
  return answers;
}
