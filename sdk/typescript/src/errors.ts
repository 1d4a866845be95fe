// The errors of the SDK. The client throws `Problem` for a refused request; a handler throws `Retry`, `Permanent`,
// `Delay` or `Release` to say how its attempt ends.

import { type Duration, milliseconds } from "./duration.js";
import type * as api from "./types.js";

/** The base of all errors of this package. */
export class SelvedgeError extends Error {
  constructor(message?: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** The server could not be reached, or did not answer. The request may have taken effect. */
export class ConnectionFailed extends SelvedgeError {}

/** The execution or flow has not ended within the given time. It goes on. The message says why, if the server does. */
export class WaitTimeout extends SelvedgeError {}

/** The execution ended other than completed. Thrown by `result`. */
export class NotCompleted extends SelvedgeError {
  constructor(
    readonly executionId: string,
    readonly outcome: NonNullable<api.Execution["outcome"]>,
    readonly error: api.Failure | null,
  ) {
    super(`the execution ${executionId} ended as ${outcome}${error ? `: ${error.message}` : ""}`);
  }
}

/** A problem document (RFC 9457), in camelCase. */
export type ProblemDocument = Omit<api.Problem, "code"> & { code: string };

/** The server refused a request. Match on the class or on `code`; both are stable. */
export class Problem extends SelvedgeError {
  readonly code: string;
  readonly status: number;
  readonly detail: string;
  /** The JSON pointer to the field that is wrong. */
  readonly pointer: string | undefined;
  readonly retryAfterMs: number | undefined;

  constructor(readonly document: ProblemDocument) {
    super(`${document.code}: ${document.detail}${document.pointer ? ` (at ${document.pointer})` : ""}`);
    this.code = document.code;
    this.status = document.status;
    this.detail = document.detail;
    this.pointer = document.pointer;
    this.retryAfterMs = document.retryAfterMs;
  }
}

/** 400: the request is not JSON, or its cursor is not valid. */
export class BadRequest extends Problem {}
/** 401: the key or token is missing, wrong, expired or revoked. */
export class Unauthorized extends Problem {}
/** 403: the role of the key does not permit the request. */
export class Forbidden extends Problem {}
/** 404: there is no such thing in the namespace. */
export class NotFound extends Problem {}
/** 409: the state does not permit the request. */
export class Conflict extends Problem {}
/** 409 `idempotency_mismatch`: the id or key was used with other content. */
export class IdempotencyMismatch extends Conflict {}
/** 409 `version_mismatch`: the execution has changed since the version in `ifVersion`. */
export class VersionMismatch extends Conflict {}
/** 409 `already_terminal`: the execution has ended. */
export class AlreadyTerminal extends Conflict {}
/** 409 `stale_lease`: the lease of the attempt has ended. Its work is to be discarded. */
export class StaleLease extends Conflict {}
/** 409 `superseded`: a newer process has the instance name of the worker. */
export class Superseded extends Conflict {}
/** 410: the cursor is older than the log, or does not belong to it. Read from the beginning, or from now. */
export class Gone extends Problem {}
/** 413: an input, result or body is too large. Store the data elsewhere and send a reference. */
export class PayloadTooLarge extends Problem {}
/** 422: the field at `pointer` is wrong. */
export class Invalid extends Problem {}
/** 429: too many requests, also after the retries of the client. */
export class RateLimited extends Problem {}
/** 503: the store is away or the server shuts down, also after the retries of the client. */
export class Unavailable extends Problem {}

type ProblemClass = new (document: ProblemDocument) => Problem;

const byCode: Record<string, ProblemClass> = {
  idempotency_mismatch: IdempotencyMismatch,
  version_mismatch: VersionMismatch,
  already_terminal: AlreadyTerminal,
  stale_lease: StaleLease,
  superseded: Superseded,
};

const byStatus: Record<number, ProblemClass> = {
  400: BadRequest,
  401: Unauthorized,
  403: Forbidden,
  404: NotFound,
  409: Conflict,
  410: Gone,
  413: PayloadTooLarge,
  422: Invalid,
  429: RateLimited,
  503: Unavailable,
};

/** Returns the error of a problem document. */
export function problemOf(document: ProblemDocument): Problem {
  const problem = byCode[document.code] ?? byStatus[document.status] ?? Problem;
  return new problem(document);
}

/** Thrown by a handler: the attempt failed and is retried, after `afterMs` or the back-off of the execution. */
export class Retry extends SelvedgeError {
  readonly afterMs: number | undefined;

  constructor(message?: string | RetryOptions, options?: RetryOptions) {
    const given = typeof message === "object" ? message : options;
    super(typeof message === "string" ? message : "the handler asks for a retry", given);
    this.afterMs = given?.afterMs;
  }
}

/** The options of `Retry`. */
export interface RetryOptions {
  /** The time until the next attempt, in milliseconds. Default: the back-off of the execution. */
  afterMs?: number;
  cause?: unknown;
}

/** Thrown by a handler: the execution failed, and a retry would not help. */
export class Permanent extends SelvedgeError {}

/** Thrown by a handler: put the execution back for this long, or until this time. Charges no retry. */
export class Delay extends SelvedgeError {
  readonly until: { delay_ms: number } | { until_at: string };

  constructor(until: Duration | Date) {
    super("the handler puts the execution back until later");
    this.until = until instanceof Date ? { until_at: until.toISOString() } : { delay_ms: milliseconds(until) };
  }
}

/** Thrown by a handler: put the execution back now, for any worker. Charges no retry. */
export class Release extends SelvedgeError {
  constructor() {
    super("the handler puts the execution back");
  }
}

/** The reason of `ctx.signal` after a request to cancel the execution. */
export class Cancelled extends SelvedgeError {
  constructor() {
    super("the cancellation of the execution was requested");
  }
}

/** The attempt has ended, so that its context can do nothing more. The next attempt continues the work. */
export class AttemptOver extends SelvedgeError {}

/** The attempt is suspended until what its handler waits for. Thrown to middleware only. */
export class Suspended extends AttemptOver {}
