// What the types promise, one row for each promise. The compiler is the test: a line that must not compile has
// `@ts-expect-error`, and `same` compiles only if two types are equal. Nothing here runs.

import { type Client, Flow, type Json, type Run, signal, task, until, Worker } from "selvedge";

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
type Awaitable<T> = Promise<T>;

declare function same<Expected>(): <Actual>(
  actual: Actual,
  ...equal: Same<Expected, Actual> extends true ? [] : [never]
) => void;
declare const client: Client;
declare const worker: Worker;

interface Order {
  id: string;
  cents: number;
}

/** A schema with a default, as zod declares it. */
declare const withDefault: {
  parse(value: unknown): { width: number };
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: "test";
    validate(value: unknown): { value: { width: number } } | { issues: Array<{ message: string }> };
    readonly types?: { readonly input: { width?: number | undefined }; readonly output: { width: number } } | undefined;
  };
};
declare const parseOnly: { parse(value: unknown): Order };
declare const standardOnly: { "~standard": { validate(value: unknown): { value: Order } } };

export function json(): void {
  same<Json<Order>>()({} as Order);
  same<Json<Date>>()("" as string);
  same<Json<{ at: Date; by?: Date }>>()({} as { at: string; by?: string });
  same<Json<undefined>>()(null);
  same<Json<() => void>>()(null);
  same<Json<{ a: number; run(): void; b: string | undefined }>>()({} as { a: number; b?: string });
  same<Json<Array<Date | undefined>>>()([] as Array<string | null>);
  same<Json<readonly [Date, 1]>>()({} as readonly [string, 1]);
  same<Json<Record<string, Date>>>()({} as Record<string, string>);
  same<Json<Map<string, number>>>()({} as Record<string, never>);
  same<Json<"a" | 1 | null>>()({} as "a" | 1 | null);
  same<Json<unknown>>()({} as unknown);
  same<Json<{ any: unknown }>>()({} as { any: unknown });
  same<Json<bigint>>()({} as never);
}

export function submit(): void {
  const charge = worker.task("charge", (_, order: Order) => ({ receipt: order.id, at: new Date() }));
  const tick = worker.task("tick", () => 1);
  const greet = task<string, string>("greet");
  const maybe = task<string | null, Date>("maybe");
  same<Awaitable<Run<{ receipt: string; at: string }>>>()(client.submit(charge, { id: "a", cents: 1 }));
  same<Awaitable<Run<string>>>()(client.submit(greet, "Ada", { lane: "fast" }));
  same<Awaitable<Run<string>>>()(client.submit(maybe)); // an input that may be null may be left out
  same<Awaitable<Run<number>>>()(client.submit(tick)); // a task without an input keeps its result
  same<Awaitable<Run>>()(client.submit("charge", { any: "thing" })); // a name has no types
  same<Awaitable<Run<string>>>()(client.submit<string>("greet", "Ada"));
  same<Run<string>>()(client.run("id", greet));
  // @ts-expect-error: the input is a string
  void client.submit(greet, 7);
  // @ts-expect-error: the input is missing
  void client.submit(greet);
  // @ts-expect-error: a field is missing
  void client.submit(charge, { id: "a" });
  // @ts-expect-error: there is no such field
  void client.submit(charge, { id: "a", cents: 1, euros: 1 });
  // @ts-expect-error: there is no such option
  void client.submit(greet, "Ada", { lan: "fast" });
  // @ts-expect-error: not every object with a kind is a task
  void client.submit({ kind: 7 }, "Ada");
  same<Awaitable<Array<Run<string> | import("selvedge").Problem>>>()(client.submitBatch([{ kind: greet, input: "a" }]));
  // @ts-expect-error: the input of the second is a string
  void client.submitBatch([{ kind: greet, input: "a" }, { kind: greet, input: 7 }]); // prettier-ignore
}

export function schemas(): void {
  const resize = worker.task("resize", { input: withDefault }, (_, input) => {
    same<{ width: number }>()(input);
    return input.width;
  });
  same<Awaitable<Run<number>>>()(client.submit(resize, {})); // the submitter may leave out what has a default
  same<Awaitable<Run<number>>>()(client.submit(resize, { width: 7 }));
  // @ts-expect-error: the width is a number
  void client.submit(resize, { width: "7" });
  const parsed = worker.task("parsed", { input: parseOnly }, (_, order) => order.cents);
  void client.submit(parsed, { id: "a", cents: 1 });
  // @ts-expect-error: a schema with only `parse` accepts what it returns
  void client.submit(parsed, "a");
  const standard = worker.task("standard", { input: standardOnly }, (_, order) => order.cents);
  // @ts-expect-error: a schema that declares no input accepts what it returns
  void client.submit(standard, "a");
  // @ts-expect-error: the handler gets what the schema returns
  worker.task("wrong", { input: parseOnly }, (_, order: string) => order);
  const squares = worker.batchTask("squares", { max: 3 }, (entries: ReadonlyArray<{ input: number }>) =>
    entries.map(({ input }) => (input < 0 ? new Error("negative") : input * input)),
  );
  same<Awaitable<Run<number>>>()(client.submit(squares, 3)); // an error is not a result
  worker.batchTask("sized", { max: 3, input: withDefault }, (entries) => entries.map(({ input }) => input.width));
}

