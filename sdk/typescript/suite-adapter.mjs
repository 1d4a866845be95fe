// The adapter of this SDK for the suite of all SDKs: translates the words of a scenario into calls of the SDK.
// sdk/suite/README.md describes its two roles and the protocol on standard input and output.

import { existsSync, readFileSync, writeSync } from "node:fs";
import { createInterface } from "node:readline";
import { Client, ConnectionFailed, Flow, Permanent, Problem, quorum, Retry, WaitTimeout, Worker } from "selvedge";

const [role, ...rest] = process.argv.slice(2);
const argument = (name) => rest[rest.indexOf(name) + 1];
const client = new Client({ url: argument("--server") });

/** Writes a line at once, so that a crash does not lose it. */
function print(line) {
  let bytes = Buffer.from(`${JSON.stringify(line)}\n`);
  while (bytes.length > 0) bytes = bytes.subarray(written(bytes));
}

/** Writes as much as fits into the pipe, and returns how much that was. */
function written(bytes) {
  try {
    return writeSync(1, bytes);
  } catch (error) {
    if (error.code === "EAGAIN") return 0;
    throw error;
  }
}

const camel = (name) => name.replace(/_([a-z])/g, (_, letter) => letter.toUpperCase());

/** Renames the fields of a submission and of the objects in it that are not the user's. */
function options(fields) {
  const own = new Set(["input", "tags", "reserve", "limits"]);
  const renamed = (value) => {
    if (Array.isArray(value)) return value.map(renamed);
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(
      Object.entries(value).map(([name, item]) => [camel(name), own.has(name) ? item : renamed(item)]),
    );
  };
  return renamed(fields);
}

/** The end of a list of actions by `return`. */
class Returned {
  constructor(value) {
    this.value = value;
  }
}

/** Replaces the variables in a value. */
function resolved(value, variables) {
  if (Array.isArray(value)) return value.map((item) => resolved(item, variables));
  if (value !== null && typeof value === "object") {
    return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, resolved(item, variables)]));
  }
  if (typeof value !== "string" || !value.startsWith("$")) return value;
  const [name, ...path] = value.slice(1).split(".");
  return path.reduce((found, part) => found?.[part], variables[name]) ?? null;
}

const nested = new Set(["actions", "branches"]);

/** Interprets a list of actions. Returns the value of its first `return`, or null. */
async function interpret(actions, ctx, variables, scenario) {
  for (const action of actions) {
    const conditions = Object.entries(action.when ?? {});
    if (!conditions.every(([name, value]) => variables[name] === value)) continue;
    const fields = Object.fromEntries(
      Object.entries(action).map(([name, value]) => [name, nested.has(name) ? value : resolved(value, variables)]),
    );
    const value = await act(fields, ctx, variables, scenario);
    if (value instanceof Returned) return value.value;
    if (action.as) variables[action.as] = value ?? null;
  }
  return null;
}

