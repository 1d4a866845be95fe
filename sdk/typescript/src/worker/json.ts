// JSON of the user: encoded once, with the limits of the server.

import * as errors from "../errors.js";
import { Permanent } from "../errors.js";

/** The largest input, result or step, in bytes of UTF-8. */
const PAYLOAD_LIMIT = 1024 * 1024;
/** The server accepts 64 KiB of UTF-8, in which a character has at most three bytes for each unit of a string. */
const MESSAGE_LIMIT = (64 * 1024) / 3;
/** The most causes of an error that its message names. */
const CAUSES_MAX = 8;

/** Returns a value as JSON text. A value that JSON cannot carry, or that is too large, is a permanent failure. */
export function encode(value: unknown, name: string): string {
  let text: string | undefined;
  try {
    text = JSON.stringify(value);
  } catch (error) {
    throw new Permanent(`${name} cannot be written as JSON: ${(error as Error).message}`);
  }
  text ??= "null";
  if (text.length * 3 > PAYLOAD_LIMIT && new TextEncoder().encode(text).length > PAYLOAD_LIMIT) {
    throw new Permanent(`${name} is larger than 1 MiB; store the data elsewhere and return a reference`);
  }
  return text;
}

/** The errors of this package. Their messages say everything. */
const ownErrors = new Set<unknown>(Object.values(errors));

/**
 * Returns the message of whatever was thrown, with the names of errors as the language prints them and with their causes, cut
 * to a length that the server accepts: `TypeError: fetch failed: connect ECONNREFUSED 127.0.0.1:443`.
 */
export function messageOf(thrown: unknown): string {
  const messages: string[] = [];
  for (const error of chainOf(thrown)) {
    const message = error instanceof Error ? error.message || error.name : text(error);
    // Some errors already include the message of their cause.
    if (!messages.some((earlier) => earlier.includes(message))) messages.push(headline(error));
  }
  return messages.join(": ").slice(0, MESSAGE_LIMIT) || "the handler failed without a message";
}

/** Returns where whatever was thrown comes from: its stack and those of its causes, as text for a log. */
export function stackOf(thrown: unknown): string {
  return chainOf(thrown)
    .map((error) => (error instanceof Error && error.stack ? error.stack : headline(error)))
    .join("\ncaused by ");
}

/** Returns an error and its causes. */
function chainOf(thrown: unknown): unknown[] {
  const chain: unknown[] = [];
  for (let error = thrown; error !== undefined && chain.length < CAUSES_MAX;) {
    chain.push(error);
    error = error instanceof Error ? error.cause : undefined;
  }
  return chain;
}

/** Returns an error as the language prints it. A plain `Error` has a name that says nothing. */
function headline(error: unknown): string {
  if (!(error instanceof Error)) return text(error);
  const { name, message } = error;
  if (!message) return name;
  return name === "Error" || ownErrors.has(error.constructor) ? message : `${name}: ${message}`;
}

function text(thrown: unknown): string {
  return typeof thrown === "string" ? thrown : (JSON.stringify(thrown) ?? typeof thrown);
}
