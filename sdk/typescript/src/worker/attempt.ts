// One attempt: the lease, the operations that are reported under it, and how the handler's end becomes the last one.

import type { Client } from "../client/client.js";
import { AttemptOver, Cancelled, Delay, Permanent, Problem, Release, Retry, Suspended } from "../errors.js";
import type * as wire from "../wire.js";
import { Context } from "./context.js";
import { encode, messageOf } from "./json.js";
import { type Middleware, type Next, within } from "./middleware.js";
import type { Accepted, Reporter } from "./reporter.js";
import { Scope } from "./scope.js";
import { Spending } from "./spending.js";
import { StepTracker } from "./tracker.js";

/** How an attempt ended. */
export type End = "completed" | "failed" | "released" | "suspended" | "cancelled" | "aborted";

/** Refusals that concern the content of an operation: a repeat would be refused again. */
const CONTENT_CODES = new Set(["invalid_field", "unknown_field", "payload_too_large"]);
const STEP_CODES = new Set([...CONTENT_CODES, "idempotency_mismatch", "id_taken", "limit_reached"]);

/** What an attempt has from its worker. */
export interface Surroundings {
  isBatch: boolean;
  middleware: readonly Middleware[];
  /** What the lifespan of the worker yielded. */
  state: unknown;
}

/** An attempt that this worker runs. */
export class Attempt {
  readonly fence: wire.FenceRequest;
  readonly tracker: StepTracker;
  readonly spending = new Spending();
  readonly scope: Scope;
  readonly context: Context;
  readonly #controller = new AbortController();
  readonly #reporter: Reporter;
  /** Resolves when the attempt ends before its handler: with the suspension, or undefined if it is given up. */
  readonly #overtaken: Promise<LastOp | undefined>;
  #overtake: (op: LastOp | undefined) => void = () => undefined;
  #isOvertaken = false;
  #operations = 0;
  #isLost = false;
  /** True if a budget suspended the execution: a result is still accepted, but no step, although the lease has ended. */
  #isPaid = false;
  /** True once the end is being reported. The lease ends with it. */
  isEnding = false;
  /** The reason why the end was not accepted. */
  endError: unknown;
  /** What the handler threw, if that fails the attempt. */
  #failure: { thrown: unknown } | undefined;

