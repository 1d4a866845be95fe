// Flows: graphs of executions, submitted in one call.

import { type InputThen, type Kind, kindName, type Task } from "./task.js";
import type * as api from "./types.js";

/** The outcome of an upstream for which a downstream waits. Default: `success`. */
export type When = NonNullable<api.Edge["when"]>;

/** The policy of a node: `all_of` (default), `any_of`, or the result of `anyOf` and `quorum`. */
export type Policy = "all_of" | "any_of" | api.JoinPolicy;

/** The fields of a node, besides its name, kind and input. */
export type NodeOptions = Omit<api.FlowNode, "name" | "kind" | "input">;

/** The edges into a node and its policy. */
export interface Dependencies {
  /** The upstreams: nodes, or their names. */
  after?: Upstream | readonly Upstream[];
  /** The condition of all these edges; `node.when(…)` is that of one. */
  when?: When;
  policy?: Policy;
}

/** An upstream: a node or the name of one. */
export type Upstream = Node<unknown> | string;

/** The fields of a flow. */
export type FlowOptions = Omit<api.FlowSubmission, "name" | "nodes" | "edges" | "groups"> & {
  /** The span of the submitter (W3C Trace Context). Default: the current one with `selvedge/otel`, else none. */
  traceparent?: string;
};

declare const result: unique symbol;

/** A node of a flow, with the type of its result. Name it in `after` of a later node, or use `node.when("failure")` there. */
export class Node<Output = unknown> {
  declare readonly [result]?: Output;

  constructor(
    readonly name: string,
    readonly condition: When = "success",
  ) {}

  /** Returns the node with the outcome for which a downstream waits. */
  when(condition: When): Node<Output> {
    return new Node<Output>(this.name, condition);
  }
}

/** The policy of a node that runs as soon as one edge holds. The other upstreams are cancelled, or run on. */
export function anyOf(options: { letRun?: boolean } = {}): api.JoinPolicy {
  return { type: "any_of", onSatisfied: options.letRun ? "let_run" : "cancel_remaining" };
}

/** The policy of a node that runs as soon as `k` edges hold. The other upstreams are cancelled, or run on. */
export function quorum(k: number, options: { letRun?: boolean } = {}): api.JoinPolicy {
  return { type: "quorum", k, onSatisfied: options.letRun ? "let_run" : "cancel_remaining" };
}

/** A graph of executions: `client.submitFlow(flow)`. */
export class Flow {
  readonly nodes: api.FlowNode[] = [];
  readonly edges: api.Edge[] = [];
  readonly groups: api.Group[] = [];

  constructor(
    readonly name?: string,
    readonly options: FlowOptions = {},
  ) {}

  /** Adds a node, and edges from the nodes in `after`. */
  add(name: string, kind: string, input?: unknown, options?: NodeOptions & Dependencies): Node;
  add<Input, Output>(
    name: string,
    task: Task<Input, Output>,
    ...rest: InputThen<Input, NodeOptions & Dependencies>
  ): Node<Output>;
  add(name: string, kind: Kind, input?: unknown, options: NodeOptions & Dependencies = {}): Node {
    const { after = [], when, policy, ...fields } = options;
    this.nodes.push({ ...fields, name, kind: kindName(kind), input: input ?? null });
    for (const upstream of isList(after) ? after : [after]) {
      const node = typeof upstream === "string" ? new Node(upstream) : upstream;
      this.edges.push({ from: node.name, to: name, when: when ?? node.condition });
    }
    if (policy) {
      const whole = typeof policy === "string" ? ({ type: policy } as api.JoinPolicy) : policy;
      this.groups.push({ node: name, policy: whole });
    }
    return new Node(name);
  }

  /** Adds a node like `add`, and returns the flow. */
  with(name: string, kind: string, input?: unknown, options?: NodeOptions & Dependencies): this;
  with<Input>(name: string, task: Task<Input, unknown>, ...rest: InputThen<Input, NodeOptions & Dependencies>): this;
  with(name: string, kind: Kind, input?: unknown, options?: NodeOptions & Dependencies): this {
    this.add(name, kind as string, input, options);
    return this;
  }

  /** Returns the nodes, edges and groups. */
  graph(): Pick<api.FlowSubmission, "nodes" | "edges" | "groups"> {
    return { nodes: this.nodes, edges: this.edges, groups: this.groups };
  }

  /** Returns the body of the submission. */
  submission(): api.FlowSubmission {
    const { ...options } = this.options;
    delete options.traceparent;
    return { ...options, name: this.name, ...this.graph() };
  }
}

function isList(after: Upstream | readonly Upstream[]): after is readonly Upstream[] {
  return Array.isArray(after);
}
