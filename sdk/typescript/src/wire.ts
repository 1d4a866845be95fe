// The types of the worker protocol, as on the wire. Generated from the OpenAPI document by generate-types.mjs.

export type Backoff = {
  delay_ms: number;
  type: "fixed";
} | {
  initial_ms?: number | null;
  jitter?: boolean | null;
  max_ms?: number | null;
  multiplier?: number | null;
  type: "exponential";
};

export interface CancelledOp {
  attempt: number;
  epoch: number;
  execution: string;
  lease_id: string;
  message?: string | null;
  op: "cancelled";
  /** Makes the operation safe to repeat. */
  op_id?: string | null;
}

export interface Claim {
  /** Counted from 0. */
  attempt: number;
  children: Record<string, {
    outcome: "completed" | "failed" | "cancelled" | "expired" | "skipped" | null;
    result?: unknown;
  }>;
  /** Every child, by name, in the order of spawning. */
  children_outcomes: Record<string, {
    error: Failure | null;
    execution: string;
    outcome: "completed" | "failed" | "cancelled" | "expired" | "skipped" | null;
  }>;
  children_refs: Record<string, string>;
  execution: Execution;
  lease: Lease | null;
  namespace: string;
  resumed_by: "condition" | "operator" | "timeout" | null;
  /** The signals that ended the latest suspension. */
  signals: Array<{
    name: string;
    payload?: unknown;
    source: string;
    waitpoint: string | null;
  }>;
  /** The kinds of recorded steps, by name. */
  step_records: Record<string, {
    /** The attempt that recorded it. */
    attempt: number;
    /** `step`, `sleep`, `wait`, `join` or `race`. */
    kind: string;
  }>;
  /** The results of recorded steps, by name. */
  steps: Record<string, unknown>;
  /** The span of this attempt (W3C Trace Context), for the spans of the worker. */
  traceparent: string | null;
  /** The results of completed upstreams, by node. */
  upstream: Record<string, unknown>;
  /** Every upstream, by node, in the order of the edges. */
  upstream_outcomes: Record<string, {
    error: Failure | null;
    execution: string;
    outcome: "completed" | "failed" | "cancelled" | "expired" | "skipped" | null;
  }>;
  /** The upstreams whose results were left out, by node. */
  upstream_refs: Record<string, string>;
}

export interface ClaimAnswer {
  /** In the order of the claim; empty if there is no work. */
  claims: Claim[];
  /** True if the worker should claim nothing more. */
  drain: boolean;
  /** True if the request repeats an earlier one. */
  duplicate: boolean;
}

export interface ClaimRequest {
  capabilities?: string[] | null;
  /** New for each start of the process: separates it from its predecessor. */
  incarnation?: string | null;
  /** The kinds to claim. Default: all. */
  kinds?: string[] | null;
  /** The lanes to claim from. */
  lanes: string[];
  /** The time to live of the leases. A server may have another default. */
  lease_ttl_ms?: number | null;
  /** The maximum number of executions. */
  max: number;
  /** The longest wait for work. */
  wait_ms?: number | null;
  /** The name of the worker, for people. */
  worker: string;
}

export interface CompleteOp {
  attempt: number;
  epoch: number;
  execution: string;
  lease_id: string;
  op: "complete";
  /** Makes the operation safe to repeat. */
  op_id?: string | null;
  /** Default: null. */
  result?: unknown;
}

/** Exactly one of the fields; any and all may be nested 4 levels deep. */
export type Condition = {
  signal: string;
} | {
  any: Condition[];
} | {
  all: Condition[];
} | {
  count: {
    distinct: "signals" | "waitpoints" | "sources";
    n: number;
    of: string[];
  };
} | {
  until_at: string;
} | {
  delay_ms: number;
} | {
  operator: true;
} | {
  children: true;
};

export interface Debounce {
  /** The time without a further submission after which it may start. */
  delay_ms: number;
  key: string;
  /** The time from the first submission after which it may start in any case. */
  max_ms?: number | null;
}

export interface DelayOp {
  attempt: number;
  /** Give until_at or delay_ms. */
  delay_ms?: number | null;
  epoch: number;
  execution: string;
  lease_id: string;
  op: "delay";
  /** Makes the operation safe to repeat. */
  op_id?: string | null;
  /** Give until_at or delay_ms. */
  until_at?: string | null;
}

export interface Edge {
  /** The name of the upstream. */
  from: string;
  /** The name of the downstream. */
  to: string;
  when?: "success" | "failure" | "failure_or_skipped" | "finished" | null;
}

