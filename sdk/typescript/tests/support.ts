// Servers, stores and workers for the tests.

import { randomUUID } from "node:crypto";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { type Client, Worker, type WorkerOptions } from "selvedge";
import { Server } from "selvedge/testing";

/** The longest time for anything to happen. */
export const timeoutMs = 30_000;

/** A store of its own for one test. */
export interface Store {
  address: string;
  remove(): void;
}

function sqlite(): Store {
  const directory = mkdtempSync(join(tmpdir(), "selvedge-test-"));
  return {
    address: `sqlite:${join(directory, "test.db")}`,
    remove: () => rmSync(directory, { recursive: true, force: true }),
  };
}

function postgres(): Store {
  const server = process.env.SELVEDGE_TEST_POSTGRES ?? "";
  const name = `typescript_${randomUUID().replaceAll("-", "")}`;
  const sql = (text: string) => execFileSync("psql", ["-q", "-d", server, "-c", text], { stdio: "pipe" });
  sql(`create database ${name}`);
  const address = new URL(server);
  address.pathname = `/${name}`;
  return { address: address.href, remove: () => sql(`drop database ${name} with (force)`) };
}

const stores: Array<[string, () => Store]> = [
  ["SQLite", sqlite],
  ...(process.env.SELVEDGE_TEST_POSTGRES ? ([["Postgres", postgres]] as Array<[string, () => Store]>) : []),
];

/** Defines a test for each store, with a server that can be restarted. */
export function storeTest(name: string, run: (bed: TestBed) => Promise<void>): void {
  for (const [storeName, create] of stores) {
    test(`${name} (${storeName})`, async () => {
      const store = create();
      const server = await Server.start({ store: store.address, command: "serve" });
      const bed = new TestBed(server, store);
      try {
        await run(bed);
      } finally {
        await bed.close();
        store.remove();
      }
    });
  }
}

/** Defines a test with a manual clock, in memory. */
export function clockTest(name: string, run: (bed: TestBed) => Promise<void>): void {
  test(name, async () => {
    const bed = new TestBed(await Server.start());
    try {
      await run(bed);
    } finally {
      await bed.close();
    }
  });
}

/** A server with its workers. */
export class TestBed {
  readonly log: string[] = [];
  readonly #workers: Worker[] = [];

  constructor(
    public server: Server,
    readonly store?: Store,
  ) {}

  get client(): Client {
    return this.server.client;
  }

  /** Creates a worker of the lane `test`, which no other worker claims from. It drains at the end. */
  worker(options: WorkerOptions = {}): Worker {
    const note = (message: string) => void this.log.push(message);
    const log = { info: note, warn: note, error: note };
    const worker = new Worker(this.client, { lanes: ["test"], drainTimeout: 500, log, ...options });
    this.#workers.push(worker);
    return worker;
  }

  /** Submits to the lane `test`. Retries come at once. */
  submit(kind: string, input?: unknown, options: Parameters<Client["submit"]>[2] = {}) {
    const retry = { maxRetries: 3, backoff: { type: "fixed", delayMs: 10 } } as const;
    return this.client.submit(kind, input, { lane: "test", retry, ...options });
  }

  /** Kills the server and starts another one on the same store and port. */
  async restart(): Promise<void> {
    const port = Number(new URL(this.server.url).port);
    await this.server.stop("SIGKILL");
    this.server = await Server.start({ store: this.store?.address, command: "serve", port });
  }

  async close(): Promise<void> {
    for (const worker of this.#workers) await worker[Symbol.asyncDispose]().catch(() => undefined);
    await this.server.stop("SIGKILL");
  }
}

/** Collects the items of an async iterator. */
export async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const collected: T[] = [];
  for await (const item of items) collected.push(item);
  return collected;
}

/** Waits until a condition holds. */
export async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  const limit = Date.now() + timeoutMs;
  while (!(await condition())) {
    if (Date.now() > limit) throw new Error(`the condition does not hold after ${timeoutMs} ms: ${condition}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** A promise with the functions that settle it. */
export function deferred<T = void>(): { promise: Promise<T>; resolve: (value: T) => void } {
  let resolve: (value: T) => void = () => undefined;
  const promise = new Promise<T>((settle) => {
    resolve = settle;
  });
  return { promise, resolve };
}
