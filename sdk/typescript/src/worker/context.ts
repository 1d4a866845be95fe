// The first argument of a handler: its attempt, the results of its upstreams and children, its durable operations, its
// stream and its cancellation.

import type { Client } from "../client/client.js";
import { type Duration, milliseconds } from "../duration.js";
import { Permanent } from "../errors.js";
import { toWire } from "../fields.js";
import { randomId } from "../ids.js";
import type { Flow, NodeOptions } from "../flow.js";
import type { Json } from "../json.js";
import type { ResultType } from "../schema.js";
import { type SignalType, signalName } from "../signal.js";
import { type InputThen, type Kind, kindName, type Task } from "../task.js";
import type * as wire from "../wire.js";
import { type Approval, type ApprovalOptions, approval } from "./approval.js";
import type { Attempt } from "./attempt.js";
import { all, type Branch, type NamedBranch, race } from "./branches.js";
import { encode } from "./json.js";
import { type Child, claimedChildren, fetchChild, parseResult, Upstreams } from "./relatives.js";
import type { Scope } from "./scope.js";
import type { Until } from "./until.js";
import { createWaitpoints, type Waitpoint } from "./waitpoint.js";

/** A signal that a wait has consumed. */
export interface ReceivedSignal<Payload = unknown> {
  name: string;
  payload: Payload;
  source: string;
  /** The name of the waitpoint through which the signal was delivered, or null if it was sent directly. */
  waitpoint: string | null;
}

/** The end of a wait. */
export interface WaitResult {
  resumedBy: "condition" | "operator" | "timeout";
  /** The signals that the wait consumed, in the order of delivery. */
  signals: ReceivedSignal[];
}

/** The time for which a wait lasts at most, counted from the first attempt that reached it. Default: no limit. */
export interface WaitLimit {
  timeout?: Duration;
}

/** The options of a frame. */
export interface FrameOptions {
  /** Default: `event`. */
  kind?: "stdout" | "stderr" | "event" | "blob";
  /** `durable` (default) frames are kept as long as the execution, `best_effort` ones for a while. */
  mode?: "durable" | "best_effort";
  correlationId?: string;
}

/** The options of a child. */
export type SpawnOptions = NodeOptions & {
  /** The name of the child. Default: its kind. */
  name?: string;
  /** True: the child goes on if this execution ends without completing. */
  detach?: boolean;
};

/** The result of reported usage. */
export interface UsageResult {
  /** The dimensions whose hard limit is reached. Null within a step, where they are not known yet. */
  breached: string[] | null;
  /** The state of the execution after it. Null within a step, whose usage is counted with its record. */
  state: wire.Execution["state"] | null;
}

/** The attempt that a handler runs. */
export class Context<State = unknown> {
  readonly #attempt: Attempt;
  readonly #scope: Scope;
  #upstream: Upstreams | undefined;
  #children: Record<string, Child> | undefined;

  /** @internal */
  constructor(attempt: Attempt, scope: Scope) {
    this.#attempt = attempt;
    this.#scope = scope;
  }

