// The promise of a durable operation. It knows if the handler looks at it, because an operation that is not awaited
// would fail in silence, or end with its attempt before it is recorded.

/** A promise that calls `onAwaited` when the handler first awaits it or calls one of its methods. */
export class Operation<T> extends Promise<T> {
  #onAwaited: (() => void) | undefined;

  /** The promises of `then` are plain ones. */
  static override get [Symbol.species](): PromiseConstructor {
    return Promise;
  }

  /** Returns an operation with the outcome of a promise. Its rejection alone does not end the process. */
  static of<T>(promise: Promise<T>, onAwaited: (operation: Operation<T>) => void): Operation<T> {
    const operation = new Operation<T>((resolve, reject) => void promise.then(resolve, reject));
    Promise.prototype.then.call(operation, undefined, () => undefined);
    operation.#onAwaited = () => onAwaited(operation);
    return operation;
  }

  override then<A = T, B = never>(
    fulfilled?: ((value: T) => A | PromiseLike<A>) | null,
    rejected?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    this.#onAwaited?.();
    this.#onAwaited = undefined;
    return super.then(fulfilled, rejected);
  }
}
