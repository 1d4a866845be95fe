// The usage that a step reports. It is sent together with the record of the step: a breach does not lose the result that
// was paid for, and a later attempt, which gets the recorded result, does not count the usage again.

type Storage = Pick<import("node:async_hooks").AsyncLocalStorage<object[]>, "run" | "getStore">;

const storage: Storage | undefined = await import("node:async_hooks").then(
  ({ AsyncLocalStorage }) => new AsyncLocalStorage<object[]>(),
  () => undefined, // not on Node: usage is sent at once
);

/** Runs a step. What it reports is added to `spent`. */
export function spending<T>(spent: object[], step: () => T): T {
  return storage ? storage.run(spent, step) : step();
}

/** Keeps usage for the record of the running step. Returns false outside of a step. */
export function spend(usage: object): boolean {
  return storage?.getStore()?.push(usage) !== undefined;
}
