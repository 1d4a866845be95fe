// Branches of a handler. The names of a branch's steps begin with the names of its branches.
//
// JavaScript cannot drop a running function. A branch that lost its race or whose group failed is dropped by its scope
// instead: its operations never settle, its waits and running steps no longer count, and its signal is aborted.

import { AttemptOver } from "../errors.js";

/** A promise that never settles. */
export function never<T>(): Promise<T> {
  return new Promise(() => undefined);
}

/** One branch of a handler, or the whole handler. */
export class Scope {
  /** Aborted with that of the attempt, and when the branch is dropped. */
  readonly signal: AbortSignal;
  readonly #controller: AbortController | undefined;
  /** True once a branch of this group has failed: no step begins any more. */
  stopped = false;
  dropped = false;
  /** The number of steps in progress in this scope and its branches. */
  steps = 0;
  #onIdle: (() => void) | undefined;

  private constructor(
    readonly prefix: string,
    readonly parent: Scope | undefined,
    outer: AbortSignal,
  ) {
    this.#controller = parent ? new AbortController() : undefined;
    this.signal = this.#controller?.signal ?? outer;
    if (!this.#controller) return;
    if (outer.aborted) this.#controller.abort(outer.reason);
    outer.addEventListener("abort", () => this.#controller?.abort(outer.reason), { once: true });
  }

  /** Creates the scope of a handler. */
  static root(signal: AbortSignal): Scope {
    return new Scope("", undefined, signal);
  }

  /** Returns the scope of a branch. */
  under(name: string): Scope {
    return new Scope(`${this.prefix}${name}/`, this, this.signal);
  }

  /** Returns the full name of a step in this branch. */
  name(name: string): string {
    return `${this.prefix}${name}`;
  }

  get isDropped(): boolean {
    return this.dropped || (this.parent?.isDropped ?? false);
  }

  get isStopped(): boolean {
    return this.stopped || this.isDropped || (this.parent?.isStopped ?? false);
  }

  drop(): void {
    this.dropped = true;
    this.#controller?.abort(new AttemptOver("this branch is over"));
  }

  stepBegins(): void {
    this.steps += 1;
    this.parent?.stepBegins();
  }

  stepEnds(): void {
    this.steps -= 1;
    if (this.steps === 0) this.#onIdle?.();
    this.parent?.stepEnds();
  }

  /** Resolves when no step is in progress. */
  async idle(): Promise<void> {
    if (this.steps > 0) {
      await new Promise<void>((resolve) => {
        this.#onIdle = resolve;
      });
    }
  }
}
