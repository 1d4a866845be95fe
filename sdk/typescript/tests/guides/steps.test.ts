// The guide to steps: a charge that runs once, a durable sleep and a signal.

import assert from "node:assert/strict";
import { Permanent, Worker } from "selvedge";
import { clockTest, timeoutMs } from "../support.js";

clockTest("an order is charged once although its handler runs four times", async ({ server, client }) => {
  const charges: string[] = [];
  /** Stands for the payment service, which recognises a repeated key. */
  const charge = async (cents: number, key: string) => {
    charges.push(key);
    return `receipt for ${cents}`;
  };
  const worker = new Worker(client);
  // region: order
  worker.task("order", async (ctx, cents: number) => {
    const receipt = await ctx.step("charge", () => charge(cents, ctx.stepKey("charge")));
    if (ctx.attempt === 0) throw new Error("the warehouse does not answer"); // the retry does not charge again
    await ctx.sleep("cooling-off", { days: 1 });
    const packed = await ctx.waitForSignal("packed", { timeout: { days: 14 } });
    if (!packed) throw new Permanent("nobody packed the order");
    return `${receipt}, packed by ${packed.source}`;
  });
  // endregion: order
  await worker.start();
  const run = await client.submit("order", 990);
  await server.advance({ days: 2 });
  // region: signal
  await client.signal(run.id, "packed", null, { source: "ada" });
  // endregion: signal
  assert.equal(await run.result({ timeoutMs }), "receipt for 990, packed by ada");
  assert.equal((await run.get()).attempts, 4);
  assert.deepEqual(charges, [`${run.id}/charge`]);
  await worker.drain();
});
