// Settings from the environment of the process.

/** Returns an environment variable, or undefined if it is empty or the platform has no environment. */
export function environment(name: string): string | undefined {
  return typeof process === "undefined" ? undefined : process.env?.[name] || undefined;
}
