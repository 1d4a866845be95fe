import { Client, Permanent, Worker } from "selvedge";

const client = new Client();
const worker = new Worker(client);

const charge = async (cents: number, key: string) => `receipt ${key.slice(0, 4)}… for ${cents}`;

const order = worker.task("order", async (ctx, cents: number) => {
  const receipt = await ctx.step("charge", () => charge(cents, ctx.idempotencyKey));
  const approval = await ctx.waitForSignal<string>("approve", { timeout: { days: 3 } });
  if (!approval) throw new Permanent("nobody approved");
  return `${receipt}, approved by ${approval.payload}`;
});

await worker.start();
const run = await client.submit(order, 990, { idempotencyKey: "order-7", retry: { maxRetries: 5 } });
await run.signal("approve", "ada");
console.log(await run.result({ timeoutMs: 60_000 }));
await worker.drain();
