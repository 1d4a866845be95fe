// Mistakes of programs that the SDK names: operations that are not awaited, kinds with two tasks, missing answers.

import assert from "node:assert/strict";
import { Run, Worker } from "selvedge";
import { clockTest, collect, deferred, storeTest, timeoutMs } from "./support.js";

storeTest("a handler that returns without awaiting an operation fails for good and names it", async (bed) => {
  const worker = bed.worker();
  worker.task("step", (ctx) => void ctx.step("charge", () => 1));
  worker.task("failed step", async (ctx) => {
    void ctx.step("charge", () => Promise.reject(new Error("no money")));
    await ctx.step("pack", () => 2);
  });
  worker.task("sleep", (ctx) => void ctx.sleep("pause", 100));
  worker.task("signal", (ctx) => void ctx.waitForSignal("paid"));
  worker.task("race", (ctx) => void ctx.race("first", { one: (ctx) => ctx.step("step", () => 1) }));
  worker.task("branch", async (ctx) => {
    await ctx.all("both", { one: (ctx) => void ctx.step("step", () => 1) });
  });
  const slow = deferred();
  worker.task("running", (ctx) =>
    Promise.race([ctx.step("slow", () => slow.promise), ctx.step("quick", () => undefined)]),
  );
  await worker.start();
  const expected = {
    step: 'the step "charge" is not awaited; write await before it',
    "failed step": 'the step "charge" is not awaited; write await before it',
    sleep: 'the step "pause" is not awaited; write await before it',
    signal: 'the step "paid" is not awaited; write await before it',
    race: 'the step "first" is not awaited; write await before it',
    branch: 'the step "both/one/step" is not awaited; write await before it',
    running: 'the handler returned while the step "slow" was running; wait for the end of the step',
  };
  for (const [kind, message] of Object.entries(expected)) {
    const { error } = await (await bed.submit(kind)).ended({ timeoutMs });
    assert.deepEqual(error, { message, class: "permanent" });
  }
  slow.resolve();
});

storeTest("a handler that awaits its operations later, or throws before they end, is as before", async (bed) => {
  const worker = bed.worker();
  worker.task("later", async (ctx) => {
    const steps = [1, 2].map((number) => ctx.step(`step ${number}`, () => number));
    const failed = ctx.step("failed", () => Promise.reject(new Error("no")));
    await ctx.step("last", () => null);
    assert.match(String(await failed.catch((error: unknown) => error)), /no/);
    return Promise.all(steps);
  });
  worker.task("throws", async (ctx) => {
    void ctx.step("charge", () => 1);
    throw new Error("the real reason");
  });
  await worker.start();
  assert.deepEqual(await (await bed.submit("later")).result({ timeoutMs }), [1, 2]);
  const thrown = await (await bed.submit("throws", null, { retry: { maxRetries: 0 } })).ended({ timeoutMs });
  assert.equal(thrown.error?.message, "the real reason");
});

clockTest("a kind has one task", async (bed) => {
  const worker = bed.worker();
  worker.task("greet", () => "hello");
  assert.throws(() => worker.task("greet", () => "hi"), /the kind "greet" has two tasks; give each its own kind/);
  assert.throws(() => worker.batchTask("greet", { max: 2 }, () => []), /has two tasks/);
});

storeTest("executions that a batch handler does not answer are retried alone", async (bed) => {
  const items = [1, 2, 3].map((input) => {
    const retry = { maxRetries: 3, backoff: { type: "fixed", delayMs: 10 } } as const;
    return { kind: "square", lane: "test", input, retry };
  });
  const runs = (await bed.client.submitBatch(items)).map((item) => (item instanceof Run ? item : assert.fail(item)));
  const worker = bed.worker();
  worker.batchTask("square", { max: 3 }, (entries: ReadonlyArray<{ input: number }>) =>
    entries.slice(0, 2).map(({ input }) => input * input),
  );
  await worker.start();
  const results = await Promise.all(runs.map((run) => run.result({ timeoutMs })));
  assert.deepEqual(results, [1, 4, 9]);
  const attempts = await Promise.all(runs.map((run) => collect(bed.client.attempts(run.id))));
  const errors = attempts.flat().flatMap(({ error }) => (error ? [error] : []));
  const message = "the batch handler returned only 2 values for 3 executions";
  assert.deepEqual(errors, [{ message, class: "transient" }]);
});

clockTest("the environment names the instance of a worker", async ({ client }) => {
  process.env.SELVEDGE_INSTANCE = "pod-7";
  try {
    assert.equal(new Worker(client).instance, "pod-7");
    assert.equal(new Worker(client, { instance: "pod-8" }).instance, "pod-8");
  } finally {
    delete process.env.SELVEDGE_INSTANCE;
  }
  assert.match(new Worker(client, { name: "media" }).instance, /^media-/);
});
