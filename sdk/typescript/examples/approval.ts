// Approval: a deployment needs two of three people. It waits for days, and holds no worker meanwhile.

import { type Client, Permanent, type Worker } from "selvedge";

export function tasks(worker: Worker): void {
  worker.task("deploy", async (ctx, version: string) => {
    // region: approval
    const approval = await ctx.approval("approve", {
      of: ["ann", "bob", "cleo"],
      atLeast: 2,
      timeout: { days: 3 },
      prompt: `Deploy ${version}?`,
      // Runs once for each person, even if the worker dies in between.
      ask: (person, waitpoint) => sendMail(person, `${ctx.client.url}/approve/${waitpoint.id}#${waitpoint.token}`),
    });
    if (!approval.isApproved) throw new Permanent(`${version} is not deployed: ${approval.verdict}`);
    // endregion: approval
    await ctx.step("deploy", () => `deployed ${version}`);
    return approval.votes.map((vote) => vote.person);
  });
}

/** Stands for a mail. The link opens a page with the question, for someone who has nothing but the link. */
async function sendMail(person: string, link: string): Promise<void> {
  if (process.env.MAIL) console.log(`to ${person}: ${link}`);
}

export async function main(client: Client): Promise<unknown> {
  const run = await client.submit<string[]>("deploy", "v2");
  // Stands for the people: an operator answers for two of them.
  for (const person of ["bob", "cleo"]) {
    let answered = false;
    while (!answered) {
      for await (const waitpoint of client.waitpoints.list({ execution: run.id, source: person, state: "open" })) {
        await client.waitpoints.answer(waitpoint.id, { payload: "fine" });
        answered = true;
      }
    }
  }
  return (await run.result({ timeoutMs: 60_000 })).sort();
}
