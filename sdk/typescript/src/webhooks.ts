// Verifies the deliveries of webhooks, which are signed as Standard Webhooks describes.

import { Buffer } from "node:buffer";
import { createHmac, timingSafeEqual } from "node:crypto";
import { type Duration, milliseconds } from "./duration.js";
import { SelvedgeError } from "./errors.js";
import { fromWire } from "./fields.js";
import type * as api from "./types.js";

/** The delivery is not signed with the secret, or not recent. Answer it with 401. */
export class InvalidSignature extends SelvedgeError {}

/** The headers of a request: those of Node, or those of `fetch`. */
export type DeliveryHeaders =
  Readonly<Record<string, string | readonly string[] | undefined>> | { get(name: string): string | null };

/**
 * Returns the event of a delivery. Throws `InvalidSignature` unless it is signed with the secret and recent. `body` is the
 * body as it arrived, before it is parsed. `tolerance` is the longest difference between the clocks; default: 5 minutes.
 * Keep the header `webhook-id` of what was handled for a day and ignore repeats.
 */
export function verify(
  secret: string,
  headers: DeliveryHeaders,
  body: string | Uint8Array,
  options: { tolerance?: Duration } = {},
): api.Event {
  const id = header(headers, "webhook-id");
  const time = header(headers, "webhook-timestamp");
  const signatures = header(headers, "webhook-signature");
  const age = Math.abs(Date.now() - Number(time) * 1000);
  if (!(age <= milliseconds(options.tolerance ?? { minutes: 5 }))) {
    throw new InvalidSignature(`the delivery was signed at ${time}, too long ago or in the future`);
  }
  const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
  if (key.length === 0) throw new TypeError("the secret of the webhook is empty; give the one that the server showed");
  const expected = createHmac("sha256", key).update(`${id}.${time}.`).update(body).digest();
  // There is a signature for each secret that is valid.
  const isValid = signatures.split(" ").some((one) => {
    const given = Buffer.from(one.replace(/^v1,/, ""), "base64");
    return given.length === expected.length && timingSafeEqual(given, expected);
  });
  if (!isValid) throw new InvalidSignature("no signature is made with this secret");
  return fromWire<api.Event>(JSON.parse(Buffer.from(body as Uint8Array).toString("utf8")));
}

function header(headers: DeliveryHeaders, name: string): string {
  const isFetch = typeof headers.get === "function";
  const value: unknown = isFetch
    ? (headers as { get(name: string): string | null }).get(name)
    : Object.entries(headers).find(([key]) => key.toLowerCase() === name)?.[1];
  if (typeof value !== "string") throw new InvalidSignature(`the header ${name} is missing`);
  return value;
}
