// JSON of the user: encoded once, with the limits of the server.

import { Permanent } from "../errors.js";

/** The largest input, result or step, in bytes of UTF-8. */
const PAYLOAD_LIMIT = 1024 * 1024;
/** The server accepts 64 KiB of UTF-8, in which a character has at most three bytes for each unit of a string. */
const MESSAGE_LIMIT = (64 * 1024) / 3;

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

/** Returns the message of whatever was thrown, with its causes, cut to a length that the server accepts. */
export function messageOf(thrown: unknown): string {
  const messages: string[] = [];
  for (let error = thrown; error !== undefined && messages.length < 8;) {
    const message = error instanceof Error ? error.message || error.name : text(error);
    // Some errors already include the message of their cause.
    if (!messages.some((earlier) => earlier.includes(message))) messages.push(message);
    error = error instanceof Error ? error.cause : undefined;
  }
  return messages.join(": ").slice(0, MESSAGE_LIMIT) || "the handler failed without a message";
}

function text(thrown: unknown): string {
  return typeof thrown === "string" ? thrown : (JSON.stringify(thrown) ?? typeof thrown);
}
