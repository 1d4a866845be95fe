// Resume conditions of waits.

import { type Duration, milliseconds } from "../duration.js";
import { type SignalType, signalName } from "../signal.js";
import type * as wire from "../wire.js";

/** The resume condition of a wait. Made by the functions of `until`; `any` and `all` nest up to four levels deep. */
export type Until = wire.Condition;

function count(n: number, of: readonly string[], distinct: "signals" | "waitpoints" | "sources"): Until {
  return { count: { n, of: [...of], distinct } };
}

/** The conditions of `ctx.wait`. */
export const until = {
  /** Requires a signal of this name. */
  signal: (signal: string | SignalType<never, unknown>): Until => ({ signal: signalName(signal) }),
  /** Requires signals of `n` different names among these. */
  signals: (n: number, of: readonly string[]): Until => count(n, of, "signals"),
  /** Requires deliveries through `n` different waitpoints among these. */
  waitpoints: (n: number, of: readonly string[]): Until => count(n, of, "waitpoints"),
  /** Requires a signal with one of these names from `n` different sources. */
  sources: (n: number, of: readonly string[]): Until => count(n, of, "sources"),
  /** Requires that this much time has passed since the wait began in its first attempt. */
  after: (duration: Duration): Until => ({ delay_ms: milliseconds(duration) }),
  /** Requires that this time has been reached. */
  at: (time: Date): Until => ({ until_at: time.toISOString() }),
  /** Requires an operator to resume the execution. */
  operator: (): Until => ({ operator: true }),
  /** Requires that all children have ended, except detached ones. */
  children: (): Until => ({ children: true }),
  /** Requires at least one of these conditions. */
  any: (...conditions: Until[]): Until => ({ any: conditions }),
  /** Requires all of these conditions. */
  all: (...conditions: Until[]): Until => ({ all: conditions }),
};