export interface Execution {
  attempt_timeout_ms: number | null;
  /** The number of attempts so far. */
  attempts: number;
  budgets: Array<string | {
    name: string;
    reserve: Record<string, number>;
  }>;
  cancel_requested: boolean;
  cancel_until_at: string | null;
  capabilities: string[];
  concurrency: {
    key: string;
    limit: number;
  } | null;
  deadline_at: string | null;
  deadline_ms: number | null;
  debounce: Debounce | null;
  delayed_until_at: string | null;
  ended_at: string | null;
  error: Failure | null;
  fairness_key: string | null;
  flow_id: string | null;
  /** Raised by every replay. */
  generation: number;
  held_reason: {
    gate: {
      kind: "lane" | "concurrency" | "quota" | "budget" | "fairness_key";
      name: string;
      part: string | null;
    };
    message: string;
    until_at: string | null;
  } | null;
  id: string;
  idempotency_key: string | null;
  idempotency_window_ms: number | null;
  /** In claims, in the answer for one execution, and where include asks for it. */
  input?: unknown;
  interruptions: number;
  kind: string;
  lane: string;
  lease: Lease | null;
  namespace: string;
  /** The name of its node in the flow. */
  node: string | null;
  /** Null until it has ended, then the same word as the state. */
  outcome: "completed" | "failed" | "cancelled" | "expired" | "skipped" | null;
  /** The execution that spawned it. */
  parent: string | null;
  priority: number;
  progress?: {
    message: string | null;
    percent: number | null;
  } | null;
  quotas: string[];
  ready_at: string | null;
  /** The latest replay. */
  replayed_at: string | null;
  /** Like input; null until it has completed. */
  result?: unknown;
  retention_ms: number;
  retries: number;
  retry: {
    backoff: {
      delay_ms: number;
      type: "fixed";
    } | {
      initial_ms: number;
      jitter: boolean;
      max_ms: number;
      multiplier: number;
      type: "exponential";
    };
    max_interruptions: number;
    max_retries: number;
    retry_on: Array<"transient" | "permanent" | "infrastructure" | "timeout">;
  };
  /** The schedule that submitted it. */
  schedule?: string;
  /** The time of that schedule. */
  scheduled_at?: string;
  start_by_ms: number | null;
  started_at: string | null;
  state: "waiting_dependencies" | "waiting" | "delayed" | "active" | "suspended" | "held" | "completed" | "failed" | "cancelled" | "expired" | "skipped";
  submitted_at: string;
  suspension: Suspension | null;
  tags: Record<string, string>;
  unique_while_active: string | null;
  /** Raised by every change; for if_version. */
  version: number;
}

export interface FailOp {
  attempt: number;
  class?: "transient" | "permanent" | "infrastructure" | "timeout" | null;
  epoch: number;
  execution: string;
  lease_id: string;
  message: string;
  op: "fail";
  /** Makes the operation safe to repeat. */
  op_id?: string | null;
  /** Replaces the back-off. */
  retry_after_ms?: number | null;
}

export interface Failure {
  class: "transient" | "permanent" | "infrastructure" | "timeout";
  message: string;
}

export interface Fence {
  attempt: number;
  epoch: number;
  execution: string;
  lease_id: string;
}

export interface FenceRequest {
  attempt: number;
  epoch: number;
  execution: string;
  lease_id: string;
}

export interface FrameOp {
  attempt: number;
  correlation_id?: string | null;
  data?: unknown;
  epoch: number;
  execution: string;
  kind: "stdout" | "stderr" | "event" | "blob";
  lease_id: string;
  mode?: "durable" | "best_effort" | "summary" | null;
  op: "frame";
  /** Makes the operation safe to repeat. */
  op_id?: string | null;
}

export interface Group {
  /** The downstream whose upstreams the policy is about. */
  node: string;
  policy: JoinPolicy;
}

export interface HeartbeatAnswer {
  cancel_requested: Fence[];
  /** True if the worker should claim nothing more. */
  drain: boolean;
  lost: Array<{
    attempt: number;
    code: string;
    epoch: number;
    execution: string;
    /** For stale_lease: the holder of the current lease. */
    holder?: {
      claimed_at: string;
      epoch: number;
      instance: string;
      lease_id: string;
      worker: string;
    } | null;
    lease_id: string;
    /** For stale_lease: the outcome of the execution. */
    outcome?: "completed" | "failed" | "cancelled" | "expired" | "skipped" | null;
    reason: string;
    /** For stale_lease: the state of the execution. */
    state?: string;
  }>;
  /** Leases of this instance that the heartbeat did not list. */
  orphaned: Fence[];
  renewed: Fence[];
}

