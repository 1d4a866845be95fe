// The state of an attempt's steps: which are recorded, which the handler has requested, which run, which waits are
// open.
//
// The tracker decides when an attempt may be suspended: at least one wait is open, and nothing runs whose effect would
// be repeated. A handler may do several things concurrently, so an open wait alone does not mean that it is idle. The
// tracker looks again after the event loop has turned: by then every function that could go on has gone on. From the
// suspension on, none of its operations settles, because nobody waits for the rest of the handler.

import { AttemptOver, Permanent } from "../errors.js";
import type * as wire from "../wire.js";
import { Operation } from "./operation.js";
import { never, type Scope } from "./scope.js";

/** The most open waits of one attempt. */
const WAITS_MAX = 100;

/** The state of one attempt's steps. All branches of the handler share it. */
export class StepTracker {
  readonly #recorded: Map<string, unknown>;
  readonly #requested = new Set<string>();
  readonly #reserved = new Set<string>();
  readonly #optional: Array<{ prefix: string; except: string | undefined }> = [];
  readonly #running = new Set<{ scope: Scope; name: string }>();
  readonly #unawaited = new Map<object, { scope: Scope; name: string }>();
  #reports = 0;
  readonly #waits = new Set<{ scope: Scope; wait: wire.Wait }>();
  readonly #suspend: (waits: wire.Wait[]) => void;
  #allOptional = false;
  #checking = false;
  #suspended = false;
  #over: AttemptOver | undefined;
  #refuse: (() => void) | undefined;

  /** Creates the tracker of an attempt. `suspend` is called at most once, with the open waits. */
  constructor(steps: Readonly<Record<string, unknown>>, suspend: (waits: wire.Wait[]) => void) {
    this.#recorded = new Map(Object.entries(steps));
    this.#suspend = suspend;
  }

  /** Notes that the handler has requested a step, and returns its full name. */
  request(scope: Scope, name: string): string {
    const fullName = scope.name(name);
    this.#requested.add(fullName);
    return fullName;
  }

  /** Reserves the name of a step. A name is used once in an attempt, unless its step failed. */
  reserve(name: string): void {
    if (this.#reserved.has(name)) {
      throw new Permanent(`the step "${name}" is used twice in one attempt; give each step a name of its own`);
    }
    this.#reserved.add(name);
  }

  /** Frees the name of a step that failed, so that the handler may try again. */
  free(name: string): void {
    this.#reserved.delete(name);
  }

  /** Returns true if an earlier attempt recorded a step of this name. */
  has(name: string): boolean {
    return this.#recorded.has(name);
  }

  /** Returns the result that an earlier attempt recorded. */
  recorded(name: string): unknown {
    return this.#recorded.get(name);
  }

  /** Runs a step. The attempt is not suspended meanwhile. Never settles if its branch is over by then. */
  async during<T>(scope: Scope, name: string, step: () => Promise<T>): Promise<T> {
    await this.enter(scope);
    const running = { scope, name };
    this.#running.add(running);
    scope.stepBegins();
    try {
      const value = await step();
      return scope.isDropped ? await never<T>() : value;
    } catch (error) {
      if (scope.isDropped) return await never<T>();
      throw error;
    } finally {
      this.#running.delete(running);
      scope.stepEnds();
      this.#checkIdle();
    }
  }

  /** Returns the promise that a handler gets of an operation, and notes whether the handler awaits it. */
  watch<T>(scope: Scope, name: string, promise: Promise<T>): Promise<T> {
    const operation = Operation.of(promise, (awaited) => this.#unawaited.delete(awaited));
    this.#unawaited.set(operation, { scope, name: scope.name(name) });
    return operation;
  }

  /** Runs a report. The attempt is not suspended meanwhile. */
  async reporting<T>(report: () => Promise<T>): Promise<T> {
    this.#reports += 1;
    try {
      return await report();
    } finally {
      this.#reports -= 1;
      this.#checkIdle();
    }
  }

  /** Opens a wait that never settles: a later attempt continues after it. */
  async wait(scope: Scope, wait: wire.Wait): Promise<never> {
    await this.enter(scope);
    if (this.#waits.size === WAITS_MAX) {
      throw new Permanent(`the step "${wait.step}" exceeds the limit of ${WAITS_MAX} open waits in one attempt`);
    }
    this.#waits.add({ scope, wait });
    this.#checkIdle();
    return never();
  }

  /** Makes names with this prefix optional, unless they have the prefix `except`. */
  makeOptional(prefix: string, except?: string): void {
    this.#optional.push({ prefix, except });
  }

  /** Makes all recorded steps optional. */
  allowVanished(): void {
    this.#allOptional = true;
  }

  /** Returns the error of a handler that returned without awaiting every operation, or without every recorded step. */
  unfinished(): Permanent | undefined {
    for (const { scope, name } of this.#unawaited.values()) {
      if (!scope.isDropped) return new Permanent(`the step "${name}" is not awaited; write await before it`);
    }
    for (const { scope, name } of this.#running) {
      if (scope.isDropped) continue;
      return new Permanent(`the handler returned while the step "${name}" was running; wait for the end of the step`);
    }
    return this.#vanished();
  }

  #vanished(): Permanent | undefined {
    if (this.#allOptional) return undefined;
    for (const name of this.#recorded.keys()) {
      if (this.#accountsFor(name)) continue;
      return new Permanent(
        `the handler returned without the step "${name}", which an earlier attempt recorded; restore the step, or call allowVanishedSteps if it was removed on purpose`,
      );
    }
    return undefined;
  }

  /** Returns if the branch may go on. Never settles if the attempt is suspended or the branch is over. */
  async enter(scope: Scope): Promise<void> {
    if (!this.#suspended && !scope.isStopped) this.#refuse?.();
    if (this.#suspended || scope.isStopped) await never();
    if (this.#over) throw this.#over;
  }

  /** Lets the handler go on until its next operation, which calls `refuse` instead. */
  refuseNext(refuse: () => void): void {
    this.#refuse = refuse;
  }

  /** Ends the attempt. Its operations throw after this. */
  close(reason: string): void {
    this.#over ??= new AttemptOver(reason);
  }

  /** A branch was dropped: what is left may be idle. */
  branchDropped(): void {
    this.#checkIdle();
  }

  get #isIdle(): boolean {
    if (this.#over || this.#suspended || this.#reports > 0) return false;
    for (const { scope } of this.#running) if (!scope.isDropped) return false;
    for (const { scope } of this.#waits) if (!scope.isDropped) return true;
    return false;
  }

  #checkIdle(): void {
    if (this.#checking || !this.#isIdle) return;
    this.#checking = true;
    afterTurn(() => {
      this.#checking = false;
      if (!this.#isIdle) return;
      this.#suspended = true;
      const open = [...this.#waits].filter(({ scope }) => !scope.isDropped);
      this.#suspend(open.map(({ wait }) => wait));
    });
  }

  #accountsFor(name: string): boolean {
    const isOptional = ({ prefix, except }: { prefix: string; except: string | undefined }) =>
      name.startsWith(prefix) && !(except !== undefined && name.startsWith(except));
    return this.#requested.has(name) || this.#optional.some(isOptional);
  }
}

/** Calls a function after the timers that are due and the input that has arrived were handled. */
export function afterTurn(call: () => void): void {
  const immediate = typeof setImmediate === "function" ? setImmediate : (call: () => void) => setTimeout(call, 0);
  setTimeout(() => immediate(call), 0);
}
