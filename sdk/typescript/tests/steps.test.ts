// Durable steps, waits, branches, children and approvals. Waits of days run on a manual clock.

import assert from "node:assert/strict";
import { Flow, type Run, until } from "selvedge";
import { clockTest, collect, deferred, timeoutMs, until as eventually } from "./support.js";

/** Waits until an execution is suspended. */
async function suspended(run: Run): Promise<void> {
  await eventually(async () => (await run.get()).state === "suspended");
}

clockTest("a step runs once, and every attempt sees the same value", async (bed) => {
  const worker = bed.worker();
  let runs = 0;
  worker.task("order", async (ctx) => {
    const at = await ctx.step("now", () => {
      runs += 1;
      return { at: new Date(0), nothing: undefined };
    });
    if (ctx.attempt === 0) throw new Error("after the step");
    return at;
  });
  await worker.start();
  const run = await bed.submit("order");
  await bed.server.advance({ seconds: 1 });
  assert.deepEqual(await run.result({ timeoutMs }), { at: "1970-01-01T00:00:00.000Z" });
  assert.equal(runs, 1);
});

clockTest("a step that fails is not recorded, and may be tried again in the same attempt", async (bed) => {
  const worker = bed.worker();
  worker.task("stubborn", async (ctx) => {
    let tries = 0;
    const attempt = async () => {
      tries += 1;
      if (tries < 3) throw new Error("not yet");
      return tries;
    };
    for (;;) {
      try {
        return await ctx.step("try", attempt);
      } catch {
        // The name is free again.
      }
    }
  });
  await worker.start();
  assert.equal(await (await bed.submit("stubborn")).result({ timeoutMs }), 3);
});

clockTest("sleeps, signals and timeouts take days, and no slot", async (bed) => {
  const worker = bed.worker({ concurrency: 1 });
  worker.task("remind", async (ctx) => {
    // region: sleep-and-signal
    await ctx.sleep("a day", { days: 1 });
    const paid = await ctx.waitForSignal<number>("paid", { timeout: { days: 3 } });
    // endregion: sleep-and-signal
    const again = await ctx.waitForSignal("paid", { name: "again", timeout: { days: 3 } });
    await ctx.sleepUntil("the past", new Date(0));
    return [paid?.payload, paid?.source, again, ctx.attempt];
  });
  worker.task("other", () => "free");
  await worker.start();
  const run = await bed.submit("remind");
  await suspended(run);
  assert.equal(await (await bed.submit("other")).result({ timeoutMs }), "free");
  await bed.server.advance({ days: 2 });
  await suspended(run);
  await bed.client.signal(run.id, "paid", 42, { source: "ada" });
  await suspended(run);
  await bed.server.advance({ days: 3 });
  assert.deepEqual(await run.result({ timeoutMs }), [42, "ada", null, 4]);
});

clockTest("conditions combine signals, times and operators", async (bed) => {
  const worker = bed.worker();
  worker.task("pack", async (ctx) => {
    // region: condition
    const both = until.all(until.signal("paid"), until.any(until.signal("packed"), until.operator()));
    const { resumedBy, signals } = await ctx.wait("order", both);
    // endregion: condition
    const late = await ctx.wait("late", until.sources(2, ["vote"]), { timeout: { hours: 1 } });
    return [resumedBy, signals.map((signal) => signal.name), late.resumedBy];
  });
  await worker.start();
  const run = await bed.submit("pack");
  await run.signal("packed");
  await run.signal("paid");
  await eventually(async () => (await collect(bed.client.steps(run.id))).some((step) => step.name === "late"));
  await bed.server.advance({ hours: 2 });
  assert.deepEqual(await run.result({ timeoutMs }), ["condition", ["packed", "paid"], "timeout"]);
});

clockTest("a branch that is still busy reaches its wait before the attempt is suspended", async (bed) => {
  const worker = bed.worker();
  const attempts = new Set<number>();
  worker.task("both", async (ctx) => {
    attempts.add(ctx.attempt);
    const late = async () => {
      for (let turn = 0; turn < 3; turn += 1) await Promise.resolve();
      await ctx.step("busy", () => new Promise((resolve) => setTimeout(resolve, 50)));
      await ctx.sleep("late", { days: 2 });
    };
    await Promise.all([ctx.sleep("early", { days: 2 }), late()]);
    return [...attempts];
  });
  await worker.start();
  const run = await bed.submit("both");
  await suspended(run);
  const open = (await collect(bed.client.steps(run.id))).filter((step) => step.state === "open");
  assert.deepEqual(open.map((step) => step.name).sort(), ["early", "late"]);
  await bed.server.advance({ days: 3 });
  await run.result({ timeoutMs });
});

