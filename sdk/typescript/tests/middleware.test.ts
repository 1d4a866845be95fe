// Middleware around attempts and steps, and what lives as long as a worker.

import assert from "node:assert/strict";
import { Suspended, Worker } from "selvedge";
import { AsyncLocalStorage } from "node:async_hooks";
import { clockTest, storeTest, timeoutMs } from "./support.js";

const tenants = new AsyncLocalStorage<string | undefined>();

clockTest("middleware is around every attempt and every step that runs, and sees a suspension", async (bed) => {
  const seen: string[] = [];
  const worker = bed.worker();
  worker.use({
    async attempt(ctx, next) {
      seen.push(`attempt ${ctx.attempt} begins`);
      try {
        const value = await next();
        seen.push(`attempt ${ctx.attempt} returns ${JSON.stringify(value)}`);
        return value;
      } catch (error) {
        seen.push(`attempt ${ctx.attempt} throws ${(error as Error).name}`);
        assert.ok(error instanceof Suspended);
        return "ignored";
      }
    },
    async step(ctx, name, next) {
      seen.push(`${name} begins`);
      return `${String(await next())} of ${ctx.kind}`;
    },
  });
  worker.use(async (_, next) => {
    seen.push("inner");
    return [await next()];
  });
  worker.task("order", async (ctx) => {
    const receipt = await ctx.step("charge", () => "receipt");
    await ctx.sleep("pause", { days: 1 });
    return ctx.all("both", { one: (ctx) => ctx.step("pack", () => receipt) });
  });
  await worker.start();
  const run = await bed.submit("order");
  await bed.server.advance({ days: 2 });
  assert.deepEqual(await run.result({ timeoutMs }), [{ one: "receipt of order of order" }]);
  assert.deepEqual(seen, [
    "attempt 0 begins",
    "inner",
    "charge begins",
    "attempt 0 throws Suspended",
    "attempt 1 begins",
    "inner",
    "both/one/pack begins",
    'attempt 1 returns [{"one":"receipt of order of order"}]',
  ]);
});

storeTest("middleware times steps", async (bed) => {
  const worker = bed.worker();
  const times: Record<string, number> = {};
  const record = (name: string, ms: number) => void (times[name] = ms);
  // region: middleware
  worker.use({
    attempt: (ctx, next) => tenants.run(ctx.tags.tenant, next),
    async step(_, name, next) {
      const begun = performance.now();
      try {
        return await next();
      } finally {
        record(name, performance.now() - begun);
      }
    },
  });
  // endregion: middleware
  worker.task("order", (ctx) => ctx.step("charge", () => tenants.getStore()));
  await worker.start();
  assert.equal(await (await bed.submit("order", null, { tags: { tenant: "acme" } })).result({ timeoutMs }), "acme");
  assert.ok((times.charge ?? -1) >= 0);
});

storeTest("what middleware throws fails the attempt, and what it returns is the result", async (bed) => {
  const worker = bed.worker();
  worker.use(async (ctx, next) => {
    if (ctx.tags.tenant === "cached") return "from the cache";
    if (ctx.tags.tenant === undefined) throw new Error("there is no tenant");
    return next().catch((error: unknown) => `rescued from ${String(error)}`);
  });
  worker.task("fail", () => {
    throw new Error("the disk is full");
  });
  worker.batchTask("square", { max: 3 }, (entries: ReadonlyArray<{ input: number }>) =>
    entries.map(({ input }) => (input < 0 ? new Error("negative") : input * input)),
  );
  await worker.start();
  const end = async (kind: string, input: unknown, tenant?: string) => {
    const tags: Record<string, string> = tenant ? { tenant } : {};
    const options = { tags, retry: { maxRetries: 0 } };
    const { result, error } = await (await bed.submit(kind, input, options)).ended({ timeoutMs });
    return error?.message ?? result;
  };
  assert.equal(await end("fail", null), "there is no tenant");
  assert.equal(await end("fail", null, "acme"), "rescued from Error: the disk is full");
  const ends = [end("square", 3, "acme"), end("square", 4, "cached"), end("square", -5, "acme"), end("square", 6)];
  const expected = [9, "from the cache", "rescued from Error: negative", "there is no tenant"];
  assert.deepEqual(await Promise.all(ends), expected);
  assert.throws(() => worker.use(async (_, next) => next()), /the worker has started/);
});

storeTest("the lifespan of a worker is around its first claim and its last handler", async (bed) => {
  const seen: string[] = [];
  // region: lifespan
  const worker = new Worker(bed.client, {
    lanes: ["test"],
    async *lifespan() {
      const pool = await openPool();
      yield { pool }; // ctx.state of every handler
      await pool.close();
    },
  });
  worker.task("count", (ctx, table: string) => ctx.state.pool.count(table));
  // endregion: lifespan
  worker.task("branches", (ctx) => ctx.all("both", { one: (ctx) => ctx.state.pool.count("branch") }));
  async function openPool() {
    seen.push("opened");
    return {
      count: (table: string) => `rows of ${table}`,
      close: async () => void seen.push("closed"),
    };
  }
  await worker.start();
  assert.deepEqual(seen, ["opened"]);
  assert.equal(await (await bed.submit("count", "users")).result({ timeoutMs }), "rows of users");
  assert.deepEqual(await (await bed.submit("branches")).result({ timeoutMs }), { one: "rows of branch" });
  const summary = await worker.drain();
  assert.equal(summary.completed, 2);
  assert.deepEqual(seen, ["opened", "closed"]);
});

clockTest("a lifespan that fails or yields nothing stops the start", async (bed) => {
  const start = async (lifespan: () => AsyncGenerator<unknown, void, undefined>) => {
    const worker = new Worker(bed.client, { lifespan });
    worker.task("any", () => null);
    await worker.start();
  };
  await assert.rejects(start(async function* () {}), /yields nothing/); // prettier-ignore
  const failing = async function* () {
    throw new Error("there is no database");
  };
  await assert.rejects(start(failing), /there is no database/);
});