export type JoinPolicy = {
  type: "all_of";
} | {
  on_satisfied?: "cancel_remaining" | "let_run" | null;
  type: "any_of";
} | {
  k: number;
  on_satisfied?: "cancel_remaining" | "let_run" | null;
  type: "quorum";
};

export interface Lease {
  claimed_at: string;
  epoch: number;
  expires_at: string | null;
  id: string;
  instance: string;
  ttl_ms: number;
  worker: string;
}

export interface Node {
  /** The longest time of one attempt. Default: no limit. */
  attempt_timeout_ms?: number | null;
  /** The budgets that it draws on: names, or objects with what it reserves. */
  budgets?: Array<string | {
    name: string;
    reserve?: Record<string, number> | null;
  }> | null;
  /** A worker must have all of them. */
  capabilities?: string[] | null;
  /** At most this many executions with the same key are active. */
  concurrency?: {
    key: string;
    limit: number;
  } | null;
  /** The execution expires unless it ends within this time. */
  deadline_ms?: number | null;
  /** Waits until no further submission with the key has come for a while. */
  debounce?: Debounce | null;
  /** The delay of the start. Cannot be combined with delay_until_at. */
  delay_ms?: number | null;
  /** The earliest start. Cannot be combined with delay_ms. */
  delay_until_at?: string | null;
  /** Executions of different keys take turns. */
  fairness_key?: string | null;
  /** An id of the caller's choice, which makes the submission safe to repeat. */
  id?: string | null;
  /** Submitting again with this key returns the existing execution. */
  idempotency_key?: string | null;
  /** The time for which the key is kept; needs an idempotency_key. A server may have another default. */
  idempotency_window_ms?: number | null;
  /** Any JSON value of at most 1 MiB, nested at most 128 deep. Default: null. */
  input?: unknown;
  /** The name of the handler that runs the execution. */
  kind: string;
  /** The lane in which it waits. */
  lane?: string | null;
  /** The name, unique in the flow. */
  name: string;
  /** Higher ones are claimed first. */
  priority?: number | null;
  /** The quotas that limit it. */
  quotas?: string[] | null;
  /** The time for which it is kept after its end. Default: that of the namespace, or 7 days. */
  retention_ms?: number | null;
  /** The retries after failures and interruptions. Without it, those of the server. */
  retry?: Retry | null;
  /** The execution expires unless it starts within this time. */
  start_by_ms?: number | null;
  /** Names and values by which lists and events can be filtered. */
  tags?: Record<string, string> | null;
  /** Submitting again with this key returns the existing execution while it is not terminal. */
  unique_while_active?: string | null;
}

export type Op = CompleteOp | FailOp | ProgressOp | DelayOp | ReleaseOp | CancelledOp | WaitpointOp | SuspendOp | StepOp | FrameOp | UsageOp | SpawnOp;

export type OpResult = {
  /** For usage: the dimensions whose hard limit is reached. */
  breached?: string[];
  delayed_until_at?: string;
  /** For spawn: the execution of each node. */
  executions?: Record<string, string>;
  ok: true;
  /** The state after the operation; null if the execution is deleted. */
  state: "waiting_dependencies" | "waiting" | "delayed" | "active" | "suspended" | "held" | "completed" | "failed" | "cancelled" | "expired" | "skipped" | null;
  /** For suspend and waitpoint: the new waitpoints. */
  waitpoints?: Array<{
    id: string;
    name: string;
    token: string;
  }>;
} | {
  error: Problem;
};

export interface Problem {
  /** The stable code, for programs. */
  code: "invalid_json" | "invalid_cursor" | "tls_required" | "unauthorized" | "invalid_token" | "token_expired" | "token_revoked" | "forbidden" | "cross_origin" | "wrong_host" | "not_found" | "unknown_namespace" | "method_not_allowed" | "request_timeout" | "stale_lease" | "already_terminal" | "wrong_state" | "flow_ended" | "idempotency_mismatch" | "id_taken" | "version_mismatch" | "limit_reached" | "lane_draining" | "superseded" | "cursor_expired" | "cursor_unknown" | "payload_too_large" | "invalid_field" | "unknown_field" | "unknown_node" | "unknown_budget" | "unknown_quota" | "cycle" | "too_many" | "namespace_required" | "rate_limited" | "internal" | "unreadable_row" | "store_unavailable" | "shutting_down" | "overloaded";
  /** This occurrence, for people. May change. */
  detail: string;
  /** For stale_lease: the holder of the current lease. */
  holder?: {
    claimed_at: string;
    epoch: number;
    instance: string;
    lease_id: string;
    worker: string;
  } | null;
  /** For stale_lease: the outcome of the execution. */
  outcome?: "completed" | "failed" | "cancelled" | "expired" | "skipped" | null;
  /** The JSON pointer of the field that is wrong. */
  pointer?: string;
  /** The time after which to repeat the request. */
  retry_after_ms?: number;
  /** For stale_lease: the state of the execution. */
  state?: string;
  /** The HTTP status. */
  status: number;
  /** A short title for people. */
  title: string;
  /** A reference to the explanation of the code. */
  type: string;
}

