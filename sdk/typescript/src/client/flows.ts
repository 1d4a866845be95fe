// Flows of the server: submit, read, grow, cancel.

import type { Flow } from "../flow.js";
import { newId } from "../ids.js";
import { traceparentHeader } from "../traceparent.js";
import type * as api from "../types.js";
import type { Client } from "./client.js";
import { pages } from "./resources.js";
import { type FlowEnded, FlowRun, type WaitOptions } from "./run.js";
import type { Query } from "./transport.js";

/** The filters of a list of flows. All must match. */
export type ListFlowsOptions = Omit<api.ListFlowsQuery, "cursor" | "limit">;

/** The flows of the namespace. */
export class Flows {
  readonly #client: Client;

  constructor(client: Client) {
    this.#client = client;
  }

  /** Submits a whole graph of executions, atomically. */
  async submit(flow: Flow): Promise<FlowRun> {
    const body = flow.submission();
    const id = body.id ?? (body.idempotencyKey ? undefined : newId());
    const headers = traceparentHeader(flow.options.traceparent);
    const answer = await this.#client.transport.post<api.GrownFlow>("/v1/flows", { ...body, id }, { headers });
    return new FlowRun(this.#client, answer.flow.id, answer.executions, answer.duplicate);
  }

  /** Returns the handle of a flow that was submitted elsewhere. */
  run(id: string): FlowRun {
    return new FlowRun(this.#client, id);
  }

  /** Returns the flow with its counts. */
  get(id: string): Promise<api.Flow> {
    return this.#client.transport.get(flowPath(id));
  }

  /** Yields flows, newest first. */
  list(options: ListFlowsOptions = {}): AsyncGenerator<api.Flow> {
    return pages(this.#client.transport, "/v1/flows", options as Query);
  }

  /** Waits for the end, whatever the outcome. */
  result(id: string, options?: WaitOptions): Promise<FlowEnded> {
    return this.#client.poll<api.FlowResult>(
      `${flowPath(id)}/result`,
      { noun: "flow", id },
      options,
    ) as Promise<FlowEnded>;
  }

  /** Returns the graph with the current state of nodes, edges and groups. */
  graph(id: string): Promise<api.Graph> {
    return this.#client.transport.get(`${flowPath(id)}/graph`);
  }

  /** Says why a flow has not ended, or how its outcome came about. */
  explain(id: string): Promise<api.Explanation> {
    return this.#client.transport.get(`${flowPath(id)}/explain`);
  }

  /** Adds nodes, edges and groups to a running flow. Edges may name existing nodes. */
  async grow(id: string, growth: Flow): Promise<Readonly<Record<string, string>>> {
    const headers = traceparentHeader(growth.options.traceparent);
    const path = `${flowPath(id)}/nodes`;
    const answer = await this.#client.transport.post<api.GrownFlow>(path, growth.graph(), { headers });
    return answer.executions;
  }

  /** Cancels the members that have not ended, or with the mode `pending` those that have not started. */
  async cancel(id: string, options: api.CancelFlowRequest = {}): Promise<api.Flow> {
    const waitMs = options.waitMs ?? 0;
    const answer = await this.#client.transport.post<api.CancelFlowAnswer>(`${flowPath(id)}/cancel`, options, {
      waitMs,
    });
    return answer.flow;
  }
}

function flowPath(id: string): string {
  return `/v1/flows/${encodeURIComponent(id)}`;
}
