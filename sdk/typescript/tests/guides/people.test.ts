// The guide to waiting for people: two of three approve, or nobody answers for three days.

import assert from "node:assert/strict";
import { type Client, Permanent, type Waitpoint, Worker } from "selvedge";
import { clockTest, timeoutMs, until } from "../support.js";

// region: vote
async function vote(client: Client, id: string, token: string, agrees: boolean): Promise<void> {
  await client.waitpoints.signal(id, token, agrees ? {} : { name: "publish/reject" });
}
// endregion: vote

clockTest("two of three people publish an article, and silence forgets it", async ({ server, client }) => {
  const inbox: Waitpoint[] = [];
  const sendMail = (_person: string, waitpoint: Waitpoint) => void inbox.push(waitpoint);
  const worker = new Worker(client);
  // region: approval
  worker.task("publish", async (ctx, article: string) => {
    const approval = await ctx.approval("publish", {
      of: ["ann", "bob", "cleo"],
      atLeast: 2,
      timeout: { days: 3 },
      // Sends an e-mail with a link that contains the token.
      ask: (person, waitpoint) => sendMail(person, waitpoint),
    });
    if (approval.isApproved) return `${article} is published`;
    if (approval.verdict === "timed_out") return `${article} is forgotten`;
    throw new Permanent("not approved");
  });
  // endregion: approval
  await worker.start();
  const run = await client.submit("publish", "News");
  await until(() => inbox.length === 3);
  for (const agrees of [true, false, true]) {
    const { id, token } = inbox.shift() ?? assert.fail();
    await vote(client, id, token ?? assert.fail(), agrees);
  }
  assert.equal(await run.result({ timeoutMs }), "News is published");
  const silent = await client.submit("publish", "Old news");
  await until(() => inbox.length === 3);
  await server.advance({ days: 3 });
  assert.equal(await silent.result({ timeoutMs }), "Old news is forgotten");
  await worker.drain();
});
