// The guide to moving from SQLite to Postgres: one program works for the old and the new server until the old one is empty.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Client, Worker } from "selvedge";
import { Server } from "selvedge/testing";
import { timeoutMs } from "../support.js";

// region: both
async function startGreeter(client: Client): Promise<Worker> {
  const worker = new Worker(client);
  worker.task("greet", (_, name: string) => `Hello, ${name}!`);
  await worker.start();
  return worker;
}

async function isEmpty(client: Client): Promise<boolean> {
  const state = ["waiting", "waiting_dependencies", "delayed", "held", "active", "suspended"] as const;
  for await (const _ of client.list({ state: [...state] })) return false;
  return true;
}
// endregion: both

test("the old server drains while the new one takes what is submitted", async () => {
  await using old = await Server.start({ command: "serve" });
  await using current = await Server.start({ command: "serve" });
  const before = await old.client.submit("greet", "Ada");
  const after = await current.client.submit("greet", "Bob");
  assert.equal(await isEmpty(old.client), false);
  const workers = [await startGreeter(old.client), await startGreeter(current.client)];
  assert.equal(await before.result({ timeoutMs }), "Hello, Ada!");
  assert.equal(await after.result({ timeoutMs }), "Hello, Bob!");
  assert.equal(await isEmpty(old.client), true);
  for (const worker of workers) await worker.drain();
});
