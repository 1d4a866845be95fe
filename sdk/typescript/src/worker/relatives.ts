// Upstreams and children of a claimed execution, with the results that were too large for the claim.

import type { Client } from "../client/client.js";
import { Permanent } from "../errors.js";
import type * as wire from "../wire.js";

type Outcome = wire.Execution["outcome"];

/** A child of an execution. */
export interface Child {
  outcome: Outcome;
  result: unknown;
}

/** The results of the upstreams by name. Reading one that the claim left out throws. */
export function upstreamResults(claim: wire.Claim): Record<string, unknown> {
  const results = { ...claim.upstream };
  for (const name of Object.keys(claim.upstream_refs)) {
    defineLeftOut(results, name, `the result of the upstream "${name}" is too large; use ctx.fetchUpstream`);
  }
  return results;
}

/** The children by name. Reading a result that the claim left out throws. */
export function claimedChildren(claim: wire.Claim): Record<string, Child> {
  const children = { ...claim.children } as Record<string, Child>;
  for (const name of Object.keys(claim.children_refs)) {
    const child = { outcome: null } as Child;
    const detail = `the result of the child "${name}" is too large; use ctx.fetchChild`;
    defineLeftOut(child, "result", detail);
    children[name] = child;
  }
  return children;
}

function defineLeftOut(target: object, name: string, detail: string): void {
  const get = () => {
    throw new Permanent(detail);
  };
  // Not enumerable, so that copying the object does not throw.
  Object.defineProperty(target, name, { get, enumerable: false });
}

/** Returns the result of an upstream, from the claim or from the server. */
export async function fetchUpstream(client: Client, claim: wire.Claim, name: string): Promise<unknown> {
  const reference = claim.upstream_refs[name];
  const outcome = claim.upstream_outcomes[name]?.outcome;
  if (Object.hasOwn(claim.upstream, name)) return claim.upstream[name];
  if (reference && outcome === "completed") return (await client.ended(reference)).result;
  if (outcome === undefined) throw new Permanent(`there is no upstream "${name}"`);
  throw new Permanent(`the upstream "${name}" has no result: it ${outcome ? `ended as ${outcome}` : "has not ended"}`);
}

/** Returns a child with its result, from the claim or from the server. */
export async function fetchChild(client: Client, claim: wire.Claim, name: string): Promise<Child> {
  const child = Object.hasOwn(claim.children, name) ? claim.children[name] : undefined;
  if (child) return { outcome: child.outcome, result: child.result };
  const reference = claim.children_refs[name];
  if (!reference) throw new Permanent(`there is no child "${name}"`);
  const { outcome, result } = await client.ended(reference);
  return { outcome, result };
}
