// First flow: one node, two that work on its result in parallel, and one that joins them.

import { Client, Flow, Worker } from "selvedge";

const client = new Client();
const worker = new Worker(client);
worker.task("download", (_, picture: string) => `bytes of ${picture}`);
worker.task("resize", (ctx, width: number) => `${ctx.upstream.get("download")} at ${width}`);
worker.task("publish", (ctx) => [ctx.upstream.get("small"), ctx.upstream.get("large")]);
await worker.start();

const flow = new Flow("picture");
const picture = flow.add("download", "download", "cat.jpg");
const small = flow.add("small", "resize", 200, { after: picture });
const large = flow.add("large", "resize", 800, { after: picture });
flow.add("publish", "publish", null, { after: [small, large] });
const run = await client.submitFlow(flow);
const ended = await run.result({ timeoutMs: 60_000 });
console.log(ended.results.publish?.result);

await worker.drain();
