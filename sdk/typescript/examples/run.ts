// Runs an example against a server: `node build/examples/run.js hello`. The server is SELVEDGE_SERVER.
//
// With `--worker` it only runs the worker, with the tasks of all named examples, until SIGTERM.

import { parseArgs } from "node:util";
import { Client, Worker } from "selvedge";

interface Example {
  tasks(worker: Worker): void;
  main(client: Client): Promise<unknown>;
}

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: { worker: { type: "boolean" }, lease: { type: "string", default: "30000" } },
});
const examples = await Promise.all(positionals.map(async (name) => (await import(`./${name}.js`)) as Example));
const client = new Client();
const worker = new Worker(client, { name: "examples", concurrency: 20, leaseTtl: Number(values.lease) });
for (const example of examples) example.tasks(worker);

if (values.worker) {
  await worker.run();
} else {
  await worker.start();
  for (const example of examples) console.log(JSON.stringify(await example.main(client)));
  await worker.drain();
}