const doing = {
  return: ({ value }) => new Returned(value ?? null),
  note: ({ note, value }, ctx) =>
    print({ note, execution: ctx.executionId, attempt: ctx.attempt, value: value ?? null }),
  fail: ({ message, class: failureClass, retry_after_ms }) => {
    if (failureClass === "permanent") throw new Permanent(message);
    if (retry_after_ms !== undefined) throw new Retry(message, { afterMs: retry_after_ms });
    throw new Error(message);
  },
  step: ({ name, actions }, ctx, variables, scenario) =>
    ctx.step(name, () => interpret(actions, ctx, { ...variables, step_key: ctx.stepKey(name) }, scenario)),
  sleep: ({ name, ms }, ctx) => ctx.sleep(name, ms),
  wait_for_signal: async ({ name, timeout_ms }, ctx) => {
    const signal = await ctx.waitForSignal(name, { timeout: timeout_ms });
    return signal && { payload: signal.payload, source: signal.source };
  },
  approval: async ({ name, people, at_least, timeout_ms }, ctx) => {
    const ask = (person, { id, token }) => {
      const value = { person, waitpoint: id, token };
      print({ note: "asked", execution: ctx.executionId, attempt: ctx.attempt, value });
    };
    const { verdict, votes } = await ctx.approval(name, { of: people, atLeast: at_least, timeout: timeout_ms, ask });
    const plain = votes.map(({ person, approves, signal }) => ({ person, approves, payload: signal.payload }));
    return { verdict, votes: plain };
  },
  spawn: async ({ name, kind, input }, ctx) => void (await ctx.spawn(kind, input, { name })),
  join: (_, ctx) => ctx.join(),
  race: ({ name, branches }, ctx, variables, scenario) => ctx.race(name, pairs(branches, variables, scenario)),
  all: ({ name, branches }, ctx, variables, scenario) => ctx.all(name, pairs(branches, variables, scenario)),
  upstream: ({ node }, ctx) => ctx.upstream.fetch(node),
  frame: ({ data, kind, mode }, ctx) => ctx.frame(data, { kind, mode }),
  usage: ({ budget, usage, dedup_key }, ctx) => ctx.usage(budget, usage, { dedupKey: dedup_key }),
  progress: ({ percent, message }, ctx) => ctx.progress(percent, message),
  gate: async ({ name }, ctx, _, scenario) => {
    while (!existsSync(`${scenario.gates}/${name}`)) {
      await new Promise((resolve) => setTimeout(resolve, 10));
      ctx.throwIfCancelled();
    }
  },
  block: ({ ms }) => {
    const until = Date.now() + ms;
    while (Date.now() < until);
  },
  wait_for_cancel: async ({ actions }, ctx, variables, scenario) => {
    if (!ctx.signal.aborted) {
      await new Promise((resolve) => ctx.signal.addEventListener("abort", resolve, { once: true }));
    }
    const value = await interpret(actions ?? [], ctx, variables, scenario);
    if (value !== null) return new Returned(value);
    throw ctx.signal.reason;
  },
  slip: (_, ctx) => {
    try {
      const order = undefined;
      return order.order_id;
    } catch (error) {
      print({ note: "slipped", execution: ctx.executionId, attempt: ctx.attempt, value: String(error) });
      throw error;
    }
  },
  crash: () => process.kill(process.pid, "SIGKILL"),
};

function act(action, ctx, variables, scenario) {
  const run = doing[action.do];
  if (!run) throw new Permanent(`the adapter does not know the action ${action.do}`);
  return run(action, ctx, variables, scenario);
}

function pairs(branches, variables, scenario) {
  return branches.map(({ name, actions }) => [name, (ctx) => interpret(actions, ctx, { ...variables }, scenario)]);
}

function variablesOf(ctx, input) {
  return { input: input ?? null, attempt: ctx.attempt, execution: ctx.executionId, key: ctx.idempotencyKey };
}

async function runWorker() {
  const scenario = JSON.parse(readFileSync(argument("--scenario"), "utf8"));
  const { name, lanes, capabilities, concurrency, lease_ttl_ms, grace_ms } = scenario.worker;
  const log = console;
  const worker = new Worker(client, {
    ...{ name, lanes, capabilities, concurrency, leaseTtl: lease_ttl_ms, drainTimeout: grace_ms },
    log: { info: (text) => log.error(text), warn: (text) => log.error(text), error: (text) => log.error(text) },
  });
  for (const [kind, task] of Object.entries(scenario.tasks)) {
    if (Array.isArray(task)) {
      worker.task(kind, (ctx, input) => interpret(task, ctx, variablesOf(ctx, input), scenario));
    } else {
      worker.batchTask(kind, { max: task.batch }, (entries) => {
        const run = ({ ctx, input }) => {
          const variables = { ...variablesOf(ctx, input), batch: entries.length };
          return interpret(task.actions, ctx, variables, scenario).catch((error) => error);
        };
        return Promise.all(entries.map(run));
      });
    }
  }
  await worker.run();
}

