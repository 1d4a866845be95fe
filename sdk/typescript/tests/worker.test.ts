// Handlers that misbehave, and the life of a worker.

import assert from "node:assert/strict";
import { Delay, Permanent, Release, Retry, Run, Superseded, Unauthorized, Worker } from "selvedge";
import { Server } from "selvedge/testing";
import { clockTest, collect, deferred, storeTest, timeoutMs, until } from "./support.js";

storeTest("a handler's error is retried, a permanent one is not", async (bed) => {
  const worker = bed.worker();
  worker.task("flaky", (ctx) => {
    if (ctx.attempt < 2) throw new Error("not yet", { cause: new Error("the disk is full") });
    return ctx.attempt;
  });
  worker.task("hopeless", () => {
    throw new Permanent("never");
  });
  worker.task("busy", (ctx) => {
    if (ctx.attempt === 0) throw new Retry({ afterMs: 5 });
    return "done";
  });
  worker.task("odd", () => {
    throw null;
  });
  await worker.start();
  const flaky = await bed.submit("flaky");
  assert.equal(await flaky.result({ timeoutMs }), 2);
  const errors = (await collect(bed.client.attempts(flaky.id))).map((attempt) => attempt.error?.message);
  assert.deepEqual(errors.sort(), ["not yet: the disk is full", "not yet: the disk is full", undefined]);
  const hopeless = await (await bed.submit("hopeless")).ended({ timeoutMs });
  assert.deepEqual(hopeless, { outcome: "failed", result: null, error: { message: "never", class: "permanent" } });
  assert.equal(await (await bed.submit("busy")).result({ timeoutMs }), "done");
  const odd = await (await bed.submit("odd", null, { retry: { maxRetries: 0 } })).ended({ timeoutMs });
  assert.equal(odd.error?.message, "null");
});

storeTest("a handler delays and releases its execution without a charge", async (bed) => {
  const worker = bed.worker();
  worker.task("patient", (ctx) => {
    if (ctx.attempt === 0) throw new Delay(5);
    if (ctx.attempt === 1) throw new Release();
    return ctx.attempt;
  });
  await worker.start();
  const run = await bed.submit("patient");
  assert.equal(await run.result({ timeoutMs }), 2);
  assert.equal((await run.get()).retries, 0);
});

storeTest("a result of 5 MB, or one that is not JSON, fails for good with a clear message", async (bed) => {
  const worker = bed.worker();
  worker.task("large", () => "x".repeat(5_000_000));
  worker.task("circular", () => {
    const value: Record<string, unknown> = {};
    value.self = value;
    return value;
  });
  worker.task("deep", () => JSON.parse("[".repeat(200) + "]".repeat(200)) as unknown);
  await worker.start();
  const large = await (await bed.submit("large")).ended({ timeoutMs });
  assert.match(large.error?.message ?? "", /the result is larger than 1 MiB/);
  assert.equal(large.error?.class, "permanent");
  assert.match(
    (await (await bed.submit("circular")).ended({ timeoutMs })).error?.message ?? "",
    /cannot be written as JSON/,
  );
  const deep = await (await bed.submit("deep")).ended({ timeoutMs });
  assert.match(deep.error?.message ?? "", /the return value of the handler was refused/);
});

storeTest("a handler that blocks the event loop for longer than its lease keeps it", async (bed) => {
  const worker = bed.worker({ leaseTtl: 600 });
  worker.task("block", (ctx) => {
    const until = Date.now() + 2500;
    while (Date.now() < until);
    return ctx.attempt;
  });
  await worker.start();
  const run = await bed.submit("block");
  assert.equal(await run.result({ timeoutMs }), 0);
  const { interruptions, attempts } = await run.get();
  assert.deepEqual({ interruptions, attempts }, { interruptions: 0, attempts: 1 });
});

storeTest("a worker without a thread says clearly that a blocked lease was lost", async (bed) => {
  const worker = new Worker(bed.server.connect({ fetch: (...request) => fetch(...request) }), {
    lanes: ["test"],
    leaseTtl: 500,
    log: { info: () => undefined, warn: (message) => void bed.log.push(message), error: () => undefined },
  });
  worker.task("block", (ctx) => {
    const until = Date.now() + (ctx.attempt === 0 ? 2500 : 0);
    while (Date.now() < until);
    return ctx.attempt;
  });
  await worker.start();
  const run = await bed.submit("block");
  assert.equal(await run.result({ timeoutMs }), 1);
  await worker.drain();
  assert.ok(
    bed.log.some((line) => /was lost|was not accepted/.test(line)),
    bed.log.join("\n"),
  );
});

storeTest("a handler that hangs loses its attempt after the timeout, and its slot is free again", async (bed) => {
  const worker = bed.worker({ concurrency: 1 });
  const aborted = deferred<unknown>();
  worker.task("hang", (ctx) => {
    if (ctx.attempt > 0) return "second";
    ctx.signal.addEventListener("abort", () => aborted.resolve(ctx.signal.reason));
    return new Promise<string>(() => undefined);
  });
  await worker.start();
  const run = await bed.submit("hang", null, { attemptTimeoutMs: 500 });
  assert.equal(await run.result({ timeoutMs }), "second");
  assert.match(String(await aborted.promise), /AttemptOver/);
});

