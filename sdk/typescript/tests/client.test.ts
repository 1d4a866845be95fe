// The client: submissions, operations, lists, limits, schedules, events, and calls whose answers are lost.

import { randomUUID } from "node:crypto";
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import { test } from "node:test";
import {
  AlreadyTerminal,
  Client,
  ConnectionFailed,
  Flow,
  IdempotencyMismatch,
  Invalid,
  NotCompleted,
  NotFound,
  Problem,
  quorum,
  Run,
  task,
  WaitTimeout,
} from "selvedge";
import { collect, storeTest, timeoutMs } from "./support.js";

storeTest("submissions are safe to repeat, and errors have classes", async (bed) => {
  const { client } = bed;
  const first = await client.submit("nobody", 1, { idempotencyKey: "once" });
  const second = await client.submit("nobody", 1, { idempotencyKey: "once" });
  assert.deepEqual([first.duplicate, second.duplicate, second.id], [false, true, first.id]);
  await assert.rejects(client.submit("nobody", 2, { idempotencyKey: "once" }), IdempotencyMismatch);
  await assert.rejects(client.submit(""), (error: unknown) => {
    assert.ok(error instanceof Invalid);
    assert.deepEqual([error.code, error.status, error.pointer], ["invalid_field", 422, "/kind"]);
    return true;
  });
  await assert.rejects(client.get(randomUUID()), NotFound);
  await assert.rejects(first.result({ timeoutMs: 50 }), WaitTimeout);
  await first.cancel({ reason: "not needed" });
  await assert.rejects(client.reschedule(first.id, 1000), AlreadyTerminal);
  await assert.rejects(first.result({ timeoutMs }), NotCompleted);
  const [good, bad] = await client.submitBatch([{ kind: "nobody" }, { kind: task("nobody").kind, priority: 1000 }]);
  assert.ok(good instanceof Run && bad instanceof Problem);
  assert.equal(bad.pointer, "/executions/1/priority");
});

storeTest("user data keeps its names, and fields have those of the language", async (bed) => {
  const input = { snake_case: 1, camelCase: { some_key: [{ other_key: 2 }] } };
  const tags = { some_tag: "a", otherTag: "b" };
  const run = await bed.client.submit("nobody", input, { tags, delayMs: 60_000, fairnessKey: "x" });
  const execution = await run.get();
  assert.deepEqual([execution.input, execution.tags, execution.fairnessKey], [input, tags, "x"]);
  assert.match(execution.delayedUntilAt ?? "", /^\d{4}-/);
  const listed = await collect(bed.client.list({ tag: ["some_tag:a"], include: ["input"] }));
  assert.deepEqual(
    listed.map(({ id, input }) => [id, input]),
    [[run.id, input]],
  );
});

storeTest("operators reschedule, prioritise, tag, signal, explain, replay and act on many", async (bed) => {
  const { client } = bed;
  const { id } = await client.submit("nobody", null, { lane: "gpu", capabilities: ["cuda"] });
  assert.equal((await client.priority(id, 10)).priority, 10);
  assert.deepEqual((await client.tags(id, { set: { team: "blue" }, remove: ["old"] })).tags, { team: "blue" });
  assert.equal((await client.reschedule(id, { minutes: 5 })).state, "delayed");
  assert.equal((await client.reschedule(id, new Date())).state, "waiting");
  assert.equal((await client.signal(id, "go", { now: true }, { source: "ann" })).effect, "buffered");
  const [signal] = await collect(client.signals(id));
  assert.deepEqual([signal?.name, signal?.payload, signal?.source], ["go", { now: true }, "ann"]);
  const reasons = (await client.explain(id)).reasons.map((reason) => reason.code);
  assert.ok(reasons.includes("no_worker_in_lane"), reasons.join());
  const bulk = await client.bulk({ action: { type: "cancel", reason: "clean-up" }, filter: { lane: "gpu" } });
  assert.deepEqual([bulk.matched, bulk.done], [1, 1]);
  assert.equal((await client.replay(id)).generation, 1);
  const job = await client.bulkJobs.start({ action: { type: "cancel" }, filter: { lane: "gpu" } });
  while ((await client.bulkJobs.get(job.id)).state === "running");
  assert.equal((await client.get(id)).state, "cancelled");
  const types = (await collect(client.history(id))).map((event) => event.type);
  assert.ok(types.includes("execution.replayed"));
});

