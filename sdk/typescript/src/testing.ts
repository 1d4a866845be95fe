// A real server for tests, with a clock that a test advances: a wait of three days takes milliseconds.
//
// Needs the binary: SELVEDGE_BINARY, or `selvedge` on the PATH. For Node.

/// <reference lib="esnext.disposable" preserve="true" />

import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { type Duration, milliseconds } from "./duration.js";
import { Client, type ClientOptions } from "./index.js";
import type * as api from "./types.js";

/** The settings of a server for tests. */
export interface ServerOptions {
  /** The binary. Default: SELVEDGE_BINARY, or `selvedge` on the PATH. */
  binary?: string;
  /** The store. Default: `memory:`. Only this one can have a manual clock. */
  store?: string;
  /** Stops the clock, so that only `advance` moves it. Default: true for the store `memory:`. */
  manualClock?: boolean;
  /** The port on loopback. Default: a free one. */
  port?: number;
  /** Further arguments of the binary. */
  arguments?: readonly string[];
  /** `dev` (default) can have a manual clock, and gets no demonstration worker; `serve` is the server of production. */
  command?: "dev" | "serve";
}

/** A server that runs until it is stopped. */
export class Server {
  readonly client: Client;
  readonly #process: ChildProcess;
  readonly #exited: Promise<void>;

  private constructor(
    readonly url: string,
    process: ChildProcess,
    exited: Promise<void>,
  ) {
    this.#process = process;
    this.#exited = exited;
    this.client = new Client({ url });
  }

  /** Starts a server and waits until it is ready. */
  static async start(options: ServerOptions = {}): Promise<Server> {
    const { store = "memory:", port = 0, command = "dev" } = options;
    const binary = options.binary ?? process.env.SELVEDGE_BINARY ?? "selvedge";
    const isManual = options.manualClock ?? (store === "memory:" && command === "dev");
    const flags = [
      "--store",
      store,
      "--listen",
      `127.0.0.1:${port}`,
      "--json",
      ...(command === "dev" ? ["--no-demo"] : []),
      ...(isManual ? ["--manual-clock"] : []),
    ];
    const child = spawn(binary, [command, ...flags, ...(options.arguments ?? [])], {
      stdio: ["ignore", "pipe", "pipe"],
    });
    const log: string[] = [];
    child.stderr.on("data", (data: Buffer) => {
      log.push(data.toString());
      if (log.length > 200) log.shift();
    });
    const exited = new Promise<void>((resolve) => {
      child.once("close", () => resolve());
    });
    // The server must not outlive a test that crashes.
    const kill = () => void child.kill("SIGKILL");
    process.once("exit", kill);
    void exited.then(() => process.removeListener("exit", kill));
    const url = await address(child, binary, log);
    return new Server(url, child, exited);
  }

  /** Returns a client with further settings. */
  connect(options: ClientOptions = {}): Client {
    return new Client({ url: this.url, ...options });
  }

  /** Advances the manual clock. Everything that is due in between happens, in its order and at its time. */
  async advance(by: Duration): Promise<Date> {
    const { transport } = this.client;
    const clock = await transport.get<api.GetClockAnswer>("/v1/clock");
    const target = Date.parse(clock.nowAt) + milliseconds(by);
    // A call ends after 20 seconds of real time, even if the clock has not reached the time.
    for (let now = Date.parse(clock.nowAt); ;) {
      const body = { byMs: Math.max(0, target - now) };
      const answer = await transport.post<api.AdvanceClockAnswer>("/v1/clock/advance", body);
      now = Date.parse(answer.nowAt);
      if (answer.reached) return new Date(now);
    }
  }

  /** Stops the server, and waits until it has exited. */
  async stop(signal: NodeJS.Signals = "SIGTERM"): Promise<void> {
    this.#process.kill(signal);
    await this.#exited;
  }

  /** Stops the server at the end of an `await using` block. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }
}

/** Reads the address from the line that the server prints when it is ready. */
function address(child: ChildProcess, binary: string, log: string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    child.once("error", (error) =>
      reject(new Error(`cannot start ${binary}; set SELVEDGE_BINARY or put selvedge on the PATH`, { cause: error })),
    );
    child.once("close", () => reject(new Error(`${binary} has exited:\n${log.join("")}`)));
    if (!child.stdout) return;
    createInterface({ input: child.stdout }).once("line", (line) => {
      resolve((JSON.parse(line) as { address: string }).address);
    });
  });
}