storeTest("a cancelled handler is asked to stop, and may still return a result", async (bed) => {
  const worker = bed.worker();
  const begun = new Set<string>();
  const wait = (signal: AbortSignal) => new Promise((resolve) => signal.addEventListener("abort", resolve));
  worker.task("polite", async (ctx) => {
    begun.add(ctx.executionId);
    await wait(ctx.signal);
    assert.ok(ctx.cancelled);
    ctx.throwIfCancelled();
  });
  worker.task("quick", async (ctx) => {
    begun.add(ctx.executionId);
    await wait(ctx.signal);
    return "saved";
  });
  await worker.start();
  const polite = await bed.submit("polite");
  const quick = await bed.submit("quick");
  await until(() => begun.size === 2);
  await polite.cancel({ reason: "not needed", grace: { seconds: 30 } });
  await quick.cancel({ grace: { seconds: 30 } });
  assert.equal((await polite.ended({ timeoutMs })).outcome, "cancelled");
  assert.deepEqual(await quick.ended({ timeoutMs }), { outcome: "completed", result: "saved", error: null });
});

storeTest("a handler that ignores its cancellation is given up after the grace period", async (bed) => {
  const worker = bed.worker({ concurrency: 1 });
  const begun = deferred();
  worker.task("stubborn", () => {
    begun.resolve();
    return new Promise<never>(() => undefined);
  });
  worker.task("next", () => "free");
  await worker.start();
  const stubborn = await bed.submit("stubborn");
  await begun.promise;
  await stubborn.cancel({ grace: 100 });
  assert.equal((await stubborn.ended({ timeoutMs })).outcome, "cancelled");
  assert.equal(await (await bed.submit("next")).result({ timeoutMs }), "free");
});

storeTest("drain finishes what runs, puts back what takes too long, and departs", async (bed) => {
  const worker = bed.worker({ drainTimeout: 300 });
  const finish = deferred();
  const begun = new Set<string>();
  worker.task("short", async (ctx) => {
    begun.add(ctx.kind);
    await finish.promise;
    return "finished";
  });
  worker.task("endless", (ctx) => {
    begun.add(ctx.kind);
    return new Promise<never>(() => undefined);
  });
  await worker.start();
  const short = await bed.submit("short");
  const endless = await bed.submit("endless");
  await until(() => begun.size === 2);
  const drained = worker.drain();
  finish.resolve();
  const summary = await drained;
  assert.deepEqual([summary.completed, summary.released], [1, 1]);
  assert.equal((await short.get()).result, "finished");
  const { state, retries, interruptions } = await endless.get();
  assert.deepEqual({ state, retries, interruptions }, { state: "waiting", retries: 0, interruptions: 0 });
  for await (const listed of bed.client.workers.list()) assert.equal(listed.live, false);
});

storeTest("an operator drains a worker", async (bed) => {
  const worker = bed.worker();
  worker.task("any", () => null);
  await worker.start();
  await bed.client.workers.drain(worker.instance);
  await worker.ended();
});

storeTest("a newer process with the same instance name supersedes the worker", async (bed) => {
  const first = bed.worker({ instance: "pod-0" });
  const second = bed.worker({ instance: "pod-0" });
  for (const worker of [first, second]) worker.task("any", () => worker === second);
  await first.start();
  await second.start();
  await assert.rejects(first.ended(), Superseded);
  assert.equal(await (await bed.submit("any")).result({ timeoutMs }), true);
});

storeTest("a batch handler takes several executions in one call and answers each alone", async (bed) => {
  const items = [1, 2, 3, -4, 5, 6].map((input) => ({ kind: "square", lane: "test", input }));
  const runs = (await bed.client.submitBatch(items)).map((item) => (item instanceof Run ? item : assert.fail(item)));
  const worker = bed.worker();
  const sizes: number[] = [];
  // region: batch
  worker.batchTask("square", { max: 3 }, (entries: ReadonlyArray<{ input: number }>) => {
    sizes.push(entries.length);
    return entries.map(({ input }) => (input < 0 ? new Permanent("negative") : input * input));
  });
  // endregion: batch
  await worker.start();
  const ends = await Promise.all(runs.map((run) => run.ended({ timeoutMs })));
  assert.deepEqual(
    ends.map((end) => end.error?.message ?? end.result),
    [1, 4, 9, "negative", 25, 36],
  );
  assert.equal(Math.max(...sizes), 3);
});

