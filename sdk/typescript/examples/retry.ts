// Retry: a service that fails for a while, a rate limit that names its time, and an input that no retry can cure.

import { type Client, NotCompleted, Permanent, Retry, type Worker } from "selvedge";

interface Order {
  product: string;
  count: number;
}

export function tasks(worker: Worker): void {
  // region: order
  worker.task("order", async (ctx, order: Order) => {
    if (order.count < 1) throw new Permanent(`${order.count} is not a number of products`);
    const receipt = await ctx.step("charge", () => `receipt for ${order.count} ${order.product}`);
    const failures = Number(ctx.tags.failures ?? 0);
    if (ctx.attempt === 0 && failures > 0) throw new Error("the warehouse does not answer"); // waits for the back-off
    if (ctx.attempt < failures) throw new Retry("too many requests", { afterMs: 20 });
    return ctx.step("ship", () => `shipped against ${receipt}`);
  });
  // endregion: order
}

export async function main(client: Client): Promise<string[]> {
  const retry = { maxRetries: 5, backoff: { type: "exponential", initialMs: 20, jitter: true } } as const;
  const flaky = await client.submit<string>("order", { product: "tea", count: 2 }, { retry, tags: { failures: "2" } });
  const wrong = await client.submit("order", { product: "tea", count: 0 }, { retry });
  const refused = await wrong.result({ timeoutMs: 60_000 }).catch((error: unknown) => error);
  return [
    await flaky.result({ timeoutMs: 60_000 }),
    refused instanceof NotCompleted ? `${refused.outcome}: ${refused.error?.message}` : String(refused),
  ];
}
