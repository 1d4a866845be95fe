// Schedule: a report every night at two, Berlin time; and once now.

import { randomUUID } from "node:crypto";
import type { Client, Worker } from "selvedge";

export function tasks(worker: Worker): void {
  worker.task("nightly-report", (_, region: string) => `the report of ${region}`);
}

export async function main(client: Client): Promise<unknown> {
  const name = `nightly-${randomUUID()}`;
  await client.schedules.put(name, {
    cron: "0 2 * * *",
    timeZone: "Europe/Berlin",
    submit: { execution: { kind: "nightly-report", input: "Europe" } },
    overlap: "skip",
    catchUp: "one",
  });
  const { items } = await client.schedules.next(name, 3);
  const { execution } = await client.schedules.run(name);
  if (!execution) throw new Error("the schedule submits no execution");
  const report = await client.result(execution.id, { timeoutMs: 60_000 });
  await client.schedules.delete(name);
  return [report, items.length];
}