clockTest("the winner of a race is recorded, and its losers are dropped", async (bed) => {
  const worker = bed.worker();
  const aborted = deferred<unknown>();
  worker.task("ask", async (ctx) => {
    // region: race
    const answer = await ctx.race("answer", {
      answered: async (ctx) => (await ctx.waitForSignal<string>("answer"))?.payload,
      // endregion: race
      busy: async (ctx) => {
        ctx.signal.addEventListener("abort", () => aborted.resolve(ctx.signal.reason));
        if (ctx.attempt === 0) await ctx.step("prepare", () => null);
        await ctx.waitForSignal("never");
        return "unreachable";
      },
      // region: race
      late: async (ctx) => {
        await ctx.sleep("nap", { days: 1 });
        return ctx.step("give up", () => "no answer");
      },
    });
    // endregion: race
    await ctx.sleep("after", { days: 1 });
    return answer;
  });
  await worker.start();
  const late = await bed.submit("ask");
  await suspended(late);
  await bed.server.advance({ days: 3 });
  assert.equal(await late.result({ timeoutMs }), "no answer");
  assert.match(String(await aborted.promise), /branch is over/);
  const steps = await collect(bed.client.steps(late.id));
  const names = steps.filter((step) => step.state === "recorded").map((step) => step.name);
  assert.deepEqual(names.sort(), ["after", "answer", "answer/busy/prepare", "answer/late/give up", "answer/late/nap"]);
  const early = await bed.submit("ask");
  await early.signal("answer", "42");
  await suspended(early);
  await bed.server.advance({ days: 3 });
  assert.equal(await early.result({ timeoutMs }), "42");
});

clockTest("all branches run until all have ended, or until the running steps after a failure have", async (bed) => {
  const worker = bed.worker();
  worker.task("print", (ctx, pages: string[]) =>
    ctx.all(
      "pages",
      pages.map((page) => [
        page,
        async (ctx) => {
          await ctx.sleep("warm up", { hours: 1 });
          return ctx.step("print", () => `${page} is printed`);
        },
      ]),
    ),
  );
  const slow: string[] = [];
  worker.task("broken", async (ctx) => {
    await ctx.all("parts", {
      bad: async () => {
        throw new Error("no paper");
      },
      slow: async (ctx) => {
        await ctx.step("first", () => new Promise((resolve) => setTimeout(() => resolve(slow.push("first")), 50)));
        await ctx.step("second", () => slow.push("second"));
      },
    });
  });
  await worker.start();
  const print = await bed.submit("print", ["cover", "back"]);
  await suspended(print);
  await bed.server.advance({ hours: 1 });
  assert.deepEqual(await print.result({ timeoutMs }), ["cover is printed", "back is printed"]);
  const broken = await (await bed.submit("broken", null, { retry: { maxRetries: 0 } })).ended({ timeoutMs });
  assert.equal(broken.error?.message, "no paper");
  assert.deepEqual(slow, ["first"]);
});

clockTest("code that no longer fits the recorded steps fails for good", async (bed) => {
  const worker = bed.worker();
  worker.task("twice", async (ctx) => {
    await ctx.step("same", () => 1);
    await ctx.step("same", () => 2);
  });
  worker.task("vanished", async (ctx) => {
    if (ctx.attempt === 0) {
      await ctx.step("old", () => 1);
      throw new Error("the new code comes");
    }
    if (ctx.tags.allow) ctx.allowVanishedSteps();
    return "new";
  });
  worker.task("changed", async (ctx) => {
    if (ctx.attempt > 0) return ctx.sleep("pause", 10);
    await ctx.step("pause", () => 1);
    throw new Error("the new code comes");
  });
  await worker.start();
  const message = async (run: Run) => {
    await bed.server.advance({ seconds: 1 });
    return (await run.ended({ timeoutMs })).error;
  };
  const twice = await message(await bed.submit("twice"));
  assert.deepEqual(twice?.class, "permanent");
  assert.match(twice?.message ?? "", /the step "same" is used twice/);
  assert.match((await message(await bed.submit("vanished")))?.message ?? "", /returned without the step "old"/);
  assert.equal(await message(await bed.submit("vanished", null, { tags: { allow: "yes" } })), null);
  assert.match((await message(await bed.submit("changed")))?.message ?? "", /"pause" was recorded as a step/);
});

