// Handles of what was submitted: an execution, a flow.

import type { Duration } from "../duration.js";
import type { Node } from "../flow.js";
import type { SignalType } from "../signal.js";
import type { InputThen } from "../task.js";
import type * as api from "../types.js";
import type { Client, SignalOptions } from "./client.js";
import type { FramesOptions } from "./feeds.js";

/** How long to wait for an end. */
export interface WaitOptions {
  /** Throws `WaitTimeout` after this many milliseconds. Default: never. */
  timeoutMs?: number;
  signal?: AbortSignal;
}

/** The end of an execution. */
export interface Ended<Output = unknown> {
  outcome: NonNullable<api.Execution["outcome"]>;
  result: Output;
  error: api.Failure | null;
}

/** An execution that was submitted. */
export class Run<Output = unknown> {
  readonly #client: Client;

  constructor(
    client: Client,
    readonly id: string,
    /** True if the submission repeated an earlier one. */
    readonly duplicate = false,
  ) {
    this.#client = client;
  }

  /** Waits for the end and returns the result. Throws `NotCompleted` for any other outcome. */
  result(options?: WaitOptions): Promise<Output> {
    return this.#client.result<Output>(this.id, options);
  }

  /** Waits for the end, whatever the outcome. */
  ended(options?: WaitOptions): Promise<Ended<Output>> {
    return this.#client.ended<Output>(this.id, options);
  }

  /** Returns the execution as it is now. */
  get(): Promise<api.Execution> {
    return this.#client.get(this.id);
  }

  /** Says why the execution does not run. */
  explain(): Promise<api.Explanation> {
    return this.#client.explain(this.id);
  }

  /** Cancels the execution; with a grace period its worker is asked first. */
  cancel(options?: { reason?: string; grace?: Duration }): Promise<api.Execution> {
    return this.#client.cancel(this.id, options);
  }

  /** Sends a signal to the execution. */
  signal(name: string, payload?: unknown, options?: SignalOptions): Promise<api.SendSignalAnswer>;
  signal<Sent>(
    signal: SignalType<Sent, unknown>,
    ...rest: InputThen<Sent, SignalOptions>
  ): Promise<api.SendSignalAnswer>;
  signal(
    signal: string | SignalType<unknown, unknown>,
    payload?: unknown,
    options?: SignalOptions,
  ): Promise<api.SendSignalAnswer> {
    return this.#client.signal(this.id, signal as string, payload, options);
  }

  /** Yields the frames of an attempt as they are written. Ends with the attempt. */
  tail(options?: FramesOptions & { signal?: AbortSignal }): AsyncGenerator<api.Frame> {
    return this.#client.tail(this.id, options);
  }
}

/** A flow that was submitted. */
export class FlowRun {
  readonly #client: Client;

  constructor(
    client: Client,
    readonly id: string,
    /** The ids of the executions, by node name. Empty for a handle that was made from an id. */
    readonly executions: Readonly<Record<string, string>> = {},
    readonly duplicate = false,
  ) {
    this.#client = client;
  }

  /** Waits for the end, whatever the outcome, and returns it with the results of the nodes without downstreams. */
  result(options?: WaitOptions): Promise<FlowEnded> {
    return this.#client.flows.result(this.id, options);
  }

  /** Returns the flow as it is now. */
  get(): Promise<api.Flow> {
    return this.#client.flows.get(this.id);
  }

  /** Cancels the members that have not ended, or with `pending` those that have not started. */
  cancel(options?: api.CancelFlowRequest): Promise<api.Flow> {
    return this.#client.flows.cancel(this.id, options);
  }

  /** Returns the handle of one node, which has the type of the result if the node is given as `flow.add` returned it. */
  node<Output = unknown>(node: Node<Output> | string): Run<Output> {
    const name = typeof node === "string" ? node : node.name;
    const id = this.executions[name];
    if (id === undefined) throw new RangeError(`the flow ${this.id} has no node ${JSON.stringify(name)} here`);
    return new Run<Output>(this.#client, id);
  }
}

/** The end of a flow. */
export type FlowEnded = api.FlowResult & { outcome: NonNullable<api.FlowResult["outcome"]> };
