// The guide to operating: failed executions are read and replayed.

import assert from "node:assert/strict";
import { type Client, Permanent } from "selvedge";
import { storeTest, timeoutMs } from "../support.js";

// region: replay
async function replayFailed(client: Client, kind: string): Promise<number> {
  let replayed = 0;
  for await (const { id, error } of client.list({ kind, state: ["failed"] })) {
    console.log(`${id}: ${error?.message ?? "no error"}`);
    await client.replay(id);
    replayed += 1;
  }
  return replayed;
}
// endregion: replay

storeTest("failed executions are replayed when the cause is repaired", async (bed) => {
  let isRepaired = false;
  const worker = bed.worker();
  worker.task("mail", () => {
    if (!isRepaired) throw new Permanent("no such host");
    return "sent";
  });
  await worker.start();
  const runs = [await bed.submit("mail"), await bed.submit("mail"), await bed.submit("mail")];
  for (const run of runs) assert.equal((await run.ended({ timeoutMs })).outcome, "failed");
  isRepaired = true;
  assert.equal(await replayFailed(bed.client, "mail"), 3);
  for (const run of runs) assert.equal(await run.result({ timeoutMs }), "sent");
});
