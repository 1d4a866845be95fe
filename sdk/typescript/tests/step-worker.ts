// A worker whose process dies after each step of its handler. It writes a line for each effect.

import { writeSync } from "node:fs";
import { Client, Worker } from "selvedge";

const worker = new Worker(new Client(), { lanes: ["crash"], leaseTtl: 500 });
worker.task("six-steps", async (ctx) => {
  let sum = 0;
  for (let step = 0; step < 6; step += 1) {
    let isNew = false;
    sum += await ctx.step(`step ${step}`, () => {
      isNew = true;
      writeSync(1, `step ${step}\n`);
      return step;
    });
    if (isNew) process.kill(process.pid, "SIGKILL");
  }
  setTimeout(() => void worker.drain(), 0);
  return sum;
});
await worker.start();