storeTest("schemas parse the input, and refuse one that does not fit", async (bed) => {
  const worker = bed.worker();
  const parse = (value: unknown) => {
    if (typeof value !== "string") throw new Error("expected a string");
    return value;
  };
  // region: schema
  const length = worker.task("length", { input: { parse } }, (_, text) => text.length);
  // endregion: schema
  const standard = { "~standard": { validate: (value: unknown) => ({ value: Number(value) }) } };
  worker.task("double", { input: standard }, (_, number) => 2 * number);
  const strict = { "~standard": { validate: () => ({ issues: [{ message: "no" }] }) } };
  worker.task("strict", { input: strict }, () => null);
  await worker.start();
  const run = await bed.client.submit(length, "four", { lane: "test" });
  const result: number = await run.result({ timeoutMs });
  assert.equal(result, 4);
  assert.equal(await (await bed.submit("double", "21")).result({ timeoutMs }), 42);
  const refused = await (await bed.submit("length", 7)).ended({ timeoutMs });
  assert.equal(refused.error?.message, "the input is not what length expects: expected a string");
  assert.match((await (await bed.submit("strict")).ended({ timeoutMs })).error?.message ?? "", /expects: no$/);
});

storeTest("streams, progress and usage reach the server in order", async (bed) => {
  const worker = bed.worker();
  await bed.client.budgets.put("money", { limits: { cents: { hard: 10 } } });
  worker.task("talk", async (ctx) => {
    for (let number = 0; number < 50; number += 1) void ctx.frame(number);
    await ctx.frame("aside", { mode: "best_effort", kind: "stdout" });
    await ctx.summarise({ words: 1 });
    await ctx.progress(50, "half");
    return (await ctx.usage("money", { cents: 12 })).breached;
  });
  await worker.start();
  const run = await bed.submit("talk");
  const frames: unknown[] = [];
  assert.deepEqual(await run.result({ timeoutMs }), ["cents"]);
  for await (const frame of run.tail({ mode: "durable" })) frames.push(frame.data);
  assert.deepEqual(frames, [...Array(50).keys()]);
  assert.deepEqual((await bed.client.summary(run.id)).document, { words: 1 });
  assert.deepEqual((await run.get()).progress, { percent: 50, message: "half" });
});

storeTest("usage within a step is counted with its record, and when the step fails", async (bed) => {
  const worker = bed.worker();
  await bed.client.budgets.put("money", { limits: { cents: { hard: 1000 } } });
  const answers: unknown[] = [];
  worker.task("spend", async (ctx) => {
    await ctx.step("paid", async () => {
      answers.push(await ctx.usage("money", { cents: 1 }));
      await ctx.usage("money", { cents: 2 });
    });
    if (ctx.attempt === 0) throw new Error("the warehouse does not answer"); // the record of the step stays
    await ctx.step("flaky", async () => {
      await ctx.usage("money", { cents: 10 });
      if (ctx.attempt === 1) throw new Error("paid, but failed");
    });
    answers.push(await ctx.usage("money", { cents: 100 }));
  });
  await worker.start();
  await (await bed.submit("spend")).result({ timeoutMs });
  assert.deepEqual(answers, [
    { breached: null, state: null },
    { breached: [], state: "active" },
  ]);
  assert.deepEqual((await bed.client.budgets.get("money")).usage, { cents: 3 + 2 * 10 + 100 });
});

storeTest("usage of steps that run beside each other is counted once for each", async (bed) => {
  const worker = bed.worker();
  await bed.client.budgets.put("money", { limits: { cents: { hard: 1000 } } });
  worker.task("spend", async (ctx) => {
    const spend = (name: string, cents: number, fails = false) =>
      ctx.step(name, async () => {
        await ctx.usage("money", { cents });
        await Promise.resolve();
        await ctx.usage("money", { cents });
        if (fails && ctx.attempt === 0) throw new Error("paid, but failed");
      });
    const ended = await Promise.allSettled([spend("a", 1), spend("b", 10, true), spend("c", 100)]);
    if (ended.some(({ status }) => status === "rejected")) throw new Error("a step failed");
  });
  await worker.start();
  await (await bed.submit("spend")).result({ timeoutMs });
  assert.deepEqual((await bed.client.budgets.get("money")).usage, { cents: 2 + 2 * 20 + 200 });
});

clockTest("a worker without a task or with a wrong key does not start", async (bed) => {
  await assert.rejects(bed.worker().start(), /has no task/);
  const guarded = await startGuarded();
  try {
    const worker = new Worker(guarded.connect({ key: "wrong" }), { lanes: ["test"] });
    worker.task("any", () => null);
    await assert.rejects(worker.start(), Unauthorized);
    const right = new Worker(guarded.connect({ key: "secret-admin-key-of-the-test-0123" }), { lanes: ["test"] });
    right.task("any", () => null);
    await right.start();
    await right.drain();
  } finally {
    await guarded.stop();
  }
});

async function startGuarded(): Promise<Server> {
  process.env.SELVEDGE_ADMIN_KEY = "secret-admin-key-of-the-test-0123";
  try {
    return await Server.start();
  } finally {
    delete process.env.SELVEDGE_ADMIN_KEY;
  }
}
