// The usage that a step reports. It is sent together with the record of the step: a breach does not lose the result that
// was paid for, and a later attempt, which gets the recorded result, does not count the usage again.
//
// A step that runs alone needs no asynchronous storage, which would make every promise of the process slower on Node 20.

type Storage = Pick<import("node:async_hooks").AsyncLocalStorage<object[]>, "run" | "getStore">;

const storage: Storage | undefined = await import("node:async_hooks").then(
  ({ AsyncLocalStorage }) => new AsyncLocalStorage<object[]>(),
  () => undefined, // not on Node: usage beside a running step is sent with that step
);

/** The usage of one attempt's steps. */
export class Spending {
  /** The usage of the step that began while no other ran. */
  #alone: object[] | undefined;

  /** Runs a step. What it reports is added to `spent`. */
  async during<T>(spent: object[], step: () => T | Promise<T>): Promise<T> {
    if (this.#alone && storage) return await storage.run(spent, step);
    this.#alone = spent;
    try {
      return await step();
    } finally {
      if (this.#alone === spent) this.#alone = undefined;
    }
  }

  /** Keeps usage for the record of the running step. Returns false outside of a step. */
  keep(usage: object): boolean {
    const spent = storage?.getStore() ?? this.#alone;
    return spent?.push(usage) !== undefined;
  }
}
