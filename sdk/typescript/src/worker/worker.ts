// The worker of a program: registers handlers, starts, drains.

/// <reference lib="esnext.disposable" preserve="true" />

import type { Client } from "../client/client.js";
import { type Duration, milliseconds } from "../duration.js";
import { environment } from "../environment.js";
import { randomId } from "../ids.js";
import type { Json } from "../json.js";
import type { Schema, SchemaInput, SchemaOutput } from "../schema.js";
import type { Task } from "../task.js";
import { Superseded } from "../errors.js";
import { Driver, type Settings, type WorkerSummary } from "./driver.js";
import { type BatchHandler, batch, type Handler, type Registered, single, type TaskOptions } from "./handlers.js";
import { begin, type Lifespan } from "./lifespan.js";
import type { Middleware } from "./middleware.js";
import { consoleLogger, type Logger } from "./logger.js";

/** The settings of a worker. */
export interface WorkerOptions<State = unknown> {
  /** The name of the program; many instances may share it. Default: `typescript`. */
  name?: string;
  /** The name of this process. Default: SELVEDGE_INSTANCE, or the name and a new UUID. */
  instance?: string;
  /** Separates a restarted instance from its predecessor. Default: a new UUID if the instance has a name, else none. */
  incarnation?: string;
  /** The lanes to claim from. Default: `default`. */
  lanes?: readonly string[];
  /** What the worker offers; an execution matches if it requires a subset. Default: nothing. */
  capabilities?: readonly string[];
  /** How many handlers may run at once. Default: 10. */
  concurrency?: number;
  /** The time to live of the leases, from 500 ms to one hour. Default: 30 seconds. */
  leaseTtl?: Duration;
  /** How long a drain lets handlers run. Then their executions are put back, without a charged retry. Default: 30 seconds. */
  drainTimeout?: Duration;
  /** Where the worker logs. Default: warnings and errors to the console. */
  log?: Logger;
  /** What lives as long as the worker, such as a pool of connections: `ctx.state` of its handlers. Default: nothing. */
  lifespan?: Lifespan<State>;
}

/**
 * A worker in this process. It claims as many executions as it has free slots, reports what has ended and claims the
 * next in one round trip, and renews its leases while handlers run, even if a handler blocks the event loop.
 */
export class Worker<State = unknown> {
  readonly instance: string;
  readonly #client: Client;
  readonly #ownInstance: string | undefined;
  readonly #options: WorkerOptions<State>;
  readonly #middleware: Array<Middleware<State>> = [];
  readonly #handlers = new Map<string, Registered>();
  #isStarted = false;
  #driver: Driver | undefined;
  #ended: Promise<WorkerSummary> | undefined;

  constructor(client: Client, options: WorkerOptions<State> = {}) {
    this.#client = client;
    this.#options = options;
    this.#ownInstance = options.instance ?? environment("SELVEDGE_INSTANCE");
    this.instance = this.#ownInstance ?? `${options.name ?? "typescript"}-${randomId()}`;
  }

