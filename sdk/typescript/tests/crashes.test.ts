// Crashes: workers that are killed at random or after each step, and a server that is killed and restarted.

import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync } from "node:fs";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { collect, deferred, storeTest, type TestBed, timeoutMs } from "./support.js";

const expected: Record<string, unknown> = {
  hello: "Hello, Ada! (3)",
  retry: ["shipped against receipt for 2 tea", "failed: 0 is not a number of products"],
  diamond: ["completed", "sum 55, largest 10"],
  "llm-race": ["swift says: HELLO!", "swift says: HELLO!", { completed: 2, cancelled: 2 }],
  approval: ["bob", "cleo"],
  "token-budget": [1200, "Chapter 1. Chapter 2. Chapter 3. Chapter 4.", 1600],
  "agent-loop": { answer: "height of the tower: 1082 ft", turns: 3 },
  "fan-out": ["1 words", "2 words", "6 words", "4 words"],
  schedule: ["the report of Europe", 3],
  "order-and-email": ["order", true],
};

interface Example {
  main(client: TestBed["client"]): Promise<unknown>;
}

test("every example is tested", () => {
  const folder = fileURLToPath(new URL("../../examples", import.meta.url));
  const names = readdirSync(folder).map((name) => name.replace(/\.ts$/, ""));
  assert.deepEqual(names.filter((name) => name !== "run").sort(), Object.keys(expected).sort());
});

/** Returns the names of the examples that the store can run. */
function exampleNames(bed: TestBed): string[] {
  const isPostgres = bed.store?.address.startsWith("postgres");
  return Object.keys(expected).filter((name) => isPostgres || name !== "order-and-email");
}

/** Runs all examples at once, and checks their results. */
async function checkExamples(bed: TestBed): Promise<void> {
  process.env.DATABASE_URL = bed.store?.address;
  const runs = exampleNames(bed).map(async (name) => {
    const { main } = (await import(`../examples/${name}.js`)) as Example;
    assert.deepEqual(await main(bed.client), expected[name], name);
  });
  await Promise.all(runs);
}

/** Starts a program of this package with the address of the server. */
function start(bed: TestBed, program: string, ...args: string[]): ChildProcess {
  const path = fileURLToPath(new URL(program, import.meta.url));
  const child = spawn(process.execPath, [path, ...args], {
    stdio: ["ignore", "pipe", "inherit"],
    env: { ...process.env, SELVEDGE_SERVER: bed.server.url },
  });
  const kill = () => void child.kill("SIGKILL");
  process.once("exit", kill);
  child.once("exit", () => process.removeListener("exit", kill));
  return child;
}

storeTest("every example ends as expected, and its worker drains on SIGTERM", async (bed) => {
  const worker = start(bed, "../examples/run.js", "--worker", ...exampleNames(bed));
  await checkExamples(bed);
  worker.kill("SIGTERM");
  assert.deepEqual(await once(worker, "exit"), [0, null]);
});

storeTest("every example ends as expected although its worker is killed at random", async (bed) => {
  let worker: ChildProcess | undefined;
  let isDone = false;
  let kills = 0;
  const supervise = async () => {
    while (!isDone) {
      worker = start(bed, "../examples/run.js", "--worker", "--lease", "700", ...exampleNames(bed));
      const exited = once(worker, "exit");
      if (kills < 6) {
        // Between the start of the process and the end of most examples.
        await new Promise((resolve) => setTimeout(resolve, 150 + Math.random() * 400));
        kills += 1;
        worker.kill("SIGKILL");
      }
      await exited;
    }
  };
  const supervised = supervise();
  try {
    await checkExamples(bed);
  } finally {
    isDone = true;
    worker?.kill("SIGKILL");
    await supervised;
  }
});

storeTest("every step runs once although the process dies after each of them", async (bed) => {
  const run = await bed.submit("six-steps", null, { lane: "crash" });
  const effects: string[] = [];
  for (let isDone = false; !isDone;) {
    const worker = start(bed, "./step-worker.js");
    const exited = once(worker, "exit");
    const { stdout } = worker;
    if (stdout) for await (const line of createInterface({ input: stdout })) effects.push(line);
    await exited;
    isDone = (await run.get()).state === "completed";
  }
  assert.deepEqual(effects, ["step 0", "step 1", "step 2", "step 3", "step 4", "step 5"]);
  assert.equal(await run.result({ timeoutMs }), 15);
  assert.equal((await run.get()).interruptions, 6);
});

storeTest("a worker goes on after the server was killed and restarted", async (bed) => {
  const worker = bed.worker({ concurrency: 4 });
  const begun = deferred();
  const goOn = deferred();
  worker.task("during", async (ctx) => {
    const first = await ctx.step("first", () => 1);
    begun.resolve();
    await goOn.promise;
    return first + (await ctx.step("second", () => 2));
  });
  await worker.start();
  const run = await bed.submit("during");
  await begun.promise;
  await bed.server.stop("SIGKILL");
  goOn.resolve();
  await bed.restart();
  assert.equal(await run.result({ timeoutMs }), 3);
  const many = await bed.client.submitBatch(Array.from({ length: 20 }, () => ({ kind: "during", lane: "test" })));
  for (const one of many) if ("id" in one) assert.equal(await one.result({ timeoutMs }), 3);
  assert.equal((await collect(bed.client.list({ state: ["completed"] }))).length, 21);
});
