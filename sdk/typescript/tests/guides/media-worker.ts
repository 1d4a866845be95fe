// Workers: a process that converts films until it is stopped.

import { setTimeout as pause } from "node:timers/promises";
import { Client, Permanent, Worker } from "selvedge";

/** Stands for the work. */
async function convertPart(_film: string, _part: number): Promise<void> {
  await pause(5);
}

// region: worker
const worker = new Worker(new Client(), { lanes: ["media"], concurrency: 4, drainTimeout: { seconds: 20 } });

worker.task("convert", async (ctx, { film, parts }: { film: string; parts: number }) => {
  if (parts === 0) throw new Permanent(`${film} is empty`); // not retried
  for (let part = 0; part < parts; part += 1) {
    ctx.throwIfCancelled(); // ends as cancelled
    await convertPart(film, part);
    await ctx.progress((100 * part) / parts, "converting");
  }
  return `${film}, ${parts} parts`;
});

await worker.run(); // until SIGTERM or SIGINT; then it drains
// endregion: worker
