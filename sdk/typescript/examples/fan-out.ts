// Fan-out: one child for each document, a quota for the model that they all call, and a back-off when it is busy.

import { randomUUID } from "node:crypto";
import { type Client, Flow, Retry, type Worker } from "selvedge";

export function tasks(worker: Worker): void {
  worker.task("summarise-all", async (ctx, { documents, quota }: { documents: string[]; quota: string }) => {
    const children = new Flow();
    const retry = { maxRetries: 5, backoff: { type: "exponential", initialMs: 20 } } as const;
    // region: spawn
    documents.forEach((document, index) => {
      children.add(`document-${index}`, "summarise", document, { quotas: [quota], retry });
    });
    await ctx.spawnFlow(children);
    const summaries = await ctx.join();
    // endregion: spawn
    return documents.map((_, index) => summaries[`document-${index}`]?.result);
  });
  worker.task("summarise", async (ctx, document: string) => {
    if (ctx.attempt === 0 && document.includes("long")) throw new Retry("the model is busy", { afterMs: 10 });
    return ctx.step("call the model", () => `${document.split(" ").length} words`);
  });
}

export async function main(client: Client): Promise<unknown> {
  const quota = `model-${randomUUID()}`;
  await client.quotas.put(quota, { concurrency: 2 });
  const documents = ["one", "two words", "a long document of six words", "a b c d"];
  const run = await client.submit("summarise-all", { documents, quota });
  return run.result({ timeoutMs: 60_000 });
}
