// The log of a worker.

/** Where a worker logs. `console` fits. */
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
