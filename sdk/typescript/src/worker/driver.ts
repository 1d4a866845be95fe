// A running worker: claims executions, starts their handlers, processes heartbeats, drains.
//
// At any time at most one claim, one report and one heartbeat are under way. A report carries the next claim unless a
// claim already waits at the server.

import type { Client } from "../client/client.js";
import { backoff, isTemporary } from "../client/transport.js";
import { pause, within } from "../duration.js";
import { Problem, problemOf, Retry, Superseded } from "../errors.js";
import { fromWire } from "../fields.js";
import { randomId } from "../ids.js";
import type * as wire from "../wire.js";
import { Attempt, type End } from "./attempt.js";
import type { HandlerRun, Registered } from "./handlers.js";
import { Heartbeat } from "./heartbeat.js";
import type { FromLoop } from "./heartbeat-loop.js";
import { messageOf, stackOf } from "./json.js";
import type { Logger } from "./logger.js";
import type { Middleware } from "./middleware.js";
import { type NextClaims, Reporter } from "./reporter.js";

/** The longest time that one claim waits for work before the next is sent. */
const CLAIM_WAIT_MS = 30_000;
/** The longest time for releasing leases at the end of a drain, and for the worker's departure after it. */
const RELEASE_LIMIT_MS = 5_000;

/** The settings of a running worker, complete. */
export interface Settings {
  name: string;
  instance: string;
  incarnation: string | undefined;
  lanes: readonly string[];
  capabilities: readonly string[];
  concurrency: number;
  leaseTtlMs: number;
  drainTimeoutMs: number;
  log: Logger;
  middleware: readonly Middleware[];
  /** What the lifespan of the worker yielded. */
  state: unknown;
}

/** The number of attempts that a worker ran, by how they ended. */
export type WorkerSummary = Record<End, number>;

