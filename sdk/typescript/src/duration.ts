// Durations: a number of milliseconds, or an object of units.

/** Milliseconds, or the sum of the units. */
export type Duration =
  number | { days?: number; hours?: number; minutes?: number; seconds?: number; milliseconds?: number };

/** Returns a duration in whole milliseconds. */
export function milliseconds(duration: Duration): number {
  if (typeof duration === "number") return Math.round(duration);
  const { days = 0, hours = 0, minutes = 0, seconds = 0, milliseconds = 0 } = duration;
  return Math.round((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000 + milliseconds);
}

/** Resolves after this many milliseconds, or rejects when the signal aborts. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const stop = () => {
      clearTimeout(timer);
      reject(signal?.reason as Error);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, ms);
    signal?.addEventListener("abort", stop, { once: true });
  });
}

/** Waits for a promise, but not longer than this many milliseconds. */
export async function within(ms: number, promise: Promise<unknown>): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const limit = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms);
  });
  await Promise.race([promise, limit]);
  clearTimeout(timer);
}
