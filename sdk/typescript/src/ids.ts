// Ids that the client chooses itself, so that repeating a call whose answer was lost is safe.

/** Node 18 has no global `crypto`. */
const random = globalThis.crypto ?? ((await import("node:crypto")).webcrypto as Crypto);

/** Returns a random UUID. */
export function randomId(): string {
  return random.randomUUID();
}

/** Returns a UUID of version 7 (RFC 9562): its first 48 bits are the time, so that new rows are neighbours. */
export function newId(): string {
  const bytes = random.getRandomValues(new Uint8Array(16));
  const view = new DataView(bytes.buffer);
  const now = Date.now();
  view.setUint32(0, Math.floor(now / 0x10000));
  view.setUint16(4, now % 0x10000);
  view.setUint8(6, 0x70 | (view.getUint8(6) & 0x0f));
  view.setUint8(8, 0x80 | (view.getUint8(8) & 0x3f));
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}
