// The testing module, as the guide shows it.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Worker } from "selvedge";
import { Server } from "selvedge/testing";

// region: reminder
test("a reminder comes after three days", async () => {
  const server = await Server.start();
  const worker = new Worker(server.client, { lanes: ["reminders"] });
  worker.task("remind", async (ctx, text: string) => {
    await ctx.sleep("three days", { days: 3 });
    return `remember: ${text}`;
  });
  await worker.start();
  const run = await server.client.submit("remind", "tea", { lane: "reminders" });
  await server.advance({ days: 3 });
  assert.equal(await run.result({ timeoutMs: 10_000 }), "remember: tea");
  await worker.drain();
  await server.stop();
});
// endregion: reminder

test("a binary that does not exist is named", async () => {
  await assert.rejects(Server.start({ binary: "/nowhere/selvedge" }), /cannot start \/nowhere\/selvedge/);
});

test("a server that cannot start says why", async () => {
  await assert.rejects(Server.start({ store: "nonsense:" }), /has exited/);
});
