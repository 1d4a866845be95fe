// Diamond: one node, two that work on its result in parallel, and one that joins them.

import { type Client, Flow, type Worker } from "selvedge";

export function tasks(worker: Worker): void {
  const load = worker.task("load", (_, count: number) => Array.from({ length: count }, (_, index) => index + 1));
  worker.task("sum", (ctx) => ctx.upstream.get("numbers", load).reduce((sum, number) => sum + number, 0));
  worker.task("largest", (ctx) => Math.max(...ctx.upstream.get("numbers", load)));
  worker.task("describe", (ctx) => `sum ${ctx.upstream.get("sum")}, largest ${ctx.upstream.get("largest")}`);
}

export async function main(client: Client): Promise<unknown> {
  // region: submit
  const flow = new Flow("diamond", { tags: { example: "diamond" } });
  const numbers = flow.add("numbers", "load", 10);
  const sum = flow.add("sum", "sum", null, { after: numbers });
  const largest = flow.add("largest", "largest", null, { after: numbers });
  flow.add("text", "describe", null, { after: [sum, largest] });
  const ended = await (await client.submitFlow(flow)).result({ timeoutMs: 60_000 });
  // endregion: submit
  return [ended.outcome, ended.results.text?.result];
}
