// The package as users get it: generated types, and the tarball in a clean directory.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { Server } from "selvedge/testing";

const root = fileURLToPath(new URL("../..", import.meta.url));

test("generating the types again changes nothing", () => {
  execFileSync(process.execPath, [join(root, "generate-types.mjs"), "--check"], { stdio: "pipe" });
});

test("the OpenAPI document is that of the server", async () => {
  const server = await Server.start();
  try {
    const served = await (await fetch(`${server.url}/openapi.json`)).json();
    assert.deepEqual(JSON.parse(readFileSync(join(root, "../openapi.json"), "utf8")), served);
  } finally {
    await server.stop();
  }
});

test("the packed tarball works and has types in a clean directory", async () => {
  const directory = mkdtempSync(join(tmpdir(), "selvedge-package-"));
  const run = (command: string, ...args: string[]) =>
    execFileSync(command, args, { cwd: directory, encoding: "utf8", stdio: "pipe", env });
  const server = await Server.start({ manualClock: false });
  const env = { ...process.env, SELVEDGE_SERVER: server.url };
  try {
    execFileSync("npm", ["pack", "--ignore-scripts", "--pack-destination", directory], { cwd: root, stdio: "pipe" });
    const tarball = readdirSync(directory).find((name) => name.endsWith(".tgz")) ?? assert.fail("no tarball");
    writeFileSync(join(directory, "package.json"), JSON.stringify({ type: "module", private: true }));
    run("npm", "install", "--offline", "--no-audit", "--no-fund", `./${tarball}`);
    assert.deepEqual(
      readdirSync(join(directory, "node_modules")).filter((name) => !name.startsWith(".")),
      ["selvedge"],
    );
    const program = readFileSync(join(root, "examples/hello.ts"), "utf8");
    const start = `
      import { Client as C, Worker as W } from "selvedge";
      const client = new C();
      const worker = new W(client);
      tasks(worker);
      await worker.start();
      const text: string = await main(client);
      await worker.drain();
      export { text };`;
    writeFileSync(join(directory, "hello.ts"), `${program}\n${start}`);
    const tsc = join(root, "node_modules/typescript/bin/tsc");
    const strict = ["--strict", "--module", "nodenext", "--target", "es2022", "--lib", "es2022,dom"];
    run(process.execPath, tsc, ...strict, "hello.ts");
    writeFileSync(join(directory, "run.js"), `import { text } from "./hello.js"; console.log(text);`);
    assert.equal(run(process.execPath, "run.js").trim(), "Hello, Ada! (3)");
  } finally {
    await server.stop();
    rmSync(directory, { recursive: true });
  }
});
