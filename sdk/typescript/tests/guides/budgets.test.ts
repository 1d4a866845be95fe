// The guide to budgets: a chapter exceeds the budget, and the book continues when the limit is raised.

import assert from "node:assert/strict";
import { storeTest, timeoutMs, until } from "../support.js";

storeTest("a book that exceeds its budget waits until the limit is raised", async (bed) => {
  const { client } = bed;
  /** Stands for the call of a model. */
  const writeChapter = async (number: number) => ({ text: `Chapter ${number}.`, tokens: 400 });

  // region: budget
  await client.budgets.put("books", {
    limits: { tokens: { hard: 1000, soft: 800 } }, // the soft limit publishes an event
    periodMs: 24 * 3600 * 1000,
    onHard: "suspend",
  });
  // endregion: budget

  const worker = bed.worker();
  // region: task
  worker.task("write-book", async (ctx, chapters: number) => {
    const book: string[] = [];
    for (let number = 1; number <= chapters; number += 1) {
      const chapter = await ctx.step(`chapter ${number}`, async () => {
        const { text, tokens } = await writeChapter(number);
        await ctx.usage("books", { tokens }); // sent with the record of the step, so it counts once
        return text;
      });
      book.push(chapter);
    }
    return book.join(" ");
  });
  // endregion: task
  await worker.start();
  const lane = "test";
  // region: submit
  const budgets = [{ name: "books", reserve: { tokens: 400 } }];
  const run = await client.submit<string>("write-book", 4, { budgets, lane });
  // endregion: submit
  await until(async () => (await run.get()).state === "suspended");
  assert.equal((await client.budgets.get("books")).usage.tokens, 1200);
  // region: raise
  await client.budgets.patch("books", { limits: { tokens: { hard: 5000 } } });
  // endregion: raise
  assert.equal(await run.result({ timeoutMs }), "Chapter 1. Chapter 2. Chapter 3. Chapter 4.");
  assert.equal((await client.budgets.get("books")).usage.tokens, 1600);
});
