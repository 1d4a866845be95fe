// What lives as long as a worker: made before its first claim, ended after its last handler.

/**
 * Yields once: what `ctx.state` is in all handlers. The code before runs before the first claim, the code after it when
 * the last handler has ended.
 */
export type Lifespan<State> = () => AsyncGenerator<State, void, undefined>;

/** A lifespan that has begun. */
export interface Lived {
  state: unknown;
  end(): Promise<void>;
}

/** Begins a lifespan. Without one the state is undefined. */
export async function begin(lifespan: Lifespan<unknown> | undefined): Promise<Lived> {
  if (!lifespan) return { state: undefined, end: () => Promise.resolve() };
  const generator = lifespan();
  const first = await generator.next();
  if (first.done) throw new Error("the lifespan of the worker yields nothing; yield the state of its handlers once");
  const end = async () => {
    const second = await generator.next();
    if (!second.done) throw new Error("the lifespan of the worker yields twice; yield the state of its handlers once");
  };
  return { state: first.value, end };
}
