// Approvals: several people are asked, and a number of them have to agree.

import type { Duration } from "../duration.js";
import { Permanent } from "../errors.js";
import type { Attempt } from "./attempt.js";
import type { Context, ReceivedSignal, WaitResult } from "./context.js";
import { until } from "./until.js";
import type { Waitpoint } from "./waitpoint.js";
import { createWaitpoints } from "./waitpoint.js";

/** The last part of the name of the signal that declines; the first part is the name of the approval. */
const REJECT = "reject";

/** Whom to ask, and how many have to agree. */
export interface ApprovalOptions {
  /** The people to ask. */
  of: readonly string[];
  /** How many have to agree. Default: all. */
  atLeast?: number;
  /** The time for the decision, counted from the moment all people have been asked. Default: no limit. */
  timeout?: Duration;
  /** The question to the holders of the tokens. */
  prompt?: string;
  /** Asks one person, as a durable step: sends the id and the token of the waitpoint. */
  ask: (person: string, waitpoint: Waitpoint) => void | Promise<void>;
}

/** The result of an approval. */
export interface Approval {
  /** The decision, or the reason why there is none. */
  verdict: "approved" | "rejected" | "timed_out" | "operator";
  isApproved: boolean;
  /** The votes that led to the decision, in the order of their arrival; without a decision, all votes. */
  votes: Vote[];
}

/** The vote of one person. */
export interface Vote {
  person: string;
  approves: boolean;
  signal: ReceivedSignal;
}

/** Asks people, and waits until enough have agreed, or so many have declined that not enough are left. */
export async function approval(
  ctx: Context,
  attempt: Attempt,
  name: string,
  options: ApprovalOptions,
): Promise<Approval> {
  const { tracker } = attempt;
  const fullName = ctx.stepName(name);
  const needed = check(fullName, options);
  if (tracker.has(fullName)) {
    // A recorded decision stands even if the code now names other people.
    tracker.makeOptional(`${fullName}/ask/`);
  } else {
    await askAll(ctx, attempt, name, options);
  }
  const reject = `${fullName}/${REJECT}`;
  const agreed = until.sources(
    needed,
    options.of.map((person) => `${fullName}/${person}`),
  );
  const declined = until.sources(options.of.length - needed + 1, [reject]);
  const wait = await ctx.wait(name, until.any(agreed, declined), { timeout: options.timeout });
  return result(wait, reject);
}

async function askAll(ctx: Context, attempt: Attempt, name: string, options: ApprovalOptions): Promise<void> {
  const fullName = ctx.stepName(name);
  const isAsked = (person: string) => attempt.tracker.has(`${fullName}/ask/${person}`);
  const toAsk = options.of.filter((person) => !isAsked(person));
  const drafts = toAsk.map((person) => ({
    name: `${fullName}/${person}`,
    source: person,
    signals: [`${fullName}/${person}`, `${fullName}/${REJECT}`],
    prompt: options.prompt,
  }));
  const waitpoints = await createWaitpoints(attempt, drafts);
  for (const person of options.of) {
    const waitpoint = waitpoints[toAsk.indexOf(person)];
    // Without a token the waitpoint is settled: somebody has answered for this person.
    await ctx.step(`${name}/ask/${person}`, () => (waitpoint?.token ? options.ask(person, waitpoint) : undefined));
  }
}

/** Validates an approval, and returns how many people have to agree. */
function check(name: string, { of: people, atLeast = people.length }: ApprovalOptions): number {
  const refused = (detail: string) => new Permanent(`the approval "${name}" ${detail}`);
  if (people.length === 0) throw refused("asks nobody; name the people in `of`");
  if (!Number.isInteger(atLeast) || atLeast < 1 || atLeast > people.length) {
    throw refused(`needs ${atLeast} of ${people.length} people; require at least one person and at most all of them`);
  }
  if (people.includes(REJECT)) throw refused(`asks "${REJECT}", a name that is reserved for the signal that declines`);
  const twice = people.find((person, index) => people.indexOf(person) !== index);
  if (twice !== undefined) throw refused(`asks "${twice}" twice`);
  return atLeast;
}

function result(wait: WaitResult, reject: string): Approval {
  const votes = wait.signals.map((signal) => ({
    person: signal.source,
    approves: signal.name !== reject,
    signal,
  }));
  const verdicts = { timeout: "timed_out", operator: "operator" } as const;
  // A wait whose condition holds has consumed only votes that agree or only votes that decline.
  const decision = votes.every((vote) => vote.approves) ? "approved" : "rejected";
  const verdict = wait.resumedBy === "condition" ? decision : verdicts[wait.resumedBy];
  return { verdict, isApproved: verdict === "approved", votes };
}
