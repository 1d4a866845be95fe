// The programs of the guides and of the comparison run as processes.

import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { Server } from "selvedge/testing";
import { timeoutMs, until } from "../support.js";

const path = (name: string) => fileURLToPath(new URL(name, import.meta.url));
const environment = (server: Server) => ({ ...process.env, SELVEDGE_SERVER: server.url });

const programs: Array<[string, RegExp]> = [
  ["first-flow.js", /^\[ 'bytes of cat\.jpg at 200', 'bytes of cat\.jpg at 800' \]\n$/],
  ["comparison-order.js", /^receipt \w{4}… for 990, approved by ada\n$/],
];
for (const [program, output] of programs) {
  test(`${program} prints its result`, async () => {
    await using server = await Server.start({ command: "serve" });
    const options = { env: environment(server) };
    const { stdout } = await promisify(execFile)(process.execPath, [path(program)], options);
    assert.match(stdout, output);
  });
}

test("a worker converts films until it is stopped", async () => {
  await using server = await Server.start({ command: "serve" });
  const { client } = server;
  const worker = spawn(process.execPath, [path("media-worker.js")], { env: environment(server), stdio: "inherit" });
  try {
    // region: submit
    const film = { film: "cat.mov", parts: 4 };
    const options = { lane: "media", retry: { maxRetries: 5 }, idempotencyKey: "cat.mov" };
    const run = await client.submit<string>("convert", film, options);
    const result = await run.result({ timeoutMs: 60_000 });
    // endregion: submit
    assert.equal(result, "cat.mov, 4 parts");
    const empty = await client.submit("convert", { film: "dog.mov", parts: 0 }, { lane: "media" });
    assert.equal((await empty.ended({ timeoutMs })).error?.message, "dog.mov is empty");
    const long = await client.submit("convert", { film: "film.mov", parts: 1_000_000 }, { lane: "media" });
    await until(async () => (await long.get()).state === "active");
    // region: cancel
    await long.cancel({ reason: "the film was withdrawn", grace: { seconds: 30 } });
    // endregion: cancel
    assert.equal((await long.ended({ timeoutMs })).outcome, "cancelled");
    worker.kill("SIGTERM");
    assert.deepEqual(await once(worker, "exit"), [0, null]);
  } finally {
    worker.kill("SIGKILL");
  }
});