storeTest("lanes, quotas, budgets, schedules and webhooks are put, patched, listed and removed", async (bed) => {
  const { client } = bed;
  assert.equal((await client.lanes.put("slow", { concurrency: 2 })).concurrency, 2);
  await client.lanes.pause("slow");
  assert.equal((await client.lanes.get("slow")).state, "paused");
  await client.lanes.resume("slow");
  await client.quotas.put("model", { rate: { count: 60, windowMs: 60_000 } });
  assert.equal((await client.quotas.patch("model", { concurrency: 3 })).rate?.windowMs, 60_000);
  await client.budgets.put("tokens", { limits: { input_tokens: { hard: 10 } }, periodMs: 3_600_000 });
  const used = await client.budgets.usage("tokens", { usage: { input_tokens: 4 }, dedupKey: "a" });
  assert.deepEqual(used.budget.usage, { input_tokens: 4 });
  assert.deepEqual((await client.budgets.reset("tokens")).usage, {});
  const submit = { execution: { kind: "nobody", input: { a_key: 1 } } };
  await client.schedules.put("nightly", { cron: "0 2 * * *", timeZone: "Europe/Berlin", submit });
  assert.equal((await client.schedules.next("nightly", 3)).items.length, 3);
  const fired = await client.schedules.run("nightly");
  assert.deepEqual((await client.get(fired.execution?.id ?? "")).input, { a_key: 1 });
  // region: schedule
  const report = new Flow("report", { tags: { team: "sales" } });
  const numbers = report.add("numbers", "count");
  report.add("mail", "mail", "sales@example.com", { after: numbers });
  await client.schedules.put("hourly", { interval: { hours: 1 }, submit: report });
  // endregion: schedule
  const { flow } = (await client.schedules.run("hourly")) as { flow?: { id: string } };
  assert.equal((await client.flows.graph(flow?.id ?? "")).edges.length, 1);
  const patched = await client.schedules.patch("hourly", { interval: { minutes: 30 } });
  assert.equal(patched.intervalMs, 30 * 60_000);
  await client.schedules.put("task", { cron: "0 2 * * *", submit: { execution: { kind: task("nobody") } } });
  await client.schedules.put("flow", { cron: "0 2 * * *", submit: { flow: report } });
  for (const name of ["hourly", "task", "flow"]) await client.schedules.delete(name);
  const webhook = await client.webhooks.put("hook", { url: "https://example.com/", types: ["execution.completed"] });
  assert.match(webhook.secret ?? "", /^whsec_/);
  await client.lanes.delete("slow");
  for (const resource of [client.quotas, client.budgets, client.schedules, client.webhooks]) {
    for await (const item of resource.list()) {
      const { name } = item as { name: string };
      await resource.delete(name);
    }
  }
  assert.deepEqual(await collect(client.webhooks.list()), []);
  assert.deepEqual(await collect(client.schedules.list()), []);
});

storeTest("flows have edges, policies, conditions and results", async (bed) => {
  const worker = bed.worker();
  worker.task("echo", (ctx, input) => input ?? Object.fromEntries(ctx.upstream));
  worker.task("fail", () => {
    throw new Error("no");
  });
  await worker.start();
  const flow = new Flow("mirrors", { defaults: { lane: "test", retry: { maxRetries: 0 } }, tags: { a_tag: "x" } });
  const nodes = [flow.add("a", "echo", 1), flow.add("b", "echo", 2), flow.add("c", "fail")];
  flow.add("two", "echo", null, { after: nodes, policy: quorum(2, { letRun: true }) });
  flow.add("alert", "echo", "alerted", { after: [nodes[2]?.when("failure") ?? "c"] });
  const submitted = await bed.client.submitFlow(flow);
  const ended = await submitted.result({ timeoutMs });
  assert.equal(ended.outcome, "completed");
  assert.deepEqual(ended.results.alert?.result, "alerted");
  assert.deepEqual(ended.results.two?.result, { a: 1, b: 2 });
  assert.equal(await submitted.node("a").result({ timeoutMs }), 1);
  const graph = await bed.client.flows.graph(submitted.id);
  assert.equal(graph.edges.length, 4);
  const listed = await collect(bed.client.flows.list({ tag: "a_tag:x" }));
  assert.deepEqual(
    listed.map((item) => item.id),
    [submitted.id],
  );
  assert.equal((await bed.client.flows.explain(submitted.id)).state, "completed");
  const open = await bed.client.submitFlow(new Flow("open", { defaults: { lane: "nobody" } }).with("x", "echo"));
  const grown = await bed.client.flows.grow(
    open.id,
    new Flow().with("y", "echo", null, { after: "x", lane: "nobody" }),
  );
  assert.ok(grown.y);
  assert.equal((await open.cancel({ waitMs: 10_000 })).state, "cancelled");
});

