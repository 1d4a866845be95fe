// The guide to testing: two weeks in milliseconds.

// region: task
import assert from "node:assert/strict";
import { test } from "node:test";
import { type Client, Worker } from "selvedge";
import { Server } from "selvedge/testing";

function billing(client: Client): Worker {
  const worker = new Worker(client);
  worker.task("invoice", async (ctx) => {
    const paid = await ctx.waitForSignal("paid", { timeout: { days: 14 } });
    return paid ? "paid" : "overdue";
  });
  return worker;
}
// endregion: task

// region: test
test("an invoice is overdue after two weeks", async () => {
  await using server = await Server.start();
  const { client } = server;
  await using worker = billing(client);
  await worker.start();
  const unpaid = await client.submit("invoice");
  const paid = await client.submit("invoice");

  await server.advance({ days: 13 });
  await paid.signal("paid");
  await server.advance({ days: 1 });

  assert.equal(await unpaid.result({ timeoutMs: 10_000 }), "overdue");
  assert.equal(await paid.result({ timeoutMs: 10_000 }), "paid");
});
// endregion: test