/** The state of a running worker. */
export class Driver {
  readonly #client: Client;
  readonly #settings: Settings;
  readonly #handlers: ReadonlyMap<string, Registered>;
  readonly #path: string;
  readonly #reporter: Reporter;
  readonly #heartbeat: Heartbeat;
  readonly #running = new Map<string, Attempt>();
  readonly #summary: WorkerSummary = {
    completed: 0,
    failed: 0,
    released: 0,
    suspended: 0,
    cancelled: 0,
    aborted: 0,
  };
  #claiming: AbortController | undefined;
  #reportClaims = false;
  #isDraining = false;
  #drainer: Promise<WorkerSummary> | undefined;
  #onIdle: (() => void) | undefined;
  /** Resolves when the worker has ended; rejects if a newer process took its instance name. */
  readonly ended: Promise<WorkerSummary>;
  #end: (summary: WorkerSummary | PromiseLike<WorkerSummary>) => void = () => undefined;

  constructor(client: Client, settings: Settings, handlers: ReadonlyMap<string, Registered>) {
    this.#client = client;
    this.#settings = settings;
    this.#handlers = handlers;
    const { transport } = client;
    this.#path = `/v1/workers/${encodeURIComponent(settings.instance)}`;
    this.#reporter = new Reporter(transport, `${this.#path}/report`, {
      nextClaim: () => this.#claimWithReport(),
      claimed: (next) => this.#claimedWithReport(next),
    });
    const { leaseTtlMs, incarnation } = settings;
    const loop = {
      urls: transport.urls.map((url) => `${url}${this.#path}/heartbeat`),
      caFile: transport.caFile,
      headers: { ...transport.headers },
      leaseTtlMs,
      incarnation,
    };
    this.#heartbeat = new Heartbeat(loop, transport, settings.log, (message) => this.#onHeartbeat(message));
    this.ended = new Promise((resolve) => {
      this.#end = resolve;
    });
    this.ended.catch(() => undefined);
  }

  /** Starts to work. Rejects if the server refuses the first claim. */
  async start(): Promise<void> {
    const { instance, lanes, log } = this.#settings;
    const kinds = [...this.#handlers.keys()].join(", ");
    log.info(`the worker ${instance} starts; kinds: ${kinds}; lanes: ${lanes.join(", ")}`);
    await this.#heartbeat.start();
    try {
      await this.#claim(0);
    } catch (error) {
      if (this.#isDraining) return;
      this.#heartbeat.stop();
      throw error;
    }
    void this.#claimLoop();
  }

  /** Stops claiming, lets handlers end within the time of a drain, puts the rest back, and departs. */
  drain(): Promise<WorkerSummary> {
    this.#drainer ??= this.#drain();
    return this.#drainer;
  }

  #nextClaim(waitMs: number): wire.ClaimRequest | undefined {
    const { name, lanes, capabilities, leaseTtlMs, incarnation, concurrency } = this.#settings;
    const max = Math.min(1000, concurrency - this.#running.size);
    if (this.#isDraining || max <= 0) return undefined;
    return {
      worker: name,
      lanes: [...lanes],
      kinds: [...this.#handlers.keys()],
      capabilities: [...capabilities],
      max,
      wait_ms: waitMs,
      lease_ttl_ms: leaseTtlMs,
      incarnation,
    };
  }

  #claimWithReport(): wire.ClaimRequest | undefined {
    if (this.#claiming) return undefined;
    const claim = this.#nextClaim(0);
    this.#reportClaims = claim !== undefined;
    return claim;
  }

  #claimedWithReport({ claims, drain, error }: NextClaims): void {
    this.#reportClaims = false;
    if (error) this.#claimRefused(error);
    this.#onClaims(claims, drain);
    void this.#claimLoop();
  }

  /** Claims while there are free slots and no report carries a claim. */
  async #claimLoop(): Promise<void> {
    for (let failures = 0; !this.#claiming && !this.#reportClaims && this.#nextClaim(0);) {
      try {
        await this.#claim(CLAIM_WAIT_MS);
        failures = 0;
      } catch (error) {
        if (this.#isDraining) return;
        if (!(error instanceof Problem)) this.#settings.log.error(`a claim failed: ${messageOf(error)}`);
        else this.#claimRefused(error);
        failures += 1;
        await pause(backoff(failures));
      }
    }
  }

  /** Sends one claim. It is repeated with its key until it is answered, so that no lease gets lost. */
  async #claim(waitMs: number): Promise<void> {
    const body = this.#nextClaim(waitMs);
    if (!body) return;
    const controller = new AbortController();
    this.#claiming = controller;
    let text: string;
    try {
      text = await this.#client.transport.send("POST", `${this.#path}/claim`, {
        body,
        waitMs,
        headers: { "idempotency-key": randomId() },
        retryForMs: Number.POSITIVE_INFINITY,
        signal: controller.signal,
        onRetry: (failure) => this.#settings.log.warn(`a claim is repeated: ${failure.message}`),
      });
    } finally {
      this.#claiming = undefined;
    }
    const answer = JSON.parse(text) as wire.ClaimAnswer;
    this.#onClaims(answer.claims, answer.drain);
  }

  #claimRefused(problem: Problem): void {
    if (problem instanceof Superseded) this.#superseded(problem);
    else this.#settings.log.error(`a claim was refused and is repeated: ${problem.message}`);
  }

  #onClaims(claims: wire.Claim[], drain: boolean): void {
    if (drain) void this.drain();
    const attempts = claims.flatMap((claim) => {
      const { lease } = claim;
      const { middleware, state } = this.#settings;
      const isBatch = this.#handlers.get(claim.execution.kind)?.isBatch ?? false;
      const surroundings = { isBatch, middleware, state };
      return lease ? [new Attempt(this.#client, { ...claim, lease }, this.#reporter, surroundings)] : [];
    });
    if (attempts.length === 0) return;
    // Before the handlers start: one that blocks would keep the leases unnamed.
    this.#heartbeat.add(attempts.map(({ fence }) => fence));
    for (const attempt of attempts) this.#running.set(attempt.fence.lease_id, attempt);
    for (const [handler, group] of this.#grouped(attempts)) {
      const runs = handler.runs(group);
      group.forEach((attempt, index) => void this.#run(attempt, runs[index] as HandlerRun));
    }
  }

  /** Returns the calls of handlers: one for each attempt, or for up to `max` attempts of a batch handler. */
  #grouped(attempts: Attempt[]): Array<[Registered, Attempt[]]> {
    const groups: Array<[Registered, Attempt[]]> = [];
    const open = new Map<Registered, Attempt[]>();
    for (const attempt of attempts) {
      const handler = this.#handlers.get(attempt.claim.execution.kind);
      if (!handler || this.#isDraining) {
        void this.#settle(attempt, attempt.end(["release", {}]));
        continue;
      }
      const group = open.get(handler);
      if (group && group.length < handler.max) {
        group.push(attempt);
      } else {
        const begun = [attempt];
        open.set(handler, begun);
        groups.push([handler, begun]);
      }
    }
    return groups;
  }

  async #run(attempt: Attempt, run: HandlerRun): Promise<void> {
    const end = attempt.run(run.begin, (thrown) => this.#logFailure(attempt, thrown));
    await this.#settle(
      attempt,
      end.finally(() => run.ended()),
    );
  }

  async #settle(attempt: Attempt, end: Promise<End>): Promise<void> {
    const { lease_id } = attempt.fence;
    const ended = await end;
    this.#summary[ended] += 1;
    if (attempt.endError !== undefined) {
      this.#settings.log.warn(`the end of ${attempt.subject} was not accepted: ${messageOf(attempt.endError)}`);
    }
    this.#running.delete(lease_id);
    this.#heartbeat.remove(lease_id);
    if (this.#running.size === 0) this.#onIdle?.();
    void this.#claimLoop();
  }

  /** Logs what a handler threw, with its stack, which the server does not store. A retry was asked for on purpose. */
  #logFailure(attempt: Attempt, thrown: unknown): void {
    const { log } = this.#settings;
    if (thrown instanceof Retry) log.info(`${attempt.subject} is retried: ${messageOf(thrown)}`);
    else log.error(`${attempt.subject} failed: ${stackOf(thrown)}`);
  }

  #onHeartbeat(message: FromLoop): void {
    if (message.type === "failed") {
      this.#settings.log.warn(`a heartbeat failed and is repeated: ${message.reason}`);
    } else if (message.type === "refused") {
      const problem = problemOf(fromWire(message.problem));
      if (problem instanceof Superseded) this.#superseded(problem);
      else this.#settings.log.error(`a heartbeat was refused and is repeated: ${problem.message}`);
    } else {
      const { lost, cancel_requested, drain } = message.answer;
      for (const lease of lost) this.#leaseLost(lease);
      for (const { lease_id } of cancel_requested) this.#running.get(lease_id)?.requestCancel();
      if (drain) void this.drain();
    }
  }

  #leaseLost(lost: wire.HeartbeatAnswer["lost"][number]): void {
    const attempt = this.#running.get(lost.lease_id);
    if (!attempt || attempt.isEnding || !attempt.leaseLost(lost)) return;
    const { log } = this.#settings;
    const text = `the lease of ${attempt.subject} was lost, and what its handler does is discarded: ${lost.reason}`;
    if (lost.state === "cancelled") log.info(text);
    else log.warn(text);
  }

  async #drain(): Promise<WorkerSummary> {
    const { log, instance, drainTimeoutMs } = this.#settings;
    log.info(`the worker ${instance} drains`);
    this.#isDraining = true;
    this.#claiming?.abort();
    await this.#idleWithin(drainTimeoutMs);
    for (const attempt of this.#running.values()) attempt.release();
    await this.#idleWithin(RELEASE_LIMIT_MS);
    await within(RELEASE_LIMIT_MS, this.#reporter.idle());
    this.#heartbeat.stop();
    await this.#depart();
    this.#end(this.#summary);
    return this.#summary;
  }

  async #idleWithin(limitMs: number): Promise<void> {
    if (this.#running.size === 0) return;
    const idle = new Promise<void>((resolve) => {
      this.#onIdle = resolve;
    });
    await within(limitMs, idle);
  }

  /** Tells the server that the worker has gone, so that remaining leases are put back at once instead of expiring. */
  async #depart(): Promise<void> {
    const { incarnation, log } = this.#settings;
    try {
      const signal = AbortSignal.timeout(RELEASE_LIMIT_MS);
      await this.#client.transport.send("DELETE", this.#path, { query: { incarnation }, signal });
    } catch (error) {
      // A worker that never claimed is unknown.
      if (error instanceof Problem && !isTemporary(error)) return;
      log.warn(`the departure of the worker was not reported; its remaining leases will expire: ${messageOf(error)}`);
    }
  }

  #superseded(problem: Superseded): void {
    if (this.#isDraining) return;
    this.#settings.log.error(`the worker ${this.#settings.instance} stops: ${problem.message}`);
    this.#isDraining = true;
    this.#claiming?.abort();
    this.#heartbeat.stop();
    for (const attempt of this.#running.values()) attempt.lose(problem.detail);
    this.#drainer = Promise.resolve(this.#summary);
    this.#end(Promise.reject(problem));
  }
}
