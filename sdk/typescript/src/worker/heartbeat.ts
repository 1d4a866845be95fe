// Runs the heartbeats of a worker where a busy handler cannot stop them: on Node in a thread, elsewhere
// on the main loop.

import type { Transport } from "../client/transport.js";
import { trustingFetch } from "../client/trust.js";
import type * as wire from "../wire.js";
import { type FromLoop, heartbeatLoop, type LoopSettings, type ToLoop } from "./heartbeat-loop.js";
import type { Logger } from "./logger.js";

/** Removals are collected for this long: a lease that is named once too often does no harm. */
const REMOVAL_DELAY_MS = 50;

/** The heartbeats of a worker. */
export class Heartbeat {
  readonly #settings: LoopSettings;
  readonly #transport: Pick<Transport, "fetch" | "ownFetch">;
  readonly #listener: (message: FromLoop) => void;
  readonly #log: Logger;
  readonly #leases = new Map<string, wire.FenceRequest>();
  #removed: string[] = [];
  #removal: ReturnType<typeof setTimeout> | undefined;
  #post: (message: ToLoop) => void = () => undefined;
  #terminate: () => void = () => undefined;
  #stopped = false;

  constructor(
    settings: LoopSettings,
    transport: Pick<Transport, "fetch" | "ownFetch">,
    log: Logger,
    listener: (message: FromLoop) => void,
  ) {
    this.#settings = settings;
    this.#transport = transport;
    this.#log = log;
    this.#listener = listener;
  }

  /** Starts the loop, in a thread where that is possible. */
  async start(): Promise<void> {
    if (this.#transport.ownFetch) {
      this.#startHere();
      return;
    }
    try {
      await this.#startThread();
    } catch (error) {
      this.#fallBack(error);
    }
  }

  /** Names these leases in heartbeats from now on. Call it before their handlers start, which may block. */
  add(leases: wire.FenceRequest[]): void {
    for (const lease of leases) this.#leases.set(lease.lease_id, lease);
    this.#post({ type: "add", leases });
  }

  /** Names a lease no longer. */
  remove(leaseId: string): void {
    if (!this.#leases.delete(leaseId)) return;
    this.#removed.push(leaseId);
    this.#removal ??= setTimeout(() => {
      this.#post({ type: "remove", leases: this.#removed });
      this.#removed = [];
      this.#removal = undefined;
    }, REMOVAL_DELAY_MS);
  }

  /** Ends the loop. */
  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#removal);
    this.#post({ type: "stop" });
    this.#terminate();
  }

  async #startThread(): Promise<void> {
    const { Worker } = await import("node:worker_threads");
    const source = `
      const { parentPort, workerData } = require("node:worker_threads");
      const port = { post: (message) => parentPort.postMessage(message), receive: (listener) => parentPort.on("message", listener) };
      const trusting = ${trustingFetch.toString()};
      const send = workerData.caFile === undefined ? fetch : trusting(workerData.caFile, require);
      (${heartbeatLoop.toString()})(port, workerData, send);
      parentPort.postMessage({ type: "ready" });`;
    const thread = new Worker(source, { eval: true, workerData: this.#settings, execArgv: [] });
    await new Promise<void>((resolve, reject) => {
      thread.once("message", () => resolve());
      thread.once("error", reject);
    });
    thread.removeAllListeners("error");
    thread.on("message", (message: FromLoop) => this.#deliver(message));
    thread.on("error", (error) => this.#fallBack(error));
    this.#post = (message) => thread.postMessage(message);
    this.#terminate = () => void thread.terminate();
  }

  #startHere(): void {
    const settings = this.#settings;
    let receive: (message: ToLoop) => void = () => undefined;
    const port = {
      post: (message: FromLoop) => this.#deliver(message),
      receive: (listener: (message: ToLoop) => void) => {
        receive = listener;
      },
    };
    heartbeatLoop(port, settings, this.#transport.fetch);
    this.#post = (message) => receive(message);
    this.#terminate = () => undefined;
    this.#post({ type: "add", leases: [...this.#leases.values()] });
  }

  #fallBack(error: unknown): void {
    if (this.#stopped) return;
    const reason = error instanceof Error ? error.message : String(error);
    this.#log.warn(
      `heartbeats run on the main loop, because a thread is not possible (${reason}); a handler that blocks the loop for longer than its lease loses it`,
    );
    this.#startHere();
  }

  #deliver(message: FromLoop): void {
    if (!this.#stopped) this.#listener(message);
  }
}