  /**
   * Sets the handler of a kind. Returns the task, with which `client.submit` checks the input and knows the result. With a
   * schema, the task has the type that the schema accepts, and the handler gets what the schema returns.
   */
  task<Input, Output>(kind: string, handler: Handler<Input, Output, State>): Task<Input, Json<Output>>;
  task<S extends Schema, Output>(
    kind: string,
    options: TaskOptions<S>,
    handler: Handler<SchemaOutput<S>, Output, State>,
  ): Task<SchemaInput<S>, Json<Output>>;
  task(
    kind: string,
    first: TaskOptions<Schema> | Handler<never, unknown, State>,
    second?: Handler<never, unknown, State>,
  ): Task<never, unknown> {
    const handler = typeof first === "function" ? first : second;
    if (!handler) throw new TypeError(`the task ${JSON.stringify(kind)} has no handler`);
    return this.#register(
      kind,
      single(handler as Handler<unknown, unknown>, "input" in first ? first.input : undefined),
    );
  }

  /** Sets a handler that takes up to `max` claims of its kind in one call and answers each alone. */
  batchTask<S extends Schema, Output>(
    kind: string,
    options: TaskOptions<S> & { max: number },
    handler: BatchHandler<SchemaOutput<S>, Output, State>,
  ): Task<SchemaInput<S>, Json<Exclude<Output, Error>>>;
  batchTask<Input, Output>(
    kind: string,
    options: { max: number },
    handler: BatchHandler<Input, Output, State>,
  ): Task<Input, Json<Exclude<Output, Error>>>;
  batchTask(
    kind: string,
    options: Partial<TaskOptions<Schema>> & { max: number },
    handler: BatchHandler<never, unknown, State>,
  ): Task<never, unknown> {
    return this.#register(kind, batch(options.max, handler as BatchHandler<unknown, unknown, unknown>, options.input));
  }

  #register(kind: string, handler: Registered): Task<never, unknown> {
    if (this.#isStarted) throw new Error(`the worker has started; add the task ${JSON.stringify(kind)} before`);
    if (this.#handlers.has(kind))
      throw new Error(`the kind ${JSON.stringify(kind)} has two tasks; give each its own kind`);
    this.#handlers.set(kind, handler);
    return { kind };
  }

  /**
   * Adds middleware around the attempts and steps of all tasks, or a function around the attempts. The first is the
   * outermost.
   */
  use(middleware: Middleware<State> | NonNullable<Middleware<State>["attempt"]>): this {
    if (this.#isStarted) throw new Error("the worker has started; add middleware before");
    this.#middleware.push(typeof middleware === "function" ? { attempt: middleware } : middleware);
    return this;
  }

  /** Starts to work in the background. Rejects if the server refuses the claim, for example because of the key. */
  async start(): Promise<void> {
    if (this.#isStarted) throw new Error("the worker has started already");
    if (this.#handlers.size === 0) throw new Error("the worker has no task; add one before it starts");
    this.#isStarted = true;
    const lived = await begin(this.#options.lifespan);
    const driver = new Driver(this.#client, this.#settings(lived.state), this.#handlers);
    this.#driver = driver;
    this.#ended = driver.ended.finally(() => lived.end());
    this.#ended.catch(() => undefined);
    try {
      await driver.start();
    } catch (error) {
      await lived.end();
      throw error;
    }
  }

  #settings(state: unknown): Settings {
    const { name = "typescript", incarnation, lanes = ["default"], capabilities = [] } = this.#options;
    const { concurrency = 10, leaseTtl = 30_000, drainTimeout = 30_000, log = consoleLogger } = this.#options;
    return {
      name,
      instance: this.instance,
      incarnation: incarnation ?? (this.#ownInstance ? randomId() : undefined),
      lanes,
      capabilities,
      concurrency,
      leaseTtlMs: milliseconds(leaseTtl),
      drainTimeoutMs: milliseconds(drainTimeout),
      log,
      middleware: this.#middleware as unknown as Middleware[],
      state,
    };
  }

  /** Stops claiming, lets handlers end within `drainTimeout`, puts the rest back, and departs. */
  async drain(): Promise<WorkerSummary> {
    const summary = await this.#started().drain();
    await this.#ended?.catch((error: unknown) => {
      if (!(error instanceof Superseded)) throw error;
    });
    return summary;
  }

  /** Waits until the worker ends: by `drain`, or because an operator asked it to. Rejects if it was superseded. */
  ended(): Promise<WorkerSummary> {
    return this.#ended ?? Promise.reject(notStarted());
  }

  /** Works until SIGTERM or SIGINT, or until an operator asks the worker to drain; then drains. */
  async run(): Promise<WorkerSummary> {
    const signals = ["SIGTERM", "SIGINT"] as const;
    const hasSignals = typeof process !== "undefined" && typeof process.once === "function";
    let isStopped = false;
    const stop = () => {
      isStopped = true;
      void this.#driver?.drain();
    };
    if (hasSignals) for (const signal of signals) process.once(signal, stop);
    try {
      await this.start();
      if (isStopped) void this.#driver?.drain();
      return await this.ended();
    } finally {
      if (hasSignals) for (const signal of signals) process.removeListener(signal, stop);
    }
  }

  /** Drains the worker at the end of an `await using` block. */
  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#driver) await this.drain();
  }

  #started(): Driver {
    if (!this.#driver) throw notStarted();
    return this.#driver;
  }
}

function notStarted(): Error {
  return new Error("the worker has not started");
}
