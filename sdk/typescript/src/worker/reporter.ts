// Reports of a worker: all operations of all attempts in one queue, sent in order, one report at a time.
//
// Operations that come while a report is under way share the next one, along with a claim for the free slots. While the
// server is away, operations are kept and repeated; the fence of the lease and the ids of operations make that safe.

import type { Transport } from "../client/transport.js";
import { backoff, isTemporary } from "../client/transport.js";
import { pause } from "../duration.js";
import { Problem, problemOf } from "../errors.js";
import { fromWire } from "../fields.js";
import type * as wire from "../wire.js";

/** The time for which an operation is repeated while the server is away, as long as its lease may live on. */
const RETRY_LIMIT_MS = 300_000;
const OPS_MAX = 1000;
/** The server accepts 32 MiB; smaller reports let others in between. */
const TEXT_MAX = 8 * 1024 * 1024;

/** The result of an accepted operation. */
export type Accepted = Extract<wire.OpResult, { ok: true }>;

/** The claims that came with a report, or the reason why there are none. */
export interface NextClaims {
  claims: wire.Claim[];
  drain: boolean;
  error: Problem | undefined;
}

/** The part of a worker that claims. */
export interface Claimer {
  /** Returns a claim for the free slots, or undefined if there are none or a claim is under way. */
  nextClaim(): wire.ClaimRequest | undefined;
  /** Processes the claims of a report. Called once for each claim that `nextClaim` returned. */
  claimed(next: NextClaims): void;
}

interface QueuedOp {
  text: string;
  queuedAt: number;
  resolve: (result: Accepted) => void;
  reject: (error: unknown) => void;
}

interface ReportAnswer {
  results: wire.OpResult[];
  claims: wire.Claim[];
  drain?: boolean;
  claim_error?: wire.Problem;
}

/** The queue of operations of one worker. */
export class Reporter {
  readonly #transport: Transport;
  readonly #path: string;
  readonly #claimer: Claimer;
  #queue: QueuedOp[] = [];
  #sending: Promise<void> | undefined;

  constructor(transport: Transport, path: string, claimer: Claimer) {
    this.#transport = transport;
    this.#path = path;
    this.#claimer = claimer;
  }

  /** True while operations wait for their answers. */
  get isBusy(): boolean {
    return this.#sending !== undefined;
  }

  /** Resolves when every operation is answered. */
  async idle(): Promise<void> {
    while (this.#sending) await this.#sending;
  }

  /** Sends an operation, given as JSON text. Rejects with a `Problem` if it is refused. */
  send(text: string): Promise<Accepted> {
    const answer = new Promise<Accepted>((resolve, reject) => {
      this.#queue.push({ text, queuedAt: Date.now(), resolve, reject });
    });
    // A handler may leave a frame unawaited; its refusal must not end the process.
    answer.catch(() => undefined);
    this.#sending ??= this.#sendAll();
    return answer;
  }

  async #sendAll(): Promise<void> {
    // Attempts that end in the same turn of the event loop share a report.
    await new Promise<void>((resolve) => setImmediatePortable(resolve));
    for (let failures = 0; this.#queue.length > 0;) {
      const failure = await this.#sendBatch(this.#take());
      failures = failure ? failures + 1 : 0;
      if (failure) await pause(failure.retryAfterMs ?? backoff(failures));
    }
    this.#sending = undefined;
  }

  #take(): QueuedOp[] {
    let size = 0;
    let count = 0;
    for (const op of this.#queue) {
      size += op.text.length;
      if (count === OPS_MAX || (count > 0 && size > TEXT_MAX)) break;
      count += 1;
    }
    return this.#queue.splice(0, count);
  }

  /** Sends operations in one report. Returns the reason if they are queued again because the server is away. */
  async #sendBatch(batch: QueuedOp[]): Promise<{ retryAfterMs?: number } | undefined> {
    const claim = this.#claimer.nextClaim();
    const none: NextClaims = { claims: [], drain: false, error: undefined };
    try {
      const answer = await this.#call(batch, claim);
      batch.forEach((op, index) => {
        settle(op, answer.results[index]);
      });
      const error = answer.claim_error && problemOf(fromWire(answer.claim_error));
      if (claim) this.#claimer.claimed({ claims: answer.claims, drain: answer.drain ?? false, error });
      return undefined;
    } catch (error) {
      if (claim) this.#claimer.claimed(none);
      if (isTemporary(error)) {
        this.#queueAgain(batch, error);
        return error instanceof Problem ? error : {};
      }
      if (batch.length > 1) {
        // The operation that spoils the report is refused alone.
        for (const op of batch) await this.#sendBatch([op]);
      } else {
        batch[0]?.reject(error);
      }
      return undefined;
    }
  }

  async #call(batch: QueuedOp[], claim: wire.ClaimRequest | undefined): Promise<ReportAnswer> {
    const ops = batch.map((op) => op.text).join(",");
    const text = `{"ops":[${ops}]${claim ? `,"claim":${JSON.stringify(claim)}` : ""}}`;
    return JSON.parse(await this.#transport.send("POST", this.#path, { text, retryForMs: 0 })) as ReportAnswer;
  }

  #queueAgain(batch: QueuedOp[], error: unknown): void {
    const oldest = Date.now() - RETRY_LIMIT_MS;
    const kept = batch.filter((op) => op.queuedAt >= oldest);
    for (const op of batch) if (op.queuedAt < oldest) op.reject(error);
    this.#queue = [...kept, ...this.#queue];
  }
}

function settle(op: QueuedOp, result: wire.OpResult | undefined): void {
  if (result && "ok" in result) {
    op.resolve(result);
  } else if (result) {
    op.reject(problemOf(fromWire(result.error)));
  } else {
    const detail = "the report has no result for this operation";
    op.reject(new Problem({ type: "about:blank", title: "internal", status: 500, code: "internal", detail }));
  }
}

function setImmediatePortable(call: () => void): void {
  if (typeof setImmediate === "function") setImmediate(call);
  else setTimeout(call, 0);
}
