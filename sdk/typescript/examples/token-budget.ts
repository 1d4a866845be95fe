// Token budget with pause-and-ask: an execution that spends too much is suspended until somebody raises the limit.

import { randomUUID } from "node:crypto";
import type { Client, Worker } from "selvedge";

export function tasks(worker: Worker): void {
  worker.task("write-book", async (ctx, { chapters, budget }: { chapters: number; budget: string }) => {
    const book: string[] = [];
    for (let number = 1; number <= chapters; number += 1) {
      // region: usage
      const text = await ctx.step(`chapter ${number}`, async () => {
        const { text, tokens } = await writeChapter(number);
        await ctx.usage(budget, { tokens }); // counted with the record of the step
        return text;
      });
      // endregion: usage
      book.push(text);
    }
    return book.join(" ");
  });
}

/** Stands for the call of a language model. */
async function writeChapter(number: number): Promise<{ text: string; tokens: number }> {
  return { text: `Chapter ${number}.`, tokens: 400 };
}

export async function main(client: Client): Promise<unknown> {
  const budget = `book-${randomUUID()}`;
  // region: budget
  await client.budgets.put(budget, { limits: { tokens: { hard: 1000, soft: 800 } }, onHard: "suspend" });
  // endregion: budget
  const run = await client.submit<string>("write-book", { chapters: 4, budget }, { budgets: [budget] });
  // region: events
  const events = client.events({ start: "beginning", execution: run.id, types: ["execution.suspended"] });
  // endregion: events
  for await (const _ of events) break;
  const { usage } = await client.budgets.get(budget);
  // Stands for a person who looks at what was spent and agrees to more.
  await client.budgets.patch(budget, { limits: { tokens: { hard: 5000 } } });
  const book = await run.result({ timeoutMs: 60_000 });
  return [usage.tokens, book, (await client.budgets.get(budget)).usage.tokens];
}