  constructor(
    readonly client: Client,
    readonly claim: wire.Claim & { lease: wire.Lease },
    reporter: Reporter,
    readonly surroundings: Surroundings,
  ) {
    const { execution, attempt, lease } = claim;
    this.fence = { execution: execution.id, attempt, lease_id: lease.id, epoch: lease.epoch };
    this.#reporter = reporter;
    this.scope = Scope.root(this.#controller.signal);
    this.context = new Context(this, this.scope);
    this.#overtaken = new Promise((resolve) => {
      this.#overtake = (op) => {
        this.#isOvertaken = true;
        resolve(op);
      };
    });
    this.tracker = new StepTracker(claim.steps, (waits) => this.#overtake(["suspend", { waits }]));
  }

  /** Names the attempt in a line of the log. */
  get subject(): string {
    const { kind, lane } = this.claim.execution;
    return `attempt ${this.fence.attempt} of ${kind} ${this.fence.execution} in lane ${lane}`;
  }

  /** Aborted when the cancellation is requested, the lease is lost, or the time of a drain is over. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  get isCancelled(): boolean {
    return this.#controller.signal.reason instanceof Cancelled;
  }

  /** True once nothing may be reported any more. */
  get isLost(): boolean {
    return this.#isLost;
  }

  /** Asks the handler to stop, because the cancellation of the execution was requested. */
  requestCancel(): void {
    this.#controller.abort(new Cancelled());
  }

  /** Gives the attempt up: its handler is asked to stop and nothing it does is reported any more. */
  lose(reason: string): void {
    this.#isLost = true;
    this.tracker.close(reason);
    this.#controller.abort(new AttemptOver(reason));
    this.#overtake(undefined);
  }

  /** Processes the loss of the lease. Returns false if the result is still accepted, so that the handler runs on. */
  leaseLost(lost: { reason: string; state?: string }): boolean {
    if (this.#isPaid && lost.state === "suspended") return false;
    this.lose(lost.reason);
    return true;
  }

  /** Reports an operation under the lease. The attempt is not suspended meanwhile. */
  report(op: string, fields: Record<string, unknown>, result?: string): Promise<Accepted> {
    const reported = this.tracker.reporting(async () => {
      if (this.#isLost) throw this.signal.reason;
      try {
        return await this.#reporter.send(this.#text(op, fields, result));
      } catch (error) {
        throw this.#afterRefusal(error);
      }
    });
    reported.catch(() => undefined);
    return reported;
  }

  /** Reports usage. It counts even if the lease has ended, because the money is spent. */
  async reportUsage(fields: Record<string, unknown>): Promise<Accepted> {
    const used = this.tracker.reporting(() => this.#reporter.send(this.#text("usage", fields)));
    used.catch(() => undefined);
    const result = await used.catch((error: unknown) => {
      throw this.#afterRefusal(error);
    });
    if (result.state === "suspended" || result.state === "failed") {
      this.#isPaid = result.state === "suspended";
      // A step that begins now would spend more, and its record would be refused.
      this.tracker.refuseNext(() => this.lose(`a budget has ${result.state} the execution`));
    }
    return result;
  }

  /** Refuses a wait in a batch handler, which would suspend the other executions of the batch with it. */
  checkWaits(step: string): void {
    if (this.surroundings.isBatch) throw new Permanent(`the step "${step}" waits, which a batch handler cannot`);
  }

  /** Returns an id for an operation that has no name of its own. */
  nextOpId(): string {
    this.#operations += 1;
    return String(this.#operations);
  }

  /**
   * Runs a handler until it returns, throws, is suspended or loses its lease, and reports the end. `onFailure` gets what a
   * handler threw before its failure is reported.
   */
  async run(handler: Next, onFailure: (thrown: unknown) => void): Promise<End> {
    const returned = this.#withinMiddleware(() => this.#handled(handler))().then(
      (value) => (this.#isOvertaken ? this.#overtaken : this.#opOfValue(value)),
      (error) => (this.#isOvertaken ? this.#overtaken : this.#opOfError(error)),
    );
    const op = await Promise.race([returned, this.#overtaken]);
    if (op === undefined || this.#isLost) return this.#isPaid ? "suspended" : "aborted";
    if (op[0] === "fail" && this.#failure) onFailure(this.#failure.thrown);
    return this.end(op);
  }

  /** Runs a handler, and checks that it ended as it should. */
  async #handled(handler: Next): Promise<unknown> {
    const value = await handler();
    if (value instanceof Error) throw value;
    const unfinished = this.tracker.unfinished();
    if (unfinished) throw unfinished;
    return value;
  }

  /** Returns the handler within its middleware, which sees the end of an attempt also when its handler has none. */
  #withinMiddleware(handler: Next): Next {
    const around = this.surroundings.middleware.flatMap((one) =>
      one.attempt ? [(next: Next) => one.attempt?.(this.context, next) as Promise<unknown>] : [],
    );
    if (around.length === 0) return handler;
    const over = async () => {
      const op = await this.#overtaken;
      throw op?.[0] === "suspend" ? new Suspended("the attempt is suspended") : this.signal.reason;
    };
    return within(around, () => Promise.race([handler(), over()]));
  }

  /** Runs the function of a step within its middleware. */
  runStep(context: Context, name: string, run: () => unknown): unknown {
    const { middleware } = this.surroundings;
    if (middleware.length === 0) return run();
    const around = middleware.flatMap((one) =>
      one.step ? [(next: Next) => one.step?.(context, name, next) as Promise<unknown>] : [],
    );
    return within(around, async () => run())();
  }

  /** Reports the last operation. A refused content fails the attempt instead. */
  async end(op: LastOp): Promise<End> {
    const [name, fields, result] = op;
    this.isEnding = true;
    this.tracker.close("this attempt has ended");
    try {
      await this.#reporter.send(this.#text(name, { op_id: "end", ...fields }, result));
      return ends[name];
    } catch (error) {
      const codes = name === "suspend" ? STEP_CODES : CONTENT_CODES;
      if (name !== "fail" && error instanceof Problem && codes.has(error.code)) {
        const subject = name === "suspend" ? "wait" : "return value";
        const message = `the ${subject} of the handler was refused: ${error.message}`;
        return this.end(["fail", { op_id: "refused", message, class: "permanent" }]);
      }
      this.endError = error;
      return "aborted";
    }
  }

  /** Puts the execution back, because the worker has no more time for its handler. */
  release(): void {
    if (this.isEnding || this.#isLost) return;
    this.#overtake(["release", {}]);
    this.tracker.close("the worker drains");
    this.#controller.abort(new AttemptOver("the worker drains, and its time for this attempt is over"));
  }

  #opOfValue(value: unknown): LastOp {
    try {
      return ["complete", {}, encode(value, "the result")];
    } catch (error) {
      return this.#opOfError(error);
    }
  }

  #opOfError(error: unknown): LastOp {
    const message = messageOf(error);
    if (this.isCancelled) return ["cancelled", { message }];
    if (error instanceof Delay) return ["delay", error.until];
    if (error instanceof Release) return ["release", {}];
    this.#failure = { thrown: error };
    if (error instanceof Retry) return ["fail", { message, class: "transient", retry_after_ms: error.afterMs }];
    return ["fail", { message, class: error instanceof Permanent ? "permanent" : "transient" }];
  }

  #text(op: string, fields: Record<string, unknown>, result?: string): string {
    const text = JSON.stringify({ op, ...this.fence, ...fields });
    return result === undefined ? text : `${text.slice(0, -1)},"result":${result}}`;
  }

  /** Returns the error for the handler, and gives the attempt up if its lease has ended. */
  #afterRefusal(error: unknown): unknown {
    if (!(error instanceof Problem)) return error;
    if (error.code === "stale_lease" || error.code === "not_found") {
      this.lose(`the lease of this attempt has ended: ${error.detail}`);
      return new AttemptOver(error.message, { cause: error });
    }
    return STEP_CODES.has(error.code) ? new Permanent(error.message, { cause: error }) : error;
  }
}

/** The last operation of an attempt: its name, its fields, and its result as JSON text. */
export type LastOp = readonly [name: keyof typeof ends, fields: Record<string, unknown>, result?: string];

const ends = {
  complete: "completed",
  fail: "failed",
  delay: "released",
  release: "released",
  suspend: "suspended",
  cancelled: "cancelled",
} as const satisfies Record<string, End>;
