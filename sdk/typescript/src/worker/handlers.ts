// The handlers of a worker, by kind.

import { Permanent, SelvedgeError } from "../errors.js";
import { parseWith, type Schema } from "../schema.js";
import type { Attempt } from "./attempt.js";
import type { Context } from "./context.js";
import { messageOf } from "./json.js";

/** Runs one execution of a kind. Returns the result, or throws. */
export type Handler<Input, Output, State = unknown> = (ctx: Context<State>, input: Input) => Output | Promise<Output>;

/** One execution of a batch. */
export interface BatchEntry<Input, State = unknown> {
  ctx: Context<State>;
  input: Input;
}

/**
 * Runs several executions of a kind in one call. Returns one value for each, in order; an error as a value fails that
 * execution alone. Executions whose values are missing at the end are retried.
 */
export type BatchHandler<Input, Output, State = unknown> = (
  entries: ReadonlyArray<BatchEntry<Input, State>>,
) => ReadonlyArray<Output | Error> | Promise<ReadonlyArray<Output | Error>>;

/** The options of a task. */
export interface TaskOptions<S extends Schema> {
  /** Parses the input. An input that does not fit is a permanent failure. */
  input: S;
}

/** The run of one attempt. */
export interface HandlerRun {
  /** Calls the handler. The call of a batch begins when none of its attempts is still in its middleware. */
  begin(): Promise<unknown>;
  /** Says that the attempt is over, if it ended without `begin`. */
  ended(): void;
}

/** A handler whose types are erased. */
export interface Registered {
  /** The most executions of one call. */
  max: number;
  isBatch: boolean;
  /** Prepares the runs of attempts. */
  runs(attempts: readonly Attempt[]): HandlerRun[];
}

/** Registers a handler of single executions. */
export function single<Input, Output>(handler: Handler<Input, Output>, schema: Schema<Input> | undefined): Registered {
  const run = (attempt: Attempt): HandlerRun => ({
    begin: async () => handler(attempt.context, await parsed(attempt, schema)),
    ended: () => undefined,
  });
  return { max: 1, isBatch: false, runs: (attempts) => attempts.map(run) };
}

/** Registers a batch handler. */
export function batch<Input, Output>(
  max: number,
  handler: BatchHandler<Input, Output>,
  schema: Schema<Input> | undefined,
): Registered {
  return { max, isBatch: true, runs: (attempts) => batchRuns(attempts, (begun) => runBatch(begun, handler, schema)) };
}

/** Returns runs that share one call, which begins with those attempts that have begun when all have begun or ended. */
function batchRuns(
  attempts: readonly Attempt[],
  call: (begun: Attempt[]) => Promise<Map<Attempt, unknown>>,
): HandlerRun[] {
  const open = new Set(attempts);
  const begun = new Set<Attempt>();
  let start: () => void = () => undefined;
  const values = new Promise<void>((resolve) => {
    start = resolve;
  }).then(() => call(attempts.filter((attempt) => begun.has(attempt))));
  values.catch(() => undefined);
  const settle = (attempt: Attempt) => {
    open.delete(attempt);
    if (open.size === 0) start();
  };
  return attempts.map((attempt) => ({
    begin: async () => {
      begun.add(attempt);
      settle(attempt);
      return (await values).get(attempt);
    },
    ended: () => settle(attempt),
  }));
}

/** Runs a batch handler for the attempts whose input fits, and returns a value or an error for each attempt. */
async function runBatch<Input, Output>(
  attempts: Attempt[],
  handler: BatchHandler<Input, Output>,
  schema: Schema<Input> | undefined,
): Promise<Map<Attempt, unknown>> {
  const answers = new Map<Attempt, unknown>();
  const entries: Array<BatchEntry<Input> & { attempt: Attempt }> = [];
  for (const attempt of attempts) {
    try {
      entries.push({ ctx: attempt.context, input: await parsed(attempt, schema), attempt });
    } catch (error) {
      answers.set(attempt, error);
    }
  }
  const call = entries.map(({ ctx, input }) => ({ ctx, input }));
  const values = entries.length > 0 ? await handler(call) : [];
  const counts = `${values.length} values for ${entries.length} executions`;
  if (values.length > entries.length) throw new Permanent(`the batch handler returned ${counts}`);
  entries.forEach(({ attempt }, index) => {
    // The answers that are missing may come the next time.
    const missing = index >= values.length;
    answers.set(attempt, missing ? new SelvedgeError(`the batch handler returned only ${counts}`) : values[index]);
  });
  return answers;
}

async function parsed<Input>(attempt: Attempt, schema: Schema<Input> | undefined): Promise<Input> {
  const { input, kind } = attempt.claim.execution;
  if (!schema) return input as Input;
  try {
    return await parseWith(schema, input);
  } catch (error) {
    throw new Permanent(`the input is not what ${kind} expects: ${messageOf(error)}`, { cause: error });
  }
}
