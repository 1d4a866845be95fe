// The log of a worker.

/**
 * Where a worker logs: its start and its end as information, what it repeats as warnings, what a handler threw as errors, with
 * the stack. `console` fits.
 */
export interface Logger {
  info(message: string): void;
  warn(message: string): void;
  error(message: string): void;
}

/** Logs warnings and errors to the console. */
export const consoleLogger: Logger = {
  info: () => undefined,
  warn: (message) => console.warn(`selvedge: ${message}`),
  error: (message) => console.error(`selvedge: ${message}`),
};
