// The check of a webhook's signature, as docs/webhooks.md shows it, with a real delivery.

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { Server } from "selvedge/testing";
import { deferred } from "./support.js";

// region: verify
import { createHmac, timingSafeEqual } from "node:crypto";

function verify(secret: string, headers: Record<string, string>, body: Buffer): void {
  const { "webhook-id": id, "webhook-timestamp": time, "webhook-signature": signatures = "" } = headers;
  if (Math.abs(Date.now() / 1000 - Number(time)) > 300) throw new Error("too old or too new");
  const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
  const expected = createHmac("sha256", key).update(`${id}.${time}.`).update(body).digest();
  const isValid = signatures.split(" ").some((one) => {
    const given = Buffer.from(one.replace(/^v1,/, ""), "base64");
    return given.length === expected.length && timingSafeEqual(given, expected);
  });
  if (!isValid) throw new Error("no valid signature");
}
// endregion: verify

test("the signature of a delivery is valid, and that of a changed body is not", async () => {
  const delivered = deferred<{ headers: Record<string, string>; body: Buffer }>();
  const receiver = createServer((request: IncomingMessage, response) => {
    const parts: Buffer[] = [];
    request.on("data", (part: Buffer) => parts.push(part));
    request.on("end", () => {
      delivered.resolve({ headers: request.headers as Record<string, string>, body: Buffer.concat(parts) });
      response.end();
    });
  });
  receiver.listen(0, "127.0.0.1");
  await once(receiver, "listening");
  await using server = await Server.start({ command: "serve", arguments: ["--webhook-allow-private"] });
  const url = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/hook`;
  const { secret } = await server.client.webhooks.put("test", { url, types: ["execution.submitted"] });
  await server.client.submit("any");
  const { headers, body } = await delivered.promise;
  verify(secret ?? assert.fail(), headers, body);
  assert.throws(() => verify(secret ?? "", headers, Buffer.concat([body, Buffer.from(" ")])), /no valid signature/);
  assert.throws(() => verify(secret ?? "", { ...headers, "webhook-timestamp": "1" }, body), /too old/);
  receiver.close();
});
