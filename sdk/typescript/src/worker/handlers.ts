// The handlers of a worker, by kind.

import { Permanent, SelvedgeError } from "../errors.js";
import { parseWith, type Schema } from "../schema.js";
import type { Attempt } from "./attempt.js";
import { Context } from "./context.js";
import { messageOf } from "./json.js";

/** Runs one execution of a kind. Returns the result, or throws. */
export type Handler<Input, Output> = (ctx: Context, input: Input) => Output | Promise<Output>;

/** One execution of a batch. */
export interface BatchEntry<Input> {
  ctx: Context;
  input: Input;
}

/**
 * Runs several executions of a kind in one call. Returns one value for each, in order; an error as a value fails that
 * execution alone. Executions whose values are missing at the end are retried.
 */
export type BatchHandler<Input, Output> = (
  entries: ReadonlyArray<BatchEntry<Input>>,
) => ReadonlyArray<Output | Error> | Promise<ReadonlyArray<Output | Error>>;

/** The options of a task. */
export interface TaskOptions<S extends Schema> {
  /** Parses the input. An input that does not fit is a permanent failure. */
  input: S;
}

/** A handler whose types are erased. */
export interface Registered {
  /** The most executions of one call. */
  max: number;
  isBatch: boolean;
  /** Runs attempts, and returns a promise of the value of each. */
  run(attempts: Attempt[]): Array<() => Promise<unknown>>;
}

/** Registers a handler of single executions. */
export function single<Input, Output>(handler: Handler<Input, Output>, schema: Schema<Input> | undefined): Registered {
  const run = (attempt: Attempt) => async () => {
    const input = await parsed(attempt, schema);
    return handler(new Context(attempt, attempt.scope), input);
  };
  return { max: 1, isBatch: false, run: (attempts) => attempts.map(run) };
}

/** Registers a batch handler. */
export function batch<Input, Output>(
  max: number,
  handler: BatchHandler<Input, Output>,
  schema: Schema<Input> | undefined,
): Registered {
  return {
    max,
    isBatch: true,
    run: (attempts) => {
      const values = runBatch(attempts, handler, schema);
      return attempts.map((_, index) => async () => (await values)[index]);
    },
  };
}

/** Runs a batch handler for the attempts whose input fits, and returns a value or an error for each attempt. */
async function runBatch<Input, Output>(
  attempts: Attempt[],
  handler: BatchHandler<Input, Output>,
  schema: Schema<Input> | undefined,
): Promise<unknown[]> {
  const refusals = new Map<Attempt, Permanent>();
  const entries: Array<BatchEntry<Input>> = [];
  for (const attempt of attempts) {
    try {
      entries.push({ ctx: new Context(attempt, attempt.scope), input: await parsed(attempt, schema) });
    } catch (error) {
      refusals.set(attempt, error as Permanent);
    }
  }
  const values: unknown[] = entries.length > 0 ? [...(await handler(entries))] : [];
  const counts = `${values.length} values for ${entries.length} executions`;
  if (values.length > entries.length) throw new Permanent(`the batch handler returned ${counts}`);
  // The answers that are missing may come the next time.
  while (values.length < entries.length) values.push(new SelvedgeError(`the batch handler returned only ${counts}`));
  return attempts.map((attempt) => refusals.get(attempt) ?? values.shift());
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
