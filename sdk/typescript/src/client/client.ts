// The client: submits executions and flows, waits for their ends, operates them, and reads events and streams.

import { type Duration, milliseconds } from "../duration.js";
import { NotCompleted, type Problem, problemOf, WaitTimeout } from "../errors.js";
import type { Flow } from "../flow.js";
import { newId } from "../ids.js";
import { type SignalType, signalName } from "../signal.js";
import { type InputThen, type Kind, kindName, type Task } from "../task.js";
import { traceparentHeader } from "../traceparent.js";
import type * as api from "../types.js";
import { type EventsOptions, events, type FramesOptions, tail } from "./feeds.js";
import { Flows } from "./flows.js";
import { Budgets, Lanes, Quotas, Schedules } from "./limits.js";
import { BulkJobs, pages, Waitpoints, Webhooks, Workers } from "./resources.js";
import { type Ended, type FlowRun, Run, type WaitOptions } from "./run.js";
import { type ClientOptions, type Query, Transport } from "./transport.js";

/** The fields of a submission, besides its kind and input. */
export type SubmitOptions = Omit<api.Submission, "kind" | "input"> & {
  /** The span of the submitter (W3C Trace Context). Default: the current one with `selvedge/otel`, else none. */
  traceparent?: string;
};

/** One submission of a batch, with a kind by its name. */
export type BatchItem = ItemOptions & { kind: string; input?: unknown };

/** One submission of a batch of one task. */
export type TaskItem<Input, Output> = ItemOptions & { kind: Task<Input, Output> } & (undefined extends Input
    ? { input?: NoInfer<Input> }
    : { input: NoInfer<Input> });

/** The options of a signal. */
export interface SignalOptions {
  /** A repetition with the same key is delivered once. */
  idempotencyKey?: string;
  /** The sender. Default: the name of the API key. */
  source?: string;
}

type ItemOptions = Omit<SubmitOptions, "traceparent">;
type AnyItem = ItemOptions & { kind: Kind; input?: unknown };

/** The filters of a list of executions. All must match. */
export type ListOptions = Omit<api.ListExecutionsQuery, "cursor" | "limit">;

/** The longest time that the server holds one request. */
const LONGEST_WAIT_MS = 60_000;
/** The longest time for asking why an execution or flow has not ended. */
const EXPLAIN_TIMEOUT_MS = 2_000;
/** The most reasons in the message of a wait that was too long. */
const REASONS_MAX = 3;

/** The subject of a wait. */
interface WaitSubject {
  noun: "execution" | "flow";
  id: string;
}

/** A client of one server. Safe to share; it holds no state besides its settings. */
export class Client {
  /** @internal */
  readonly transport: Transport;
  readonly flows: Flows;
  readonly lanes: Lanes;
  readonly quotas: Quotas;
  readonly budgets: Budgets;
  readonly schedules: Schedules;
  readonly webhooks: Webhooks;
  readonly waitpoints: Waitpoints;
  readonly workers: Workers;
  readonly bulkJobs: BulkJobs;

  constructor(options: ClientOptions = {}) {
    this.transport = new Transport(options);
    this.flows = new Flows(this);
    this.lanes = new Lanes(this.transport);
    this.quotas = new Quotas(this.transport);
    this.budgets = new Budgets(this.transport);
    this.schedules = new Schedules(this.transport);
    this.webhooks = new Webhooks(this.transport);
    this.waitpoints = new Waitpoints(this.transport);
    this.workers = new Workers(this.transport);
    this.bulkJobs = new BulkJobs(this.transport);
  }

  /** The address of the server. */
  get url(): string {
    return this.transport.url;
  }

  /** Submits an execution. Submitting again with the same id or key returns the existing one. */
  submit<Output = unknown>(kind: string, input?: unknown, options?: SubmitOptions): Promise<Run<Output>>;
  submit<Input, Output>(task: Task<Input, Output>, ...rest: InputThen<Input, SubmitOptions>): Promise<Run<Output>>;
  async submit<Output>(kind: Kind, input?: unknown, options: SubmitOptions = {}): Promise<Run<Output>> {
    const { traceparent, ...fields } = options;
    const headers = traceparentHeader(traceparent);
    const body = submission({ ...fields, kind, input });
    const answer = await this.transport.post<api.SubmitExecutionAnswer>("/v1/executions", body, { headers });
    return new Run<Output>(this, answer.execution.id, answer.duplicate);
  }