function flowOf({ name, nodes, idempotency_key }) {
  const flow = new Flow(name, { idempotencyKey: idempotency_key });
  for (const { name, kind, input, after, when, policy, ...fields } of nodes) {
    const whole = policy?.quorum ? quorum(policy.quorum) : policy;
    flow.add(name, kind, input, { ...options(fields), after, when, policy: whole });
  }
  return flow;
}

const submitted = ({ id, duplicate }) => ({ execution: id, duplicate });
const refused = ({ code, status }) => ({ error: { code, status } });

const calls = {
  submit: async ({ kind, input, ...fields }) => submitted(await client.submit(kind, input, options(fields))),
  submit_batch: async ({ executions }) => {
    const results = await client.submitBatch(executions.map(options));
    return results.map((result) => (result instanceof Problem ? refused(result) : submitted(result)));
  },
  submit_flow: async (fields) => {
    const { id, executions, duplicate } = await client.submitFlow(flowOf(fields));
    return { flow: id, executions, duplicate };
  },
  result: ({ execution, timeout_ms }) => client.ended(execution, { timeoutMs: timeout_ms }),
  flow_result: async ({ flow, timeout_ms }) => {
    const { outcome, results } = await client.flows.result(flow, { timeoutMs: timeout_ms });
    return { outcome, results };
  },
  get: async ({ execution }) => snake(await client.get(execution)),
  cancel: async ({ execution, reason, grace_ms }) => {
    const { state } = await client.cancel(execution, { reason, grace: grace_ms });
    return { state };
  },
  signal: async ({ execution, name, payload, idempotency_key }) => {
    const answer = await client.signal(execution, name, payload, { idempotencyKey: idempotency_key });
    return { effect: answer.effect, duplicate: answer.duplicate };
  },
  answer: async ({ waitpoint, token, name, payload }) => {
    const { effect } = await client.waitpoints.signal(waitpoint, token, { name, payload });
    return { effect };
  },
  events: async ({ types, after, execution, count }, item) => {
    let left = count;
    if (left === 0) return null;
    for await (const event of client.events({ types, after, execution, start: "beginning" })) {
      item(event);
      left -= 1;
      if (left === 0) break;
    }
    return null;
  },
  tail: async ({ execution }, item) => {
    for await (const { number, kind, data } of client.tail(execution)) item({ number, kind, data });
    return null;
  },
  put_budget: async ({ name, budget }) => snake(await client.budgets.put(name, options(budget))),
  put_schedule: async ({ name, schedule }) => snake(await client.schedules.put(name, options(schedule))),
  run_schedule: async ({ name }) => ({ execution: (await client.schedules.run(name)).execution?.id }),
  delete_schedule: async ({ name }) => {
    await client.schedules.delete(name);
    return { removed: true };
  },
};

/** Renames the first level of fields: enough for the comparisons of scenarios. */
function snake(value) {
  const rename = (name) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [rename(name), item]));
}

function errorOf(error) {
  if (error instanceof Problem) return { code: error.code, status: error.status };
  if (error instanceof WaitTimeout) return { code: "timeout", status: null };
  if (error instanceof ConnectionFailed) return { code: "connection", status: null };
  console.error(error);
  return { code: String(error), status: null };
}

async function runClient() {
  const underWay = new Set();
  for await (const line of createInterface({ input: process.stdin })) {
    const { id, call, ...fields } = JSON.parse(line);
    const done = calls[call](fields, (item) => print({ id, item })).then(
      (ok) => print({ id, ok: ok ?? null }),
      (error) => print({ id, error: errorOf(error) }),
    );
    underWay.add(done.finally(() => underWay.delete(done)));
  }
  await Promise.all(underWay);
}

await (role === "worker" ? runWorker() : runClient());