storeTest("a subscription misses nothing while the server restarts, and ends with its signal", async (bed) => {
  const { client } = bed;
  const controller = new AbortController();
  const events = client.events({ types: ["execution.submitted"], signal: controller.signal });
  const first = events.next();
  const submitted: string[] = [];
  let begun = false;
  void first.then(() => {
    begun = true;
  });
  // The feed starts at the end of the log, which may be before or after the first submission.
  while (!begun) submitted.push((await client.submit("nobody")).id);
  const seen = [(await first).value.execution as string];
  await bed.restart();
  submitted.push((await client.submit("nobody")).id);
  const expected = submitted.slice(submitted.indexOf(seen[0] ?? ""));
  while (seen.length < expected.length) seen.push((await events.next()).value.execution);
  assert.deepEqual(seen, expected);
  const waiting = events.next();
  controller.abort(new Error("enough"));
  await assert.rejects(waiting, /enough/);
});

storeTest("a call whose answer is lost is repeated, and takes effect once", async (bed) => {
  const proxy = await lossyProxy(bed.server.url);
  try {
    const client = new Client({ url: proxy.url });
    proxy.lose(2);
    const run = await client.submit("nobody", 1);
    assert.equal((await collect(client.list({ kind: "nobody" }))).length, 1);
    proxy.lose(1);
    assert.equal((await client.signal(run.id, "go")).duplicate, true);
    proxy.refuse(2);
    assert.equal((await client.get(run.id)).state, "waiting");
    assert.ok(
      proxy.pauses.every((pause) => pause >= 95),
      proxy.pauses.join(),
    );
  } finally {
    proxy.close();
  }
});

test("a server that is away is an error after the time for retries", async () => {
  const client = new Client({ url: "http://127.0.0.1:1", retryForMs: 200 });
  await assert.rejects(client.submit("nobody"), ConnectionFailed);
});

/** A proxy that drops the answers of calls, or refuses them with 503 and a time. */
async function lossyProxy(target: string) {
  let losses = 0;
  let refusals = 0;
  let refusedAt = 0;
  const pauses: number[] = [];
  const server = createServer((incoming: IncomingMessage, outgoing: ServerResponse) => {
    if (refusedAt > 0) pauses.push(Date.now() - refusedAt);
    refusedAt = 0;
    if (refusals > 0) {
      refusals -= 1;
      refusedAt = Date.now();
      const problem = { type: "", title: "", status: 503, detail: "later", code: "overloaded", retry_after_ms: 100 };
      outgoing.writeHead(503, { "content-type": "application/problem+json" }).end(JSON.stringify(problem));
      return;
    }
    const lost = losses > 0;
    if (lost) losses -= 1;
    const { method, headers } = incoming;
    const forwarded = request(new URL(incoming.url ?? "/", target), { method, headers }, (answer) => {
      if (lost) answer.resume().once("end", () => outgoing.destroy());
      else answer.pipe(outgoing.writeHead(answer.statusCode ?? 500, answer.headers));
    });
    incoming.pipe(forwarded);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  return {
    url: `http://127.0.0.1:${typeof address === "object" ? address?.port : ""}`,
    pauses,
    lose: (count: number) => {
      losses = count;
    },
    refuse: (count: number) => {
      refusals = count;
    },
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}
