// What errors and logs say: the words of the language, where it happened, and the remedy that fits.

import assert from "node:assert/strict";
import { execFile, execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { type AddressInfo, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { Client, ConnectionFailed, Flow, Permanent, Retry, WaitTimeout, Worker } from "selvedge";
import { Server } from "selvedge/testing";
import { deferred, storeTest, timeoutMs } from "./support.js";

class CardDeclined extends Permanent {}

function throwing(how: string): never {
  switch (how) {
    case "mistake":
      return (undefined as unknown as { bar: never }).bar;
    case "fetch":
      throw new TypeError("fetch failed", { cause: new Error("connect ECONNREFUSED 127.0.0.1:9") });
    case "permanent":
      throw new Permanent("no such account");
    case "declined":
      throw new CardDeclined("no money");
    case "retry":
      throw new Retry("busy", { afterMs: 600_000 });
    default:
      throw new Error("out of paper");
  }
}

storeTest("an error is stored with its name, and logged with its stack, kind, id and attempt", async (bed) => {
  const worker = bed.worker();
  worker.task("charge", (_, how: string) => throwing(how));
  await worker.start();
  const messages: Record<string, string> = {
    mistake: "TypeError: Cannot read properties of undefined (reading 'bar')",
    fetch: "TypeError: fetch failed: connect ECONNREFUSED 127.0.0.1:9",
    permanent: "no such account",
    declined: "CardDeclined: no money",
    plain: "out of paper",
  };
  for (const [how, expected] of Object.entries(messages)) {
    const run = await bed.submit("charge", how, { retry: { maxRetries: 0 } });
    assert.equal((await run.ended({ timeoutMs })).error?.message, expected);
    const logged = bed.log.find((line) => line.startsWith(`attempt 0 of charge ${run.id} in lane test failed: `));
    assert.ok(logged?.includes("messages.test.js"), `the stack of ${how} is not in the log:\n${bed.log.join("\n")}`);
  }
  assert.ok(bed.log.some((line) => line.includes("caused by Error: connect ECONNREFUSED")));
  assert.ok(bed.log.some((line) => line.includes("starts; kinds: charge; lanes: test")));
});

storeTest("the default logger shows what a handler threw", async (bed) => {
  const program = `
    import { Client, Worker } from "selvedge";
    const client = new Client({ url: process.argv[1] });
    const worker = new Worker(client, { lanes: ["quiet"], drainTimeout: 0 });
    worker.task("slip", () => undefined.bar);
    await worker.start();
    const run = await client.submit("slip", null, { lane: "quiet", retry: { maxRetries: 0 } });
    console.log((await run.ended()).error.message, run.id);
    await worker.drain();`;
  const child = promisify(execFile)(process.execPath, ["--input-type=module", "-e", program, bed.server.url]);
  const { stdout, stderr } = await child;
  const id = stdout.trim().split(" ").pop() ?? "";
  assert.ok(stdout.startsWith("TypeError: Cannot read properties of undefined (reading 'bar')"), stdout);
  assert.ok(stderr.includes(`selvedge: attempt 0 of slip ${id} in lane quiet failed: TypeError: Cannot read`), stderr);
  assert.match(stderr, /\n {4}at /);
});

storeTest("a wait that was too long says why and what to ask", async (bed) => {
  const run = await bed.submit("nobody-runs-this");
  await assert.rejects(run.result({ timeoutMs: 50 }), (error: unknown) => {
    assert.ok(error instanceof WaitTimeout);
    assert.ok(
      error.message.startsWith(`the execution ${run.id} has not ended within 50 ms. It is waiting. No live worker`),
      error.message,
    );
    assert.ok(error.message.includes(`\`selvedge explain ${run.id}\``), error.message);
    return true;
  });
  const flow = await bed.client.submitFlow(new Flow("one").with("a", "nobody-runs-this"));
  await assert.rejects(flow.result({ timeoutMs: 50 }), (error: unknown) => {
    assert.ok(error instanceof WaitTimeout);
    assert.ok(error.message.includes("It is running. “a” is waiting for a worker. No live worker"), error.message);
    assert.ok(error.message.includes(`\`selvedge flow explain ${flow.id}\``), error.message);
    return true;
  });
});

test("a refused connection says how to start a server", async () => {
  const taken = createServer().listen(0);
  await once(taken, "listening");
  const { port } = taken.address() as AddressInfo;
  taken.close();
  await once(taken, "close");
  for (const host of ["127.0.0.1", "localhost"]) {
    const client = new Client({ url: `http://${host}:${port}`, retryForMs: 0 });
    await assert.rejects(client.get(randomUUID()), (error: unknown) => {
      assert.ok(error instanceof ConnectionFailed);
      assert.match(error.message, /start one with `selvedge dev`, or name another address in SELVEDGE_SERVER/);
      return true;
    });
  }
});

test("a certificate that is not accepted says so at once and names what to set", async () => {
  const directory = mkdtempSync(join(tmpdir(), "selvedge-tls-"));
  const [certificate, key] = [join(directory, "server.crt"), join(directory, "server.key")];
  const make = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost".split(" ");
  const extensions = ["-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", certificate];
  execFileSync("openssl", [...make, ...extensions], { stdio: "pipe" });
  const flags = ["--tls-cert", certificate, "--tls-key", key];
  const server = await Server.start({ command: "serve", manualClock: false, arguments: flags });
  try {
    const url = `https://localhost:${new URL(server.url).port}`;
    const begun = Date.now();
    await assert.rejects(new Client({ url }).get(randomUUID()), (error: unknown) => {
      assert.ok(error instanceof ConnectionFailed);
      assert.match(error.message, /certificate of https:\/\/localhost.*SELVEDGE_CA_FILE/);
      return true;
    });
    assert.ok(Date.now() - begun < 20_000, "it is not repeated for 30 seconds");
    process.env.SELVEDGE_CA_FILE = certificate;
    const client = new Client({ url });
    const warnings: string[] = [];
    const warn = (message: string) => void warnings.push(message);
    const worker = new Worker(client, { leaseTtl: 600, log: { info: () => undefined, warn, error: warn } });
    const claimed = deferred();
    worker.task("busy", async (ctx) => {
      claimed.resolve();
      const until = Date.now() + 1500; // longer than the lease: the thread of the heartbeats trusts the file, too
      while (Date.now() < until);
      await ctx.step("é", () => 1);
      return ctx.attempt;
    });
    await worker.start();
    const run = await client.submit("busy");
    await claimed.promise;
    assert.equal(await run.result({ timeoutMs }), 0);
    for await (const event of client.events({ start: "beginning", execution: run.id })) {
      if (event.type === "execution.completed") break;
    }
    await worker.drain();
    assert.deepEqual(warnings, []);
    await assert.rejects(new Client({ url, caFile: "/nowhere.pem", retryForMs: 0 }).submit("busy"), /nowhere\.pem/);
  } finally {
    delete process.env.SELVEDGE_CA_FILE;
    await server.stop("SIGKILL");
    rmSync(directory, { recursive: true, force: true });
  }
});

test("where an address cannot be reached, the next one is tried", async () => {
  const [first, second] = [await Server.start({ command: "serve" }), await Server.start({ command: "serve" })];
  try {
    const client = new Client({ url: `${first.url}/, ${second.url}`, retryForMs: 0 });
    assert.equal(client.url, first.url);
    const worker = new Worker(client, { leaseTtl: 600 });
    worker.task("greet", (_, name: string) => `Hello, ${name}!`);
    await first.stop("SIGKILL");
    await worker.start();
    assert.equal(client.url, second.url);
    const run = await client.submit<string>("greet", "Ada");
    assert.equal(await run.result({ timeoutMs }), "Hello, Ada!");
    await worker.drain();
    await second.stop("SIGKILL");
    await assert.rejects(client.get(run.id), ConnectionFailed);
  } finally {
    for (const server of [first, second]) await server.stop("SIGKILL");
  }
});
