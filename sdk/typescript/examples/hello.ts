// Hello: one task with one durable step.

import type { Client, Worker } from "selvedge";

// region: hello
export function tasks(worker: Worker): void {
  worker.task("greet", async (ctx, name: string) => {
    const length = await ctx.step("measure", () => name.length); // runs once, over all attempts
    await ctx.sleep("pause", 100); // durable: no slot is held meanwhile
    return `Hello, ${name}! (${length})`;
  });
}

export async function main(client: Client): Promise<string> {
  const run = await client.submit<string>("greet", "Ada");
  return run.result({ timeoutMs: 60_000 });
}
// endregion: hello