  /** Submits up to 1000 executions in one call. A refused one does not affect the others: its place has the problem. */
  submitBatch(items: readonly BatchItem[]): Promise<Array<Run | Problem>>;
  submitBatch<Input, Output>(items: ReadonlyArray<TaskItem<Input, Output>>): Promise<Array<Run<Output> | Problem>>;
  async submitBatch(items: readonly AnyItem[]): Promise<Array<Run | Problem>> {
    const body = { executions: items.map(submission) };
    const headers = traceparentHeader();
    const answer = await this.transport.post<api.SubmitExecutionsAnswer>("/v1/executions/batch", body, { headers });
    return answer.results.map((result) =>
      "error" in result ? problemOf(result.error) : new Run(this, result.execution.id, result.duplicate),
    );
  }

  /** Submits a whole graph of executions, atomically. */
  submitFlow(flow: Flow): Promise<FlowRun> {
    return this.flows.submit(flow);
  }

  /** Returns the handle of an execution that was submitted elsewhere. */
  run<Output = unknown>(id: string, _task?: Task<never, Output>): Run<Output> {
    return new Run<Output>(this, id);
  }

  /** Returns the execution as it is now. */
  get(id: string): Promise<api.Execution> {
    return this.transport.get(execution(id));
  }

  /** Yields executions, newest first. */
  list(options: ListOptions = {}): AsyncGenerator<api.Execution> {
    return pages(this.transport, "/v1/executions", options as Query);
  }

  /** Waits for the end and returns the result. Throws `NotCompleted` for any other outcome. */
  async result<Output = unknown>(id: string, options?: WaitOptions): Promise<Output> {
    const { outcome, result, error } = await this.ended<Output>(id, options);
    if (outcome !== "completed") throw new NotCompleted(id, outcome, error);
    return result;
  }

  /** Waits for the end, whatever the outcome. */
  async ended<Output = unknown>(id: string, options?: WaitOptions): Promise<Ended<Output>> {
    const path = `${execution(id)}/result`;
    const answer = await this.poll<api.GetExecutionResultAnswer>(path, { noun: "execution", id }, options);
    return answer as Ended<Output>;
  }

  /** Reads an end until there is one. @internal */
  async poll<T extends { outcome: string | null }>(
    path: string,
    of: WaitSubject,
    options: WaitOptions = {},
  ): Promise<T> {
    const { timeoutMs = Number.POSITIVE_INFINITY, signal } = options;
    const until = Date.now() + timeoutMs;
    for (;;) {
      const waitMs = Math.ceil(Math.max(0, Math.min(LONGEST_WAIT_MS, until - Date.now())));
      const answer = await this.transport.get<T>(path, { waitMs }, { waitMs, signal });
      if (answer.outcome !== null) return answer;
      if (Date.now() >= until) throw await this.#stillRunning(of, timeoutMs, signal);
    }
  }

