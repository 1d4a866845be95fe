// The check of a webhook's signature, with a real delivery.

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { Server } from "selvedge/testing";
import { InvalidSignature, verify } from "selvedge/webhooks";
import { deferred } from "./support.js";

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
  assert.ok(secret);
  // region: verify
  const event = verify(secret, headers, body); // throws InvalidSignature: answer 401
  // endregion: verify
  assert.equal(event.type, "execution.submitted");
  assert.deepEqual(verify(secret, new Headers(headers), body.toString()), event);
  const refused = (changed: Record<string, string | undefined>, message: RegExp, text: Buffer = body) =>
    assert.throws(
      () => verify(secret, { ...headers, ...changed }, text),
      (error) => error instanceof InvalidSignature && message.test(error.message),
    );
  refused({}, /no signature/, Buffer.concat([body, Buffer.from(" ")]));
  refused({ "webhook-signature": "v1,AAAA" }, /no signature/);
  refused({ "webhook-timestamp": "1" }, /too long ago/);
  refused({ "webhook-timestamp": "soon" }, /too long ago/);
  refused({ "webhook-id": undefined }, /the header webhook-id is missing/);
  assert.throws(() => verify(secret, headers, body, { tolerance: -1 }), InvalidSignature);
  assert.throws(() => verify("", headers, body), /the secret of the webhook is empty/);
  receiver.close();
});
