// Builds the package when it is installed from its directory: `npm install ./sdk/typescript`.
//
// npm runs this script without the development dependencies of a linked directory, so it installs the compiler first.

import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

const directory = fileURLToPath(new URL(".", import.meta.url));
const compiler = fileURLToPath(new URL("node_modules/typescript/bin/tsc", import.meta.url));
const run = (...command) => execFileSync(process.execPath, command, { cwd: directory, stdio: "inherit" });

if (!existsSync(compiler)) run(process.env.npm_execpath, "ci", "--ignore-scripts", "--no-audit", "--no-fund");
run(compiler, "-p", "tsconfig.json");
