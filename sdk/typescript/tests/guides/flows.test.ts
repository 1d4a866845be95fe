// The guide to flows: the first of two answers, a node that handles a failure, children.

import assert from "node:assert/strict";
import { Flow, Permanent, Worker } from "selvedge";
import { clockTest, timeoutMs } from "../support.js";

clockTest("the first answer wins, and an alert handles a failure", async ({ client }) => {
  const worker = new Worker(client);
  // Stands for a model: the thorough one does not answer, and without a question both fail.
  worker.task("ask", async (ctx, { model, question }: { model: string; question: string }) => {
    if (!question) throw new Permanent("there is no question");
    if (model === "thorough") await new Promise((resolve) => ctx.signal.addEventListener("abort", resolve));
    return `${model} answers ${question}`;
  });
  worker.task("alert", () => "no answer");

  // region: answer
  worker.task("publish", (ctx) => ctx.upstream.winner()); // of the upstream that completed first

  function answer(question: string): Flow {
    const flow = new Flow("answer");
    const fast = flow.add("fast", "ask", { model: "fast", question });
    const thorough = flow.add("thorough", "ask", { model: "thorough", question });
    const published = flow.add("publish", "publish", null, { after: [fast, thorough], policy: "any_of" });
    flow.add("alert", "alert", null, { after: published.when("failure_or_skipped") });
    return flow;
  }
  // endregion: answer

  await worker.start();
  const run = await client.submitFlow(answer("why"));
  assert.equal((await run.result({ timeoutMs })).outcome, "completed");
  assert.equal(await run.node("publish").result({ timeoutMs }), "fast answers why");
  assert.equal((await run.node("thorough").get()).state, "cancelled");
  const failed = await (await client.submitFlow(answer(""))).result({ timeoutMs });
  assert.equal(failed.results.alert?.result, "no answer");
  await worker.drain();
});

clockTest("a parent joins its children", async ({ client }) => {
  const worker = new Worker(client);
  worker.task("summarise", (_, document: string) => document.length);
  // region: children
  worker.task("summarise-all", async (ctx, documents: string[]) => {
    for (const [number, document] of documents.entries()) {
      await ctx.spawn("summarise", document, { name: `document-${number}` });
    }
    const children = await ctx.join(); // holds no worker while the children run
    return Object.values(children).reduce((sum, child) => sum + (child.result as number), 0);
  });
  // endregion: children
  await worker.start();
  const run = await client.submit("summarise-all", ["a", "bb", "ccc"]);
  assert.equal(await run.result({ timeoutMs }), 6);
  await worker.drain();
});
