// The lines that the API promises, as they stand: a test that they compile, and that they run.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Client, Flow, Worker } from "selvedge";
import { Server } from "selvedge/testing";

test("the promised lines work", async () => {
  await using server = await Server.start({ manualClock: false });
  // region: hello
  const client = new Client({ url: server.url });
  const worker = new Worker(client, { lanes: ["default"], concurrency: 10 });
  worker.task("greet", async (ctx, name: string) => {
    const length = await ctx.step("measure", () => name.length);
    return `Hello, ${name}! (${length})`;
  });
  await worker.start();
  const run = await client.submit("greet", "Ada");
  // endregion: hello
  assert.equal(await run.result({ timeoutMs: 10_000 }), "Hello, Ada! (3)");
  const flow = new Flow("pair");
  const [a, b] = [flow.add("a", "greet", "Ada"), flow.add("b", "greet", "Bob")];
  flow.add("first", "greet", "all", { after: [a, b], policy: "any_of" });
  assert.equal((await (await client.submitFlow(flow)).result({ timeoutMs: 10_000 })).outcome, "completed");
  await worker.drain();
});

test("the server and the key come from the environment", async () => {
  process.env.SELVEDGE_SERVER = "http://127.0.0.1:1234/";
  assert.equal(new Client().url, "http://127.0.0.1:1234");
  delete process.env.SELVEDGE_SERVER;
  assert.equal(new Client().url, "http://127.0.0.1:7878");
});
