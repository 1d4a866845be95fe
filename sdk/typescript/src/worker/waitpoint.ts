// Waitpoints of a handler: an outside party delivers one signal to the execution, authorised by a token instead of an
// API key.

import type { Attempt } from "./attempt.js";

const none: ReadonlyMap<string, Waitpoint> = new Map();

/** A waitpoint to be created. */
export interface WaitpointDraft {
  name: string;
  source?: string;
  expires_ms?: number;
  signals?: string[];
  prompt?: string;
}

/** A waitpoint, with the token that authorises one delivery. */
export interface Waitpoint {
  id: string;
  name: string;
  /** The secret that authorises the delivery. Null once the waitpoint accepts no delivery any more. */
  token: string | null;
}

/**
 * Creates waitpoints. One that is open is returned again, with the same token. One that exists in this generation of
 * the execution and is settled is returned without a token; otherwise every attempt after a delivery would create
 * another one.
 */
export async function createWaitpoints(attempt: Attempt, drafts: WaitpointDraft[]): Promise<Waitpoint[]> {
  const settled = attempt.fence.attempt === 0 || drafts.length === 0 ? none : await settledWaitpoints(attempt);
  const created = drafts.map(async (draft): Promise<Waitpoint> => {
    const known = settled.get(draft.name);
    if (known) return known;
    const result = await attempt.report("waitpoint", { ...draft });
    const [waitpoint] = result.waitpoints ?? [];
    if (!waitpoint) throw new Error("a waitpoint was created but the server did not return it");
    return { id: waitpoint.id, name: waitpoint.name, token: waitpoint.token };
  });
  return Promise.all(created);
}

async function settledWaitpoints(attempt: Attempt): Promise<Map<string, Waitpoint>> {
  const { client, claim } = attempt;
  const since = await generationStart(attempt);
  const settled = new Map<string, Waitpoint>();
  for await (const { id, name, state, createdAt } of client.waitpoints.list({ execution: claim.execution.id })) {
    // The newest comes first.
    if (state !== "open" && createdAt >= since && !settled.has(name)) settled.set(name, { id, name, token: null });
  }
  return settled;
}

/** Returns the time at which this generation of the execution began. */
async function generationStart({ client, claim }: Attempt): Promise<string> {
  let start = claim.execution.submitted_at;
  if (claim.execution.generation > 0) {
    for await (const event of client.history(claim.execution.id)) {
      if (event.type === "execution.replayed" || event.type === "execution.reopened") start = event.at;
    }
  }
  return start;
}