clockTest("children are spawned once and joined", async (bed) => {
  const worker = bed.worker();
  worker.task("page", (_, number: number) => 100 * number);
  worker.task("book", async (ctx) => {
    const graph = new Flow();
    const one = graph.add("one", "page", 1, { lane: "test" });
    graph.add("two", "page", 2, { lane: "test", after: one });
    await ctx.spawnFlow(graph);
    await ctx.spawn("page", 3, { name: "three", lane: "test" });
    const children = await ctx.join();
    assert.deepEqual(ctx.children.one, { outcome: "completed", result: 100 });
    return children;
  });
  await worker.start();
  const children = await (await bed.submit("book")).result({ timeoutMs });
  const results = Object.entries(children as Record<string, { result: number }>).map(([name, { result }]) => [
    name,
    result,
  ]);
  assert.deepEqual(results, [
    ["one", 100],
    ["two", 200],
    ["three", 300],
  ]);
});

clockTest("results that are too large for a claim are read by reference", async (bed) => {
  const worker = bed.worker();
  worker.task("page", (_, letter: string) => letter.repeat(1_000_000));
  worker.task("bind", async (ctx) => {
    const lengths: number[] = [];
    for (const node of ctx.upstream.names) {
      lengths.push((await ctx.upstream.fetch<string>(node)).length);
    }
    assert.throws(() => [...ctx.upstream], /use await ctx.upstream.fetch/);
    await assert.rejects(ctx.upstream.fetch("nobody"), /there is no upstream/);
    return lengths;
  });
  worker.task("parent", async (ctx) => {
    for (const letter of "abcdef") await ctx.spawn("page", letter, { name: letter, lane: "test" });
    return Object.values(await ctx.join()).map((child) => (child.result as string).length);
  });
  await worker.start();
  const flow = new Flow("book", { defaults: { lane: "test" } });
  const pages = [..."abcdef"].map((letter) => flow.add(letter, "page", letter));
  flow.add("bound", "bind", null, { after: pages });
  const ended = await (await bed.client.submitFlow(flow)).result({ timeoutMs });
  assert.deepEqual(ended.results.bound?.result, Array(6).fill(1_000_000));
  assert.deepEqual(await (await bed.submit("parent")).result({ timeoutMs }), Array(6).fill(1_000_000));
});

clockTest("an approval waits for days, and each person is asked once", async (bed) => {
  const worker = bed.worker();
  const asked: Array<{ person: string; id: string; token: string }> = [];
  worker.task("deploy", async (ctx) => {
    const approval = await ctx.approval("deploy", {
      of: ["ann", "bob", "cleo"],
      atLeast: 2,
      timeout: { days: 3 },
      ask: (person, { id, token }) => void asked.push({ person, id, token: token ?? "" }),
    });
    return [approval.verdict, approval.votes.map((vote) => [vote.person, vote.approves])];
  });
  await worker.start();
  const decided = await bed.submit("deploy");
  await suspended(decided);
  await bed.server.advance({ days: 2 });
  const [ann, bob, cleo] = asked;
  assert.ok(ann && bob && cleo);
  await bed.client.waitpoints.signal(ann.id, ann.token);
  await bed.client.waitpoints.signal(bob.id, bob.token, { name: "deploy/reject" });
  assert.equal((await bed.client.waitpoints.look(cleo.id, cleo.token)).state, "open");
  await bed.client.waitpoints.signal(cleo.id, cleo.token);
  assert.deepEqual(await decided.result({ timeoutMs }), [
    "approved",
    [
      ["ann", true],
      ["cleo", true],
    ],
  ]);
  assert.equal(asked.length, 3);
  const late = await bed.submit("deploy");
  await suspended(late);
  await bed.server.advance({ days: 3 });
  assert.deepEqual(await late.result({ timeoutMs }), ["timed_out", []]);
});

clockTest("a waitpoint is created once, also after its delivery", async (bed) => {
  const worker = bed.worker();
  const mails: Array<{ id: string; token: string | null }> = [];
  worker.task("transfer", async (ctx) => {
    const waitpoint = await ctx.waitpoint("confirmed", { source: "ada" });
    await ctx.step("write", () => void mails.push(waitpoint));
    const confirmed = await ctx.waitForSignal("confirmed");
    return [confirmed?.source, waitpoint];
  });
  await worker.start();
  const run = await bed.submit("transfer");
  await suspended(run);
  const { id, token } = mails[0] ?? assert.fail("no mail");
  await bed.client.waitpoints.signal(id, token ?? "");
  assert.deepEqual(await run.result({ timeoutMs }), ["ada", { id, name: "confirmed", token: null }]);
  assert.equal((await collect(bed.client.waitpoints.list({ execution: run.id }))).length, 1);
});