  get #claim(): wire.Claim {
    return this.#attempt.claim;
  }

  /** What the lifespan of the worker yielded. */
  get state(): State {
    return this.#attempt.surroundings.state as State;
  }

  get executionId(): string {
    return this.#claim.execution.id;
  }

  /** The index of this attempt: 0, 1, 2 … Every claim of the execution counts, also one after a wait. */
  get attempt(): number {
    return this.#claim.attempt;
  }

  /** How many times the execution has been replayed. */
  get generation(): number {
    return this.#claim.execution.generation;
  }

  get kind(): string {
    return this.#claim.execution.kind;
  }

  get lane(): string {
    return this.#claim.execution.lane;
  }

  get tags(): Readonly<Record<string, string>> {
    return this.#claim.execution.tags;
  }

  get flowId(): string | null {
    return this.#claim.execution.flow_id;
  }

  /** The name of the node in its flow. */
  get node(): string | null {
    return this.#claim.execution.node;
  }

  /** The parent of the handler's spans (W3C Trace Context). */
  get traceparent(): string | null {
    return this.#claim.traceparent;
  }

  /**
   * A key for calls to other services: the id of the execution. It is the same in every attempt, also after a replay. A
   * handler that makes several calls to one service needs a key for each: `stepKey`.
   */
  get idempotencyKey(): string {
    return this.executionId;
  }

  /**
   * Returns a key for the effect of the step of this name in this branch. It is the same in every attempt, also after a
   * replay, and no other step of any execution has it.
   */
  stepKey(name: string): string {
    return `${this.executionId}/${this.#scope.name(name)}`;
  }

  /** The client of the worker, for operations on other executions. */
  get client(): Client {
    return this.#attempt.client;
  }

  /** The upstreams with their results and outcomes: `ctx.upstream.get("sum", sum)`. */
  get upstream(): Upstreams {
    this.#upstream ??= new Upstreams(this.client, this.#claim);
    return this.#upstream;
  }

  /** The children that earlier attempts spawned, by name. */
  get children(): Readonly<Record<string, Child>> {
    this.#children ??= claimedChildren(this.#claim);
    return this.#children;
  }

  /** Returns a child with its result, however large, with the type of a task or parsed by a schema. */
  fetchChild<Output = unknown>(name: string, type?: ResultType<Output>): Promise<Child<Output>> {
    return fetchChild(this.client, this.#claim, name, type);
  }

  /** The signals that ended the latest suspension. */
  get signals(): readonly ReceivedSignal[] {
    return this.#claim.signals as ReceivedSignal[];
  }

  /** Aborted when the cancellation is requested, the lease is lost, or this branch lost its race. */
  get signal(): AbortSignal {
    return this.#scope.signal;
  }

  /** True once the cancellation of the execution is requested. The handler should clean up and throw. */
  get cancelled(): boolean {
    return this.#attempt.isCancelled;
  }

  /** Throws the reason of `signal` if the handler should stop. */
  throwIfCancelled(): void {
    this.signal.throwIfAborted();
  }

  /**
   * Runs a function once and records its result. Later attempts get the recorded result without running it. The result
   * is stored as JSON, and the returned value is read from that JSON, so that every attempt sees the same value. An
   * error is not recorded. A handler that returns without awaiting a step fails. If the process dies between the effect and the record, a later attempt runs the function again;
   * where that matters, pass `stepKey(name)` to the other service. A replay keeps the recorded steps with their results and
   * runs only the others.
   */
  step<T>(name: string, run: () => T | Promise<T>): Promise<Json<T>> {
    return this.#watch(name, this.#step(name, run));
  }

  async #step<T>(name: string, run: () => T | Promise<T>): Promise<Json<T>> {
    const { tracker } = this.#attempt;
    const fullName = tracker.request(this.#scope, name);
    tracker.reserve(fullName);
    if (tracker.has(fullName)) return tracker.recorded(fullName) as Json<T>;
    try {
      return await tracker.during(this.#scope, fullName, () => this.#runStep(fullName, run));
    } catch (error) {
      tracker.free(fullName);
      throw error;
    }
  }

  async #runStep<T>(name: string, run: () => T | Promise<T>): Promise<Json<T>> {
    const begun = Date.now();
    const spent: Array<Record<string, unknown>> = [];
    let json: string;
    try {
      const value = await this.#attempt.spending.during(spent, () => this.#attempt.runStep(this, name, run));
      json = encode(value, `the result of the step "${name}"`);
    } catch (error) {
      // A refusal of the usage does not replace the error of the step.
      await this.#reportSpent(spent).catch(() => undefined);
      throw error;
    }
    let recorded: Promise<unknown> | undefined;
    if (!this.#scope.isDropped) {
      recorded = this.#attempt.report("step", { name, duration_ms: Date.now() - begun }, json);
    }
    // The usage is in the same report, after the record.
    if (spent.length > 0) await Promise.all([recorded, this.#reportSpent(spent)]);
    else await recorded;
    return JSON.parse(json) as Json<T>;
  }

  async #reportSpent(spent: ReadonlyArray<Record<string, unknown>>): Promise<void> {
    await Promise.all(spent.map((usage) => this.#attempt.reportUsage(usage)));
  }

  /** Returns the full name of a step in this branch. @internal */
  stepName(name: string): string {
    return this.#scope.name(name);
  }

  /** Sleeps without holding a lease or a slot, on the clock of the store. */
  sleep(name: string, duration: Duration): Promise<void> {
    return this.#sleep(name, { delay_ms: milliseconds(duration) });
  }

  /** Sleeps until this time. */
  sleepUntil(name: string, time: Date): Promise<void> {
    return this.#sleep(name, { until_at: time.toISOString() });
  }

  #sleep(name: string, condition: Until): Promise<void> {
    return this.#watch(
      name,
      this.#wait(name, "sleep", condition).then(() => undefined),
    );
  }

  /**
   * Waits for a signal. One that was delivered earlier counts if no other wait has consumed it. Returns null after the
   * timeout, or if an operator resumes the execution. The name of the step is that of the signal, unless `name` gives
   * another one: two waits for the same signal need two names.
   */
  waitForSignal<Payload = unknown>(
    signal: string,
    options?: WaitLimit & { name?: string },
  ): Promise<ReceivedSignal<Payload> | null>;
  waitForSignal<Payload>(
    signal: SignalType<never, Payload>,
    options?: WaitLimit & { name?: string },
  ): Promise<ReceivedSignal<Payload> | null>;
  waitForSignal(
    signal: string | SignalType<never, unknown>,
    options: WaitLimit & { name?: string } = {},
  ): Promise<ReceivedSignal | null> {
    const name = options.name ?? signalName(signal);
    return this.#watch(name, this.#waitForSignal(name, signal, options));
  }

  async #waitForSignal(
    name: string,
    signal: string | SignalType<never, unknown>,
    limit: WaitLimit,
  ): Promise<ReceivedSignal | null> {
    const { signals } = await this.#wait(name, "wait", { signal: signalName(signal) }, limit);
    const [received] = signals;
    if (!received || typeof signal === "string" || !signal.schema) return received ?? null;
    const payload = await parseResult(`the payload of the signal "${signal.name}"`, signal.schema, received.payload);
    return { ...received, payload };
  }

  /** Waits until a condition holds: `ctx.wait("order", until.all(until.signal("paid"), until.signal("packed")))`. */
  wait(name: string, condition: Until, options: WaitLimit = {}): Promise<WaitResult> {
    return this.#watch(name, this.#wait(name, "wait", condition, options));
  }

  /** Returns the promise of an operation for the handler, which must await it. */
  #watch<T>(name: string, promise: Promise<T>): Promise<T> {
    return this.#attempt.tracker.watch(this.#scope, name, promise);
  }

  async #wait(name: string, kind: "wait" | "sleep" | "join", condition: Until, limit: WaitLimit = {}) {
    const { tracker } = this.#attempt;
    const step = tracker.request(this.#scope, name);
    tracker.reserve(step);
    if (tracker.has(step)) {
      return recordedWait(step, tracker.recorded(step));
    }
    this.#attempt.checkWaits(step);
    const timeout_ms = limit.timeout === undefined ? undefined : milliseconds(limit.timeout);
    return tracker.wait(this.#scope, { step, kind, condition, timeout_ms, on_timeout: "resume" });
  }

  /**
   * Adds a child to the flow of this execution and returns its id. It is cancelled if this execution ends without
   * completing, unless it is detached. The name is the kind unless given; spawning the same name again changes nothing.
   */
  spawn(kind: string, input?: unknown, options?: SpawnOptions): Promise<string>;
  spawn<Input>(task: Task<Input, unknown>, ...rest: InputThen<Input, SpawnOptions>): Promise<string>;
  async spawn(kind: Kind, input: unknown = null, options: SpawnOptions = {}): Promise<string> {
    const { name = kindName(kind), detach, ...fields } = options;
    const nodes = [{ ...fields, name, kind: kindName(kind), input }];
    const executions = await this.#spawn({ nodes }, detach);
    return executions[name] as string;
  }

  /** Adds a graph of children. Returns their ids by name. */
  spawnFlow(flow: Flow, options: { detach?: boolean } = {}): Promise<Record<string, string>> {
    return this.#spawn(flow.graph(), options.detach);
  }

  async #spawn(graph: object, detach = false): Promise<Record<string, string>> {
    await this.#attempt.tracker.enter(this.#scope);
    const result = await this.#attempt.report("spawn", { ...(toWire(graph) as object), detach });
    return result.executions ?? {};
  }

  /**
   * Waits until all children have ended, except detached ones, and returns them with their results, which have the type of
   * a task or are parsed by a schema.
   */
  join<Output = unknown>(name = "join", type?: ResultType<Output>): Promise<Record<string, Child<Output>>> {
    return this.#watch(name, this.#join(name, type));
  }

  async #join<Output>(name: string, type?: ResultType<Output>): Promise<Record<string, Child<Output>>> {
    await this.#wait(name, "join", { children: true });
    const names = [...Object.keys(this.#claim.children), ...Object.keys(this.#claim.children_refs)];
    const children = await Promise.all(names.map(async (name) => [name, await this.fetchChild(name, type)] as const));
    return Object.fromEntries(children);
  }

  /**
   * Runs branches concurrently until the first ends, and returns its value. The signals of the others are aborted. The
   * winner is recorded: later attempts run only that branch. Give the branches as an object, or as pairs of name and
   * function.
   */
  race<T>(name: string, branches: Branches<T, State>): Promise<T> {
    return this.#watch(name, race(this.#attempt, this.#scope, name, named(branches)));
  }

  /**
   * Runs branches concurrently until all have ended, and returns their values: as an object for an object of branches,
   * as an array for pairs of name and function. After a failure no branch begins another step; when the running steps
   * have ended, this throws the first failure.
   */
  all<T>(name: string, branches: ReadonlyArray<NamedBranch<T, State>>): Promise<T[]>;
  all<R extends Record<string, unknown>>(name: string, branches: { [K in keyof R]: Branch<R[K], State> }): Promise<R>;
  all(name: string, branches: Branches<unknown, State>): Promise<unknown> {
    return this.#watch(name, this.#all(name, branches));
  }

  async #all(name: string, branches: Branches<unknown, State>): Promise<unknown> {
    const values = await all(this.#attempt, this.#scope, name, named(branches));
    if (isList(branches)) return values;
    return Object.fromEntries(Object.keys(branches).map((branch, index) => [branch, values[index]]));
  }

  /** Asks several people, and waits until enough have agreed, or so many have declined that not enough are left. */
  approval(name: string, options: ApprovalOptions): Promise<Approval> {
    return this.#watch(name, approval(this, this.#attempt, name, options));
  }

  /** Creates a waitpoint: its token authorises an outside party to deliver one signal to this execution. */
  async waitpoint(
    name: string,
    options: { source?: string; expires?: Duration; signals?: string[]; prompt?: string } = {},
  ): Promise<Waitpoint> {
    await this.#attempt.tracker.enter(this.#scope);
    const { expires, ...fields } = options;
    const expires_ms = expires === undefined ? undefined : milliseconds(expires);
    const [waitpoint] = await createWaitpoints(this.#attempt, [{ ...fields, name, expires_ms }]);
    return waitpoint as Waitpoint;
  }

  /** Appends a frame to the stream of this attempt, in the order of the calls, awaited or not. */
  frame(data: unknown, options: FrameOptions = {}): Promise<void> {
    const { kind = "event", mode = "durable", correlationId } = options;
    return this.#keep("frame", { kind, mode, data, correlation_id: correlationId });
  }

  /** Applies a JSON Merge Patch (RFC 7396) to the summary document of this attempt. */
  summarise(patch: unknown): Promise<void> {
    return this.#keep("frame", { kind: "event", mode: "summary", data: patch });
  }

  /** Reports progress: a percentage from 0 to 100, and a message. */
  progress(percent: number | null, message?: string): Promise<void> {
    return this.#keep("progress", { percent, message });
  }

  /**
   * Counts spending by dimension: `ctx.usage("tokens-per-day", { tokens: 3120 })`. Within a step the usage is sent with the
   * record of the step, so that it counts once for each time that the step runs. Usage that a branch reports outside of a
   * step while a step of another branch runs may be sent with that step. Otherwise it is sent at once, and every attempt
   * that comes by counts again, unless `dedupKey` was used before.
   */
  usage(
    budget: string,
    usage: Readonly<Record<string, number>>,
    options: { dedupKey?: string } = {},
  ): Promise<UsageResult> {
    const fields = { budget, usage, dedup_key: options.dedupKey ?? randomId() };
    if (this.#attempt.spending.keep(fields)) return Promise.resolve({ breached: null, state: null });
    const reported = this.#attempt.reportUsage(fields);
    return quiet(reported.then(({ breached = [], state }) => ({ breached, state })));
  }

  /** Allows this attempt to return without every recorded step. For steps that were removed on purpose. */
  allowVanishedSteps(): void {
    this.#attempt.tracker.allowVanished();
  }

  #keep(op: string, fields: Record<string, unknown>): Promise<void> {
    if (this.#scope.isStopped) return Promise.resolve();
    const reported = this.#attempt.report(op, { ...fields, op_id: this.#attempt.nextOpId() });
    return quiet(reported.then(() => undefined));
  }
}

/** Returns the end of a wait as the server recorded it. */
function recordedWait(step: string, recorded: unknown): WaitResult {
  const { resumed_by, signals } = (recorded ?? {}) as {
    resumed_by?: WaitResult["resumedBy"];
    signals?: ReceivedSignal[];
  };
  if (resumed_by && Array.isArray(signals)) return { resumedBy: resumed_by, signals };
  throw new Permanent(
    `the step "${step}" was recorded as a step by an earlier attempt and is a wait here; give the changed step another name`,
  );
}

/** Lets a handler leave a promise unawaited: its rejection does not end the process. */
function quiet<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => undefined);
  return promise;
}

/** Branches, as an object or as pairs of name and function. */
export type Branches<T, State = unknown> =
  ReadonlyArray<NamedBranch<T, State>> | Readonly<Record<string, Branch<T, State>>>;

function named<T, State>(branches: Branches<T, State>): ReadonlyArray<NamedBranch<T>> {
  // The contexts of all branches have the state of the worker.
  return (isList(branches) ? branches : Object.entries(branches)) as ReadonlyArray<NamedBranch<T>>;
}

function isList<T, State>(branches: Branches<T, State>): branches is ReadonlyArray<NamedBranch<T, State>> {
  return Array.isArray(branches);
}
