// Middleware: functions of the user around each attempt and each step that runs.

import type { Context } from "./context.js";

/** Runs what the middleware is around. Call it once. */
export type Next = () => Promise<unknown>;

/**
 * Functions around attempts and steps. Each calls `next` once and returns its value, or another one; what it throws fails
 * the attempt. A step that an earlier attempt recorded does not run again, and no middleware with it. When the attempt is
 * suspended, `next` of the attempt throws `Suspended`; what a middleware returns or throws then is ignored.
 */
export interface Middleware<State = unknown> {
  attempt?(ctx: Context<State>, next: Next): Promise<unknown>;
  step?(ctx: Context<State>, name: string, next: Next): Promise<unknown>;
}

/** Returns a function that runs `run` within the middleware. The first one is the outermost. */
export function within(around: ReadonlyArray<(next: Next) => Promise<unknown>>, run: Next): Next {
  return around.reduceRight<Next>((inner, outer) => {
    let isCalled = false;
    const next = async () => {
      if (isCalled) throw new Error("a middleware has called next twice");
      isCalled = true;
      return inner();
    };
    return async () => outer(next);
  }, run);
}