export function steps(): void {
  worker.task("steps", async (ctx) => {
    same<Awaitable<string>>()(ctx.step("now", () => new Date()));
    same<Awaitable<Order>>()(ctx.step("order", async (): Promise<Order> => ({ id: "a", cents: 1 })));
    same<Awaitable<null>>()(ctx.step("mail", () => undefined));
    // @ts-expect-error: a date is a string after it was recorded
    (await ctx.step("again", () => new Date())).getTime();
    const both = await ctx.all("both", { one: () => 1, two: (ctx) => ctx.step("two", () => new Date()) });
    same<{ one: number; two: string }>()(both);
  });
}

export function flows(): void {
  const load = task<number, number[]>("load");
  const sum = task<null, number>("sum");
  const flow = new Flow();
  const numbers = flow.add("numbers", load, 3);
  const total = flow.add("total", sum, null, { after: numbers });
  flow.with("again", load, 3).add("named", "anything", { any: "thing" }, { after: [total.when("failure"), "again"] });
  // @ts-expect-error: the input is a number
  flow.add("wrong", load, "3");
  // @ts-expect-error: the input is missing
  flow.add("missing", load);
  // @ts-expect-error: the input is a number
  flow.with("wrong", load, "3");
  void client.submitFlow(flow).then(async (run) => {
    same<Run<number[]>>()(run.node(numbers));
    same<Awaitable<number>>()(run.node(total.when("success")).result());
    same<Run>()(run.node("total"));
  });
  worker.task("sum", async (ctx) => {
    same<number[]>()(ctx.upstream.get("numbers", load));
    same<Order>()(ctx.upstream.get("numbers", parseOnly));
    same<unknown>()(ctx.upstream.get("numbers"));
    same<Awaitable<number[]>>()(ctx.upstream.fetch("numbers", load));
    await ctx.spawn(load, 3, { name: "three" });
    // @ts-expect-error: the input is a number
    await ctx.spawn(load, "3");
    same<number[]>()((await ctx.fetchChild("three", load)).result);
    for (const child of Object.values(await ctx.join("join", load))) same<number[]>()(child.result);
  });
}

export function signals(): void {
  const paid = signal<{ at: Date }>("paid");
  const sized = signal("sized", { schema: withDefault });
  const seen = signal("seen");
  void client.signal("id", paid, { at: new Date() });
  void client.signal("id", sized, {});
  void client.signal("id", seen);
  void client.signal("id", "paid", { any: "thing" }, { source: "ada" });
  void client.run("id").signal(paid, { at: new Date() }, { source: "ada" });
  // @ts-expect-error: the payload is missing
  void client.signal("id", paid);
  // @ts-expect-error: the width is a number
  void client.run("id").signal(sized, { width: "7" });
  worker.task("wait", async (ctx) => {
    const received = await ctx.waitForSignal(paid, { name: "first", timeout: { days: 3 } });
    same<{ at: string } | undefined>()(received?.payload);
    same<{ width: number } | undefined>()((await ctx.waitForSignal(sized))?.payload);
    same<number | undefined>()((await ctx.waitForSignal<number>("any"))?.payload);
    await ctx.wait("both", until.all(until.signal(paid), until.signal("packed")));
  });
}

export function lifespans(): void {
  const worker = new Worker(client, {
    async *lifespan() {
      yield { pool: "pool" };
    },
  });
  worker.use(async (ctx, next) => {
    same<{ pool: string }>()(ctx.state);
    return next();
  });
  worker.task("state", async (ctx) => {
    same<{ pool: string }>()(ctx.state);
    await ctx.race("first", { one: (ctx) => ctx.state.pool });
    // @ts-expect-error: there is no such field
    return ctx.state.table;
  });
}

export function configurations(): void {
  const submit = { execution: { kind: "report" } };
  void client.schedules.put("nightly", { cron: "0 2 * * *", submit, overlap: "skip" });
  void client.budgets.put("tokens", { limits: { tokens: { hard: 1000 } }, onHard: "suspend" });
  void client.webhooks.put("hook", { url: "https://example.com/", types: ["execution.completed"] });
  // @ts-expect-error: there is no such overlap
  void client.schedules.put("nightly", { cron: "0 2 * * *", submit, overlap: "ignore" });
  // @ts-expect-error: there is nothing to submit
  void client.schedules.put("nightly", { cron: "0 2 * * *" });
  // @ts-expect-error: there is no such field
  void client.budgets.put("tokens", { limits: {}, hard: 1000 });
  // @ts-expect-error: the address is missing
  void client.webhooks.put("hook", { types: ["execution.completed"] });
}