export interface ProgressOp {
  attempt: number;
  epoch: number;
  execution: string;
  lease_id: string;
  message?: string | null;
  op: "progress";
  /** Makes the operation safe to repeat. */
  op_id?: string | null;
  percent?: number | null;
}

export interface ReleaseOp {
  attempt: number;
  epoch: number;
  execution: string;
  lease_id: string;
  op: "release";
  /** Makes the operation safe to repeat. */
  op_id?: string | null;
}

export interface Retry {
  backoff?: Backoff | null;
  /** The maximum number of retries after interruptions without progress between them: a recorded step, or the end of a wait that has a step. 0: at most one attempt. */
  max_interruptions?: number | null;
  /** The maximum number of retries after failures. */
  max_retries?: number | null;
  retry_on?: Array<"transient" | "permanent" | "infrastructure" | "timeout"> | null;
}

export interface SpawnOp {
  attempt: number;
  /** True: the end of the parent does not cancel the children. */
  detach?: boolean | null;
  edges?: Edge[] | null;
  epoch: number;
  execution: string;
  groups?: Group[] | null;
  lease_id: string;
  nodes?: Node[] | null;
  op: "spawn";
  /** Makes the operation safe to repeat. */
  op_id?: string | null;
}

export interface StepOp {
  attempt: number;
  duration_ms?: number | null;
  epoch: number;
  execution: string;
  kind?: "step" | "sleep" | "wait" | "spawn" | "join" | "race" | null;
  lease_id: string;
  name: string;
  op: "step";
  /** Makes the operation safe to repeat. */
  op_id?: string | null;
  /** Default: null. */
  result?: unknown;
}

export interface SuspendOp {
  attempt: number;
  condition?: Condition | null;
  epoch: number;
  execution: string;
  /** The kind of the step. Default: wait. */
  kind?: "wait" | "sleep" | "join" | null;
  lease_id: string;
  on_timeout?: "fail" | "cancel" | "expire" | "resume" | "escalate" | null;
  op: "suspend";
  /** Makes the operation safe to repeat. */
  op_id?: string | null;
  /** The step that records the end of the wait. */
  step?: string | null;
  timeout_ms?: number | null;
  waitpoints?: Array<string | WaitpointRequest> | null;
  /** Several waits, of which the first that ends resumes the execution; instead of condition. */
  waits?: Wait[] | null;
}

export interface Suspension {
  attempt: number;
  number: number;
  since_at: string;
  waits: Array<{
    /** A resume condition, or a gate that has no room. */
    condition: Record<string, unknown>;
    escalated: boolean;
    on_timeout: "fail" | "cancel" | "expire" | "resume" | "escalate";
    step: string | null;
    timeout_at?: string;
  }>;
}

export interface UsageOp {
  attempt: number;
  budget: string;
  dedup_key?: string | null;
  epoch: number;
  execution: string;
  lease_id: string;
  op: "usage";
  /** Makes the operation safe to repeat. */
  op_id?: string | null;
  usage: Record<string, number>;
}

export interface Wait {
  condition: Condition;
  /** The kind of the step. Default: wait. */
  kind?: "wait" | "sleep" | "join" | null;
  on_timeout?: "fail" | "cancel" | "expire" | "resume" | "escalate" | null;
  /** The step that records the end of the wait. */
  step?: string | null;
  timeout_ms?: number | null;
}

export interface WaitpointOp {
  attempt: number;
  epoch: number;
  execution: string;
  expires_ms?: number | null;
  lease_id: string;
  name: string;
  op: "waitpoint";
  /** Makes the operation safe to repeat. */
  op_id?: string | null;
  /** A question to the holder of the token. */
  prompt?: string | null;
  /** The signals that the token may send. Default: the waitpoint's name. */
  signals?: string[] | null;
  /** The source of signals through its token. */
  source?: string | null;
}

export interface WaitpointRequest {
  expires_ms?: number | null;
  name: string;
  /** A question to the holder of the token. */
  prompt?: string | null;
  /** The signals that the token may send. Default: the waitpoint's name. */
  signals?: string[] | null;
  /** The source of signals through its token. */
  source?: string | null;
}