  /** Returns the error for a wait that was too long, with what the server says about the reason, if it does. */
  async #stillRunning({ noun, id }: WaitSubject, timeoutMs: number, signal?: AbortSignal): Promise<WaitTimeout> {
    const said = await this.transport
      .get<api.Explanation>(`/v1/${noun}s/${id}/explain`, {}, { retryForMs: 0, timeoutMs: EXPLAIN_TIMEOUT_MS, signal })
      .then((explained) => ` ${stateAndReasons(explained)}.`)
      .catch(() => "");
    const command = noun === "execution" ? "selvedge explain" : "selvedge flow explain";
    return new WaitTimeout(
      `the ${noun} ${id} has not ended within ${timeoutMs} ms.${said} \`${command} ${id}\` says more`,
    );
  }

  /** Says why an execution does not run, with every reason that holds now. */
  explain(id: string): Promise<api.Explanation> {
    return this.transport.get(`${execution(id)}/explain`);
  }

  /** Cancels an execution; with a grace period its worker is asked first. */
  cancel(id: string, options: { reason?: string; grace?: Duration; ifVersion?: number } = {}): Promise<api.Execution> {
    const { grace, ...fields } = options;
    const graceMs = grace === undefined ? undefined : milliseconds(grace);
    return this.#operate(id, "cancel", { ...fields, graceMs });
  }

  /** Runs an ended execution again, in a new generation. */
  replay(id: string, options: { ifVersion?: number } = {}): Promise<api.Execution> {
    return this.#operate(id, "replay", options);
  }

  /** Moves the start of a waiting, delayed or held execution. */
  reschedule(id: string, to: Date | Duration): Promise<api.Execution> {
    const body = to instanceof Date ? { untilAt: to.toISOString() } : { delayMs: milliseconds(to) };
    return this.#operate(id, "reschedule", body);
  }

  /** Changes the priority, from -100 to 100. Higher ones are claimed first. */
  priority(id: string, priority: number): Promise<api.Execution> {
    return this.#operate(id, "priority", { priority });
  }

  /** Sets and removes tags. */
  tags(id: string, change: { set?: Record<string, string>; remove?: string[] }): Promise<api.Execution> {
    return this.#operate(id, "tags", change);
  }

  /** Resumes a suspended execution, whatever it waits for. */
  resume(id: string): Promise<api.Execution> {
    return this.#operate(id, "resume", {});
  }

  /** Takes an active execution away from its worker. Charges nothing. */
  revokeLease(id: string, options: { reason?: string } = {}): Promise<api.Execution> {
    return this.#operate(id, "revoke-lease", options);
  }

  async #operate(id: string, action: string, body: unknown): Promise<api.Execution> {
    const answer = await this.transport.post<{ execution: api.Execution }>(`${execution(id)}/${action}`, body);
    return answer.execution;
  }

  /** Sends a signal to an execution. It is kept until a wait takes it. */
  signal(id: string, name: string, payload?: unknown, options?: SignalOptions): Promise<api.SendSignalAnswer>;
  signal<Sent>(
    id: string,
    signal: SignalType<Sent, unknown>,
    ...rest: InputThen<Sent, SignalOptions>
  ): Promise<api.SendSignalAnswer>;
  signal(
    id: string,
    signal: string | SignalType<never, unknown>,
    payload: unknown = null,
    options: SignalOptions = {},
  ): Promise<api.SendSignalAnswer> {
    return this.transport.post(`${execution(id)}/signals`, { ...options, name: signalName(signal), payload });
  }

  /** Applies one action to many executions, up to 10 000; `bulkJobs` has no limit. */
  bulk(request: api.ActOnExecutionsRequest): Promise<api.ActOnExecutionsAnswer> {
    return this.transport.post("/v1/executions/bulk", request);
  }

  /** Yields events, live and without a gap: after a lost connection it continues where it was. */
  events(options: EventsOptions = {}): AsyncGenerator<api.Event> {
    return events(this.transport, options);
  }

  /** Yields the frames that an attempt has written so far. */
  frames(id: string, options: FramesOptions = {}): AsyncGenerator<api.Frame> {
    return pages(this.transport, `${execution(id)}/stream`, { ...options });
  }

  /** Yields the frames of an attempt as they are written. Ends with the attempt. */
  tail(id: string, options: FramesOptions & { signal?: AbortSignal } = {}): AsyncGenerator<api.Frame> {
    return tail(this.transport, id, options);
  }

  /** Returns the document into which the summary frames of an attempt were merged. */
  summary(id: string, attempt?: number): Promise<api.GetSummaryAnswer> {
    return this.transport.get(`${execution(id)}/summary`, { attempt });
  }

  /** Yields the attempts of an execution. */
  attempts(id: string): AsyncGenerator<api.Attempt> {
    return pages(this.transport, `${execution(id)}/attempts`);
  }

  /** Yields the history of an execution, kept as long as the execution. */
  history(id: string): AsyncGenerator<api.Event> {
    return pages(this.transport, `${execution(id)}/events`);
  }

  /** Yields the durable steps of an execution. */
  steps(id: string): AsyncGenerator<api.Step> {
    return pages(this.transport, `${execution(id)}/steps`);
  }

  /** Yields the signals of an execution. */
  signals(id: string): AsyncGenerator<api.Signal> {
    return pages(this.transport, `${execution(id)}/signals`);
  }

  /** Yields what an execution has spent of each budget. */
  usage(id: string): AsyncGenerator<api.Spent> {
    return pages(this.transport, `${execution(id)}/usage`);
  }

  /** Yields the upstreams of an execution with their results, however large. */
  upstreams(id: string): AsyncGenerator<api.Relative> {
    return pages(this.transport, `${execution(id)}/upstreams`);
  }

  /** Yields the children of an execution with their results, however large. */
  children(id: string): AsyncGenerator<api.Relative> {
    return pages(this.transport, `${execution(id)}/children`);
  }
}

function execution(id: string): string {
  return `/v1/executions/${encodeURIComponent(id)}`;
}

/** Returns the body of a submission, with an id that makes it safe to repeat unless it has another key. */
function submission({ kind, input, ...options }: AnyItem): api.Submission {
  const hasKey = options.idempotencyKey || options.uniqueWhileActive || options.debounce;
  const id = options.id ?? (hasKey ? undefined : newId());
  return { ...options, id, kind: kindName(kind), input: input ?? null };
}

/** Returns the state of an execution or a flow, and the first reasons why it does not go on, as sentences. */
function stateAndReasons({ state, reasons }: api.Explanation): string {
  // A flow says first how many members are open, and then what each waits for.
  const messages = reasons.filter(({ code }) => code !== "members_open").map(({ message }) => message);
  return [`It is ${state.replaceAll("_", " ")}`, ...messages.slice(0, REASONS_MAX)].join(". ");
}
