// Measures handlers per second through the SDK over HTTP: worker, server and store on this machine.
//
//   node bench.mjs [--executions 20000] [--concurrency 200] [--steps 0] [--store sqlite:PATH | postgres://… | memory:]
//
// Prints one JSON object. The executions are submitted before the clock starts; it stops when the last report is
// accepted. With --steps N each handler records N steps. The server is SELVEDGE_BINARY; without --store it uses SQLite
// in a temporary directory.

import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { Worker } from "selvedge";
import { Server } from "selvedge/testing";

const { values } = parseArgs({
  options: {
    executions: { type: "string", default: "20000" },
    concurrency: { type: "string", default: "200" },
    steps: { type: "string", default: "0" },
    store: { type: "string" },
  },
});
const executions = Number(values.executions);
const concurrency = Number(values.concurrency);
const steps = Number(values.steps);
const directory = mkdtempSync(join(tmpdir(), "selvedge-bench-"));
const store = values.store ?? `sqlite:${join(directory, "bench.db")}`;
const server = await Server.start({ store, command: "serve", arguments: ["--log", "warn"] });

try {
  const lane = `bench-${randomUUID()}`;
  const input = { number: 1 };
  let submitted = 0;
  while (submitted < executions) {
    const count = Math.min(1000, executions - submitted);
    await server.client.submitBatch(Array.from({ length: count }, () => ({ kind: "no-op", lane, input })));
    submitted += count;
  }
  const worker = new Worker(server.client, { name: "bench", lanes: [lane], concurrency });
  let left = executions;
  let finish;
  const finished = new Promise((resolve) => {
    finish = resolve;
  });
  worker.task("no-op", async (ctx, input) => {
    for (let step = 0; step < steps; step += 1) await ctx.step(`step-${step}`, () => step);
    left -= 1;
    if (left === 0) finish();
    return input.number;
  });
  const begun = performance.now();
  const processor = process.cpuUsage();
  await worker.start();
  await finished;
  const summary = await worker.drain();
  const seconds = (performance.now() - begun) / 1000;
  const { user, system } = process.cpuUsage(processor);
  if (summary.completed !== executions) throw new Error(`only ${summary.completed} of ${executions} completed`);
  const rounded = (value) => Math.round(value * 10) / 10;
  console.log(
    JSON.stringify({
      sdk: "typescript",
      node: process.version,
      store: store.split(":")[0],
      executions,
      concurrency,
      steps,
      seconds: rounded(seconds),
      throughput_per_s: Math.round(executions / seconds),
      worker_cpu_s: rounded((user + system) / 1_000_000),
    }),
  );
} finally {
  await server.stop();
  rmSync(directory, { recursive: true });
}
