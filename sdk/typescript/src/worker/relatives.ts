// Upstreams and children of a claimed execution, with the results that were too large for the claim.

import type { Client } from "../client/client.js";
import { Permanent } from "../errors.js";
import { type ResultType, typed } from "../schema.js";
import type * as api from "../types.js";
import type * as wire from "../wire.js";
import { messageOf } from "./json.js";

type Outcome = wire.Execution["outcome"];

/** The end of an upstream. */
export interface UpstreamOutcome {
  /** Null while the upstream has not ended. */
  outcome: Outcome;
  error: api.Failure | null;
  executionId: string;
}

/** The upstreams of an execution, by the names of their nodes. */
export class Upstreams {
  readonly #client: Client;
  readonly #claim: wire.Claim;

  /** @internal */
  constructor(client: Client, claim: wire.Claim) {
    this.#client = client;
    this.#claim = claim;
  }

  /** The names of the upstreams that completed. */
  get names(): string[] {
    const { upstream, upstream_refs, upstream_outcomes } = this.#claim;
    const large = Object.keys(upstream_refs).filter((node) => upstream_outcomes[node]?.outcome === "completed");
    return [...Object.keys(upstream), ...large];
  }

  /** Returns true if the upstream completed, so that it has a result. */
  has(node: string): boolean {
    return this.names.includes(node);
  }

  /**
   * Returns the result of an upstream, with the type of a task or parsed by a schema. Throws if the upstream did not
   * complete, or if its result is too large for a claim; `fetch` reads it.
   */
  get<Output = unknown>(node: string, type?: ResultType<Output>): Output {
    const { upstream } = this.#claim;
    const subject = `the result of the upstream "${node}"`;
    if (!Object.hasOwn(upstream, node)) {
      if (this.has(node)) throw new Permanent(`${subject} is too large for a claim; use await ctx.upstream.fetch`);
      throw this.#noResult(node);
    }
    const value = fitting(subject, () => typed(type, upstream[node]));
    if (value instanceof Promise) throw new Permanent(`${subject} has an asynchronous schema; use ctx.upstream.fetch`);
    return value;
  }

  /** Returns the result of an upstream, however large. */
  async fetch<Output = unknown>(node: string, type?: ResultType<Output>): Promise<Output> {
    if (!this.has(node)) throw this.#noResult(node);
    const { upstream, upstream_refs } = this.#claim;
    const isHere = Object.hasOwn(upstream, node);
    const value = isHere ? upstream[node] : (await this.#client.ended(upstream_refs[node] as string)).result;
    return parseResult(`the result of the upstream "${node}"`, type, value);
  }

  /** Returns the result of the first upstream that completed: the winner of a race. */
  winner<Output = unknown>(type?: ResultType<Output>): Output {
    const [first] = this.names;
    if (first === undefined) throw new Permanent("no upstream has completed");
    return this.get(first, type);
  }

  /** Yields the names and results of the upstreams that completed: `Object.fromEntries(ctx.upstream)`. */
  *[Symbol.iterator](): Generator<[node: string, result: unknown]> {
    for (const node of this.names) yield [node, this.get(node)];
  }

  /** Returns the end of an upstream, or undefined if there is no upstream of this name. */
  outcome(node: string): UpstreamOutcome | undefined {
    const found = this.#claim.upstream_outcomes[node];
    return found && { outcome: found.outcome, error: found.error, executionId: found.execution };
  }

  #noResult(node: string): Permanent {
    const found = this.outcome(node);
    if (!found) return new Permanent(`there is no upstream "${node}"`);
    const state = found.outcome ? `ended as ${found.outcome}` : "has not ended";
    return new Permanent(`the upstream "${node}" has no result: it ${state}`);
  }
}

/** A child of an execution. */
export interface Child<Output = unknown> {
  outcome: Outcome;
  result: Output;
}

/** The children by name. Reading a result that the claim left out throws. */
export function claimedChildren(claim: wire.Claim): Record<string, Child> {
  const children = { ...claim.children } as Record<string, Child>;
  for (const name of Object.keys(claim.children_refs)) {
    const child = { outcome: null } as Child;
    const get = () => {
      throw new Permanent(`the result of the child "${name}" is too large; use ctx.fetchChild`);
    };
    // Not enumerable, so that copying the object does not throw.
    Object.defineProperty(child, "result", { get, enumerable: false });
    children[name] = child;
  }
  return children;
}

/** Returns a child with its result, from the claim or from the server. */
export async function fetchChild<Output>(
  client: Client,
  claim: wire.Claim,
  name: string,
  type?: ResultType<Output>,
): Promise<Child<Output>> {
  const { outcome, result } = await readChild(client, claim, name);
  if (outcome !== "completed") return { outcome, result: result as Output };
  return { outcome, result: await parseResult(`the result of the child "${name}"`, type, result) };
}

async function readChild(client: Client, claim: wire.Claim, name: string): Promise<Child> {
  const child = Object.hasOwn(claim.children, name) ? claim.children[name] : undefined;
  if (child) return { outcome: child.outcome, result: child.result };
  const reference = claim.children_refs[name];
  if (!reference) throw new Permanent(`there is no child "${name}"`);
  return client.ended(reference);
}

/** Returns a value as its type. One that does not fit is a permanent failure. */
export async function parseResult<Output>(
  subject: string,
  type: ResultType<Output> | undefined,
  value: unknown,
): Promise<Output> {
  const result = fitting(subject, () => typed(type, value));
  return result instanceof Promise ? result.catch((error: unknown) => Promise.reject(misfit(subject, error))) : result;
}

function fitting<T>(subject: string, parse: () => T): T {
  try {
    return parse();
  } catch (error) {
    throw misfit(subject, error);
  }
}

function misfit(subject: string, error: unknown): Permanent {
  return new Permanent(`${subject} is not what is expected: ${messageOf(error)}`, { cause: error });
}
