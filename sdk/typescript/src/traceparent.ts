// The span under which executions are submitted, as the `traceparent` header of W3C Trace Context.

let current: () => string | undefined = () => undefined;

/** Sets the function that returns the current span. All clients of the process submit under it. */
export function readTraceparentWith(read: () => string | undefined): void {
  current = read;
}

/** Returns the header for a submission: that of its own, or that of the current span. */
export function traceparentHeader(own?: string): Record<string, string> {
  const traceparent = own ?? current();
  return traceparent === undefined ? {} : { traceparent };
}
