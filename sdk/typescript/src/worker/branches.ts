// Concurrent branches of a handler: `race` and `all`.

import { Permanent } from "../errors.js";
import type { Attempt } from "./attempt.js";
import { Context } from "./context.js";
import { never, type Scope } from "./scope.js";
import { afterTurn, type StepTracker } from "./tracker.js";

/** A branch: gets a context of its own, in which the names of steps begin with those of the group and the branch. */
export type Branch<T, State = unknown> = (ctx: Context<State>) => T | Promise<T>;

/** A branch with its name. */
export type NamedBranch<T, State = unknown> = readonly [name: string, branch: Branch<T, State>];

/** Runs branches until the first of them ends. The winner is recorded: later attempts run only that branch. */
export async function race<T>(
  attempt: Attempt,
  outer: Scope,
  name: string,
  branches: ReadonlyArray<NamedBranch<T>>,
): Promise<T> {
  const { tracker } = attempt;
  const fullName = tracker.request(outer, name);
  checkNames("race", fullName, branches);
  const slashed = branches.find(([branch]) => branch.includes("/"));
  if (slashed) {
    // The steps of the winner and of the losers are told apart by their prefixes.
    throw new Permanent(`the race "${fullName}" has a branch "${slashed[0]}"; its name must not contain a slash`);
  }
  await tracker.enter(outer);
  tracker.reserve(fullName);
  const scope = outer.under(name);
  const loseOthers = (winner: string) => tracker.makeOptional(scope.prefix, scope.under(winner).prefix);
  if (tracker.has(fullName)) {
    const winner = tracker.recorded(fullName) as string;
    const branch = branches.find(([branch]) => branch === winner)?.[1];
    if (!branch) {
      throw new Permanent(
        `the race "${fullName}" was won by its branch "${winner}", which no longer exists; restore the branch`,
      );
    }
    loseOthers(winner);
    return branch(new Context(attempt, scope.under(winner)));
  }
  const begun = Date.now();
  const running = branches.map((branch) => start(attempt, scope, branch));
  const winner = await firstToEnd(tracker, running);
  const dropLosers = () => {
    for (const { scope } of running) scope.drop();
  };
  if (winner.failure) {
    dropLosers();
    tracker.free(fullName);
    tracker.branchDropped();
    throw winner.failure.error;
  }
  // Every attempt has to take the same branch, so the winner is recorded before the handler continues.
  await tracker.during(outer, fullName, async () => {
    dropLosers();
    const fields = { name: fullName, kind: "race", duration_ms: Date.now() - begun };
    await attempt.report("step", fields, JSON.stringify(winner.branch));
  });
  loseOthers(winner.branch);
  return winner.value as T;
}

/** Runs branches until all have ended. After a failure no branch begins another step. */
export async function all<T>(
  attempt: Attempt,
  outer: Scope,
  name: string,
  branches: ReadonlyArray<NamedBranch<T>>,
): Promise<T[]> {
  if (branches.length === 0) return [];
  checkNames("group", outer.name(name), branches);
  const group = outer.under(name);
  const running = branches.map((branch) => start(attempt, group, branch));
  const failed = Promise.race(
    running.map(async (one) => {
      await one.ended;
      return one.failure ?? never<{ error: unknown }>();
    }),
  );
  const failure = await Promise.race([failed, Promise.all(running.map((one) => one.ended)).then(() => undefined)]);
  const found = failure ?? running.find((one) => one.failure)?.failure;
  if (!found) return running.map((one) => one.value as T);
  group.stopped = true;
  await group.idle();
  group.drop();
  attempt.tracker.branchDropped();
  throw found.error;
}

interface Running<T> {
  branch: string;
  scope: Scope;
  ended: Promise<void>;
  isEnded: boolean;
  value: T | undefined;
  failure: { error: unknown } | undefined;
}

function start<T>(attempt: Attempt, group: Scope, [branch, run]: NamedBranch<T>): Running<T> {
  const scope = group.under(branch);
  const ended = Promise.resolve();
  const running: Running<T> = { branch, scope, ended, isEnded: false, value: undefined, failure: undefined };
  const runs = async () => {
    try {
      running.value = await run(new Context(attempt, scope));
    } catch (error) {
      running.failure = { error };
    }
    running.isEnded = true;
  };
  running.ended = runs();
  return running;
}

/** Returns the first branch to end. Of several that end together it is the one that was named first. */
async function firstToEnd<R extends Running<unknown>>(tracker: StepTracker, running: R[]): Promise<R> {
  const first = await Promise.race(running.map((one) => one.ended.then(() => one)));
  // The losers may have open waits, for which the attempt must not be suspended now.
  await tracker.reporting(() => new Promise<void>((resolve) => afterTurn(resolve)));
  return running.find((one) => one.isEnded) ?? first;
}

function checkNames(what: string, name: string, branches: ReadonlyArray<NamedBranch<unknown>>): void {
  if (branches.length === 0) throw new Permanent(`the ${what} "${name}" has no branch, so it would never end`);
  const seen = new Set<string>();
  for (const [branch] of branches) {
    if (seen.has(branch)) {
      throw new Permanent(`the ${what} "${name}" has two branches "${branch}"; give each branch a name of its own`);
    }
    seen.add(branch);
  }
}
