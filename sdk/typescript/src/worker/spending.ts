// The usage that a step reports. It is sent together with the record of the step: a breach does not lose the result that
// was paid for, and a later attempt, which gets the recorded result, does not count the usage again.
//
// A step that runs alone needs no asynchronous storage, which would make every promise of the process slower on Node 20.

interface Spent {
  /** An attempt that a report of another one has started inherits its storage, so the storage names its attempt. */
  readonly owner: Spending;
  readonly usage: object[];
}

type Storage = Pick<import("node:async_hooks").AsyncLocalStorage<Spent>, "run" | "getStore">;

const storage: Storage | undefined = await import("node:async_hooks").then(
  ({ AsyncLocalStorage }) => new AsyncLocalStorage<Spent>(),
  () => undefined, // not on Node: usage beside a running step is sent with that step
);

/** The usage of one attempt's steps. */
export class Spending {
  /** The usage of the step that began while no other ran. */
  #alone: object[] | undefined;

  /** Runs a step. What it reports is added to `spent`. */
  async during<T>(spent: object[], step: () => T | Promise<T>): Promise<T> {
    if (storage && (this.#alone || this.#stored)) return await storage.run({ owner: this, usage: spent }, step);
    this.#alone = spent;
    try {
      return await step();
    } finally {
      if (this.#alone === spent) this.#alone = undefined;
    }
  }

  get #stored(): object[] | undefined {
    const stored = storage?.getStore();
    return stored?.owner === this ? stored.usage : undefined;
  }

  /** Keeps usage for the record of the running step. Returns false outside of a step. */
  keep(usage: object): boolean {
    const spent = this.#stored ?? this.#alone;
    return spent?.push(usage) !== undefined;
  }
}
