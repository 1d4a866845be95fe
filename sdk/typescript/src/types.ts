// The types of the API, in camelCase. Generated from the OpenAPI document by generate-types.mjs.

/** Fields with any JSON of the user. No key inside is renamed. */
export const freeFields: ReadonlySet<string> = new Set([
  "data",
  "document",
  "input",
  "payload",
  "result",
  "steps",
  "upstream",
]);

/** Fields with an object whose keys the user chooses. These keys are not renamed. */
export const mapFields: ReadonlySet<string> = new Set([
  "children",
  "children_outcomes",
  "children_refs",
  "executions",
  "limits",
  "reserve",
  "reserved",
  "result_refs",
  "results",
  "set",
  "spent",
  "step_records",
  "tags",
  "upstream_outcomes",
  "upstream_refs",
  "usage",
]);

export interface Attempt {
  attempt: number;
  endedAt: string | null;
  epoch: number;
  error: Failure | null;
  instance: string;
  leaseId: string;
  /** The end of the attempt, such as completed, failed, timeout or interrupted. */
  outcome: string | null;
  startedAt: string;
  worker: string;
}

export type Backoff = {
  delayMs: number;
  type: "fixed";
} | {
  initialMs?: number | null;
  jitter?: boolean | null;
  maxMs?: number | null;
  multiplier?: number | null;
  type: "exponential";
};

export interface Budget {
  held: number;
  limits: Record<string, {
    hard?: number;
    soft?: number;
  }>;
  /** True if there are more parts than the answer lists. */
  moreParts?: boolean;
  name: string;
  nextResetAt: string | null;
  onHard: "hold" | "suspend" | "fail";
  /** Each part, where the scope is flow or lane. */
  parts?: Array<{
    nextResetAt: string | null;
    part: string | null;
    period: number;
    reserved: Record<string, number>;
    usage: Record<string, number>;
  }>;
  period: number;
  periodMs: number | null;
  reserved: Record<string, number>;
  scope: "namespace" | "flow" | "lane";
  usage: Record<string, number>;
}

export interface BudgetConfig {
  /** The limits by dimension. At hard nothing more starts; at soft there is an event. */
  limits: Record<string, {
    hard?: number | null;
    soft?: number | null;
  }>;
  /** The effect on active executions. Default: hold. */
  onHard?: "hold" | "suspend" | "fail" | null;
  /** The usage is reset at the end of each period. Default: never. */
  periodMs?: number | null;
  /** Default: namespace. */
  scope?: "namespace" | "flow" | "lane" | null;
}

export interface BudgetPatch {
  /** The limits by dimension. At hard nothing more starts; at soft there is an event. */
  limits?: Record<string, {
    hard?: number | null;
    soft?: number | null;
  } | null> | null;
  /** The effect on active executions. Default: hold. */
  onHard?: "hold" | "suspend" | "fail" | null;
  /** The usage is reset at the end of each period. Default: never. */
  periodMs?: number | null;
  /** Default: namespace. */
  scope?: "namespace" | "flow" | "lane" | null;
}

export interface Debounce {
  /** The time without a further submission after which it may start. */
  delayMs: number;
  key: string;
  /** The time from the first submission after which it may start in any case. */
  maxMs?: number | null;
}

export interface Defaults {
  /** The longest time of one attempt. Default: no limit. */
  attemptTimeoutMs?: number | null;
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
  deadlineMs?: number | null;
  /** Waits until no further submission with the key has come for a while. */
  debounce?: Debounce | null;
  /** The delay of the start. Cannot be combined with delay_until_at. */
  delayMs?: number | null;
  /** The earliest start. Cannot be combined with delay_ms. */
  delayUntilAt?: string | null;
  /** Executions of different keys take turns. */
  fairnessKey?: string | null;
  /** An id of the caller's choice, which makes the submission safe to repeat. */
  id?: string | null;
  /** Submitting again with this key returns the existing execution. */
  idempotencyKey?: string | null;
  /** The time for which the key is kept; needs an idempotency_key. A server may have another default. */
  idempotencyWindowMs?: number | null;
  /** Any JSON value of at most 1 MiB, nested at most 128 deep. Default: null. */
  input?: unknown;
  /** The name of the handler that runs the execution. */
  kind?: string | null;
  /** The lane in which it waits. */
  lane?: string | null;
  /** Higher ones are claimed first. */
  priority?: number | null;
  /** The quotas that limit it. */
  quotas?: string[] | null;
  /** The time for which it is kept after its end. Default: that of the namespace, or 7 days. */
  retentionMs?: number | null;
  /** The retries after failures and interruptions. Without it, those of the server. */
  retry?: Retry | null;
  /** The execution expires unless it starts within this time. */
  startByMs?: number | null;
  /** Names and values by which lists and events can be filtered. */
  tags?: Record<string, string> | null;
  /** Submitting again with this key returns the existing execution while it is not terminal. */
  uniqueWhileActive?: string | null;
}

export interface Delivery {
  /** True if the request repeats an earlier one. */
  duplicate: boolean;
  effect: "buffered" | "counted" | "resumed";
  number: number;
  waitpoint: string;
}

export interface Edge {
  /** The name of the upstream. */
  from: string;
  /** The name of the downstream. */
  to: string;
  when?: "success" | "failure" | "failure_or_skipped" | "finished" | null;
}

export interface Event {
  actor: string | null;
  at: string;
  cursor: string;
  /** Fields that depend on the type. */
  data: Record<string, unknown>;
  execution: string | null;
  flow: string | null;
  namespace: string;
  /** Such as execution.completed; later versions may add types. */
  type: string;
  version: number | null;
}

export interface Execution {
  attemptTimeoutMs: number | null;
  /** The number of attempts so far. */
  attempts: number;
  budgets: Array<string | {
    name: string;
    reserve: Record<string, number>;
  }>;
  cancelRequested: boolean;
  cancelUntilAt: string | null;
  capabilities: string[];
  concurrency: {
    key: string;
    limit: number;
  } | null;
  deadlineAt: string | null;
  deadlineMs: number | null;
  debounce: Debounce | null;
  delayedUntilAt: string | null;
  endedAt: string | null;
  error: Failure | null;
  fairnessKey: string | null;
  flowId: string | null;
  /** Raised by every replay. */
  generation: number;
  heldReason: {
    gate: {
      kind: "lane" | "concurrency" | "quota" | "budget" | "fairness_key";
      name: string;
      part: string | null;
    };
    message: string;
    untilAt: string | null;
  } | null;
  id: string;
  idempotencyKey: string | null;
  idempotencyWindowMs: number | null;
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
  readyAt: string | null;
  /** The latest replay. */
  replayedAt: string | null;
  /** Like input; null until it has completed. */
  result?: unknown;
  retentionMs: number;
  retries: number;
  retry: {
    backoff: {
      delayMs: number;
      type: "fixed";
    } | {
      initialMs: number;
      jitter: boolean;
      maxMs: number;
      multiplier: number;
      type: "exponential";
    };
    maxInterruptions: number;
    maxRetries: number;
    retryOn: Array<"transient" | "permanent" | "infrastructure" | "timeout">;
  };
  /** The schedule that submitted it. */
  schedule?: string;
  /** The time of that schedule. */
  scheduledAt?: string;
  startByMs: number | null;
  startedAt: string | null;
  state: "waiting_dependencies" | "waiting" | "delayed" | "active" | "suspended" | "held" | "completed" | "failed" | "cancelled" | "expired" | "skipped";
  submittedAt: string;
  suspension: Suspension | null;
  tags: Record<string, string>;
  uniqueWhileActive: string | null;
  /** Raised by every change; for if_version. */
  version: number;
}

export interface Explanation {
  nextChangeAt: string | null;
  reasons: Array<{
    code: "waiting_for_upstreams" | "upstream_open" | "delayed" | "debounced" | "backoff" | "workers_died" | "suspended" | "suspension_timeout" | "lane_paused" | "lane_counting" | "concurrency_limit" | "rate_limit" | "budget_limit" | "reserve_exceeds_limit" | "holder" | "fairness_turn" | "line_head" | "gate_open" | "no_worker_in_lane" | "no_worker_of_kind" | "no_capable_worker" | "workers_draining" | "waiting_for_worker" | "active" | "cancel_requested" | "attempt_timeout" | "deadline" | "start_by" | "ended" | "failed" | "cancelled" | "expired" | "skipped" | "upstream_ended" | "skip_origin" | "members_open" | "member_open" | "member_failed" | "failure_handled" | "flow_cancelled";
    message: string;
    /** The subject of the reason. */
    ref: {
      id: string;
      type: string;
    } | null;
    untilAt: string | null;
  }>;
  state: string;
}

export interface Failure {
  class: "transient" | "permanent" | "infrastructure" | "timeout";
  message: string;
}

export interface Fence {
  attempt: number;
  epoch: number;
  execution: string;
  leaseId: string;
}

export interface Flow {
  cancel: {
    actor: string | null;
    draining: boolean;
    mode: "all" | "pending";
    reason: string | null;
  } | null;
  /** The number of members in each state. */
  counts: {
    active: number;
    cancelled: number;
    completed: number;
    delayed: number;
    expired: number;
    failed: number;
    held: number;
    skipped: number;
    suspended: number;
    total: number;
    waiting: number;
    waitingDependencies: number;
  };
  deadlineAt: string | null;
  endedAt: string | null;
  id: string;
  idempotencyKey: string | null;
  name: string | null;
  namespace: string;
  retentionMs: number | null;
  /** The schedule that submitted it. */
  schedule?: string;
  /** The time of that schedule. */
  scheduledAt?: string;
  state: "running" | "completed" | "failed" | "cancelled";
  submittedAt: string;
  tags: Record<string, string>;
  version: number;
}

export interface FlowNode {
  /** The longest time of one attempt. Default: no limit. */
  attemptTimeoutMs?: number | null;
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
  deadlineMs?: number | null;
  /** Waits until no further submission with the key has come for a while. */
  debounce?: Debounce | null;
  /** The delay of the start. Cannot be combined with delay_until_at. */
  delayMs?: number | null;
  /** The earliest start. Cannot be combined with delay_ms. */
  delayUntilAt?: string | null;
  /** Executions of different keys take turns. */
  fairnessKey?: string | null;
  /** An id of the caller's choice, which makes the submission safe to repeat. */
  id?: string | null;
  /** Submitting again with this key returns the existing execution. */
  idempotencyKey?: string | null;
  /** The time for which the key is kept; needs an idempotency_key. A server may have another default. */
  idempotencyWindowMs?: number | null;
  /** Any JSON value of at most 1 MiB, nested at most 128 deep. Default: null. */
  input?: unknown;
  /** The name of the handler that runs the execution. */
  kind?: string | null;
  /** The lane in which it waits. */
  lane?: string | null;
  /** The name, unique in the flow. */
  name: string;
  /** Higher ones are claimed first. */
  priority?: number | null;
  /** The quotas that limit it. */
  quotas?: string[] | null;
  /** The time for which it is kept after its end. Default: that of the namespace, or 7 days. */
  retentionMs?: number | null;
  /** The retries after failures and interruptions. Without it, those of the server. */
  retry?: Retry | null;
  /** The execution expires unless it starts within this time. */
  startByMs?: number | null;
  /** Names and values by which lists and events can be filtered. */
  tags?: Record<string, string> | null;
  /** Submitting again with this key returns the existing execution while it is not terminal. */
  uniqueWhileActive?: string | null;
}

export interface FlowResult {
  flow: Flow;
  outcome: "completed" | "failed" | "cancelled" | null;
  /** The nodes whose results are too large for the answer. */
  resultRefs: Record<string, string>;
  /** The ends of the nodes without downstreams, by name. */
  results: Record<string, {
    error: Failure | null;
    outcome: "completed" | "failed" | "cancelled" | "expired" | "skipped" | null;
    result?: unknown;
  }>;
  state: "running" | "completed" | "failed" | "cancelled";
}

export interface FlowSubmission {
  deadlineMs?: number | null;
  /** The values of fields that nodes leave out. */
  defaults?: Defaults | null;
  edges?: Edge[] | null;
  groups?: Group[] | null;
  /** An id of the caller's choice, which makes the call safe to repeat. */
  id?: string | null;
  idempotencyKey?: string | null;
  name?: string | null;
  nodes?: FlowNode[] | null;
  /** The time for which it is kept after its end. Default: that of the namespace, or 7 days. */
  retentionMs?: number | null;
  /** Given to its members too; a member's own tag wins. */
  tags?: Record<string, string> | null;
}

export interface Frame {
  at: string;
  attempt: number;
  correlationId: string | null;
  data?: unknown;
  kind: "stdout" | "stderr" | "event" | "blob";
  mode: "durable" | "best_effort";
  number: number;
}

export interface Graph {
  edges: Array<{
    from: string;
    resolution: "pending" | "holds" | "dead";
    to: string;
    when: "success" | "failure" | "failure_or_skipped" | "finished";
  }>;
  groups: Array<{
    dead: number;
    decision: "pending" | "satisfied" | "impossible";
    holds: number;
    node: string;
    pending: number;
    policy: {
      k?: number;
      onSatisfied?: "cancel_remaining" | "let_run";
      type: "all_of" | "any_of" | "quorum";
    };
  }>;
  nodes: Array<{
    execution: string;
    name: string;
    state: "waiting_dependencies" | "waiting" | "delayed" | "active" | "suspended" | "held" | "completed" | "failed" | "cancelled" | "expired" | "skipped";
  }>;
  spawned: Array<{
    child: string;
    parent: string;
  }>;
}

export interface Group {
  /** The downstream whose upstreams the policy is about. */
  node: string;
  policy: JoinPolicy;
}

export interface GrownFlow {
  /** True if the request repeats an earlier one. */
  duplicate: boolean;
  /** The execution of each node, by the node's name. */
  executions: Record<string, string>;
  flow: Flow;
}

export type JoinPolicy = {
  type: "all_of";
} | {
  onSatisfied?: "cancel_remaining" | "let_run" | null;
  type: "any_of";
} | {
  k: number;
  onSatisfied?: "cancel_remaining" | "let_run" | null;
  type: "quorum";
};

export interface Lane {
  active: number;
  concurrency: number | null;
  /** False if the lane has the defaults. */
  configured: boolean;
  name: string;
  rate: {
    count: number;
    windowMs: number;
  } | null;
  /** The delay until a full window admits the next start. */
  retryAfterMs: number | null;
  state: "active" | "paused" | "draining";
  waiting: number;
  weight: number;
}

export interface LaneConfig {
  /** The maximum number of active executions. */
  concurrency?: number | null;
  /** The maximum number of starts in a sliding window. */
  rate?: {
    count: number;
    windowMs: number;
  } | null;
  /** Default: active. */
  state?: "active" | "paused" | "draining" | null;
  /** The share of the lane in claims from several lanes. Default: 1. */
  weight?: number | null;
}

export interface LanePatch {
  /** The maximum number of active executions. */
  concurrency?: number | null;
  /** The maximum number of starts in a sliding window. */
  rate?: {
    count?: number | null;
    windowMs?: number | null;
  } | null;
  /** Default: active. */
  state?: "active" | "paused" | "draining" | null;
  /** The share of the lane in claims from several lanes. Default: 1. */
  weight?: number | null;
}

export interface Lease {
  claimedAt: string;
  epoch: number;
  expiresAt: string | null;
  id: string;
  instance: string;
  ttlMs: number;
  worker: string;
}

export interface Node {
  /** The longest time of one attempt. Default: no limit. */
  attemptTimeoutMs?: number | null;
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
  deadlineMs?: number | null;
  /** Waits until no further submission with the key has come for a while. */
  debounce?: Debounce | null;
  /** The delay of the start. Cannot be combined with delay_until_at. */
  delayMs?: number | null;
  /** The earliest start. Cannot be combined with delay_ms. */
  delayUntilAt?: string | null;
  /** Executions of different keys take turns. */
  fairnessKey?: string | null;
  /** An id of the caller's choice, which makes the submission safe to repeat. */
  id?: string | null;
  /** Submitting again with this key returns the existing execution. */
  idempotencyKey?: string | null;
  /** The time for which the key is kept; needs an idempotency_key. A server may have another default. */
  idempotencyWindowMs?: number | null;
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
  retentionMs?: number | null;
  /** The retries after failures and interruptions. Without it, those of the server. */
  retry?: Retry | null;
  /** The execution expires unless it starts within this time. */
  startByMs?: number | null;
  /** Names and values by which lists and events can be filtered. */
  tags?: Record<string, string> | null;
  /** Submitting again with this key returns the existing execution while it is not terminal. */
  uniqueWhileActive?: string | null;
}

export interface Problem {
  /** The stable code, for programs. */
  code: "invalid_json" | "invalid_cursor" | "tls_required" | "unauthorized" | "invalid_token" | "token_expired" | "token_revoked" | "forbidden" | "cross_origin" | "wrong_host" | "not_found" | "unknown_namespace" | "method_not_allowed" | "request_timeout" | "stale_lease" | "already_terminal" | "wrong_state" | "flow_ended" | "idempotency_mismatch" | "id_taken" | "version_mismatch" | "limit_reached" | "lane_draining" | "superseded" | "cursor_expired" | "cursor_unknown" | "payload_too_large" | "invalid_field" | "unknown_field" | "unknown_node" | "unknown_budget" | "unknown_quota" | "cycle" | "too_many" | "namespace_required" | "rate_limited" | "internal" | "unreadable_row" | "store_unavailable" | "shutting_down" | "overloaded";
  /** This occurrence, for people. May change. */
  detail: string;
  /** For stale_lease: the holder of the current lease. */
  holder?: {
    claimedAt: string;
    epoch: number;
    instance: string;
    leaseId: string;
    worker: string;
  } | null;
  /** For stale_lease: the outcome of the execution. */
  outcome?: "completed" | "failed" | "cancelled" | "expired" | "skipped" | null;
  /** The JSON pointer of the field that is wrong. */
  pointer?: string;
  /** The time after which to repeat the request. */
  retryAfterMs?: number;
  /** For stale_lease: the state of the execution. */
  state?: string;
  /** The HTTP status. */
  status: number;
  /** A short title for people. */
  title: string;
  /** A reference to the explanation of the code. */
  type: string;
}

export interface Quota {
  active: number;
  concurrency: number | null;
  held: number;
  name: string;
  rate: {
    count: number;
    windowMs: number;
  } | null;
  /** The delay until a full window admits the next start. */
  retryAfterMs: number | null;
}

export interface QuotaConfig {
  /** The maximum number of active executions. */
  concurrency?: number | null;
  /** The maximum number of starts in a sliding window. */
  rate?: {
    count: number;
    windowMs: number;
  } | null;
}

export interface QuotaPatch {
  /** The maximum number of active executions. */
  concurrency?: number | null;
  /** The maximum number of starts in a sliding window. */
  rate?: {
    count?: number | null;
    windowMs?: number | null;
  } | null;
}

export interface Relative {
  error: Failure | null;
  execution: string;
  node: string | null;
  outcome: "completed" | "failed" | "cancelled" | "expired" | "skipped" | null;
  result?: unknown;
}

export interface Retry {
  backoff?: Backoff | null;
  /** The maximum number of retries after interruptions without progress between them: a recorded step, or the end of a wait that has a step. 0: at most one attempt. */
  maxInterruptions?: number | null;
  /** The maximum number of retries after failures. */
  maxRetries?: number | null;
  retryOn?: Array<"transient" | "permanent" | "infrastructure" | "timeout"> | null;
}

export interface Schedule {
  catchUp: "none" | "one" | "all";
  createdAt: string;
  cron: string | null;
  /** The number of runs that started. */
  fired: number;
  intervalMs: number | null;
  jitterMs: number;
  /** The last time that was decided. */
  lastScheduledAt: string | null;
  name: string;
  /** The next time that is not decided yet, without jitter. */
  nextAt: string | null;
  overlap: "allow" | "skip" | "queue";
  paused: boolean;
  /** The number of times that wait for the end of a run. */
  queued: number;
  /** The number of times whose submission was refused. */
  refused: number;
  /** The number of times for which none started. */
  skipped: number;
  /** As it was saved. */
  submit?: unknown;
  timeZone: string | null;
  /** Raised by every change. */
  version: number;
}

export interface SchedulePatch {
  /** The reaction to times that were missed by more than a minute. */
  catchUp?: "none" | "one" | "all" | null;
  /** Five fields: minute, hour, day of month, month, day of week. Not with interval_ms. */
  cron?: string | null;
  /** The elapsed time between two runs. Not with cron. */
  intervalMs?: number | null;
  /** The longest delay of a run; always less than the time until the next one. */
  jitterMs?: number | null;
  /** The reaction if a run still lives. */
  overlap?: "allow" | "skip" | "queue" | null;
  /** True if no time fires. */
  paused?: boolean | null;
  /** The execution or the flow to submit, without an id and an idempotency key. */
  submit?: Record<string, unknown> | null;
  /** The name of a zone in the IANA database; only with cron. */
  timeZone?: string | null;
}

export interface ScheduleRun {
  decidedAt: string;
  /** The refusal. */
  error: {
    code: string;
    detail: string;
  } | null;
  execution: string | null;
  flow: string | null;
  /** True if a caller asked for it. */
  manual: boolean;
  outcome: string | null;
  result: "started" | "skipped" | "refused";
  scheduledAt: string;
  /** The state of the execution or flow; null if it was deleted. */
  state: string | null;
}

export interface ScheduleSpec {
  /** The reaction to times that were missed by more than a minute. */
  catchUp?: "none" | "one" | "all" | null;
  /** Five fields: minute, hour, day of month, month, day of week. Not with interval_ms. */
  cron?: string | null;
  /** The elapsed time between two runs. Not with cron. */
  intervalMs?: number | null;
  /** The longest delay of a run; always less than the time until the next one. */
  jitterMs?: number | null;
  /** The reaction if a run still lives. */
  overlap?: "allow" | "skip" | "queue" | null;
  /** True if no time fires. */
  paused?: boolean | null;
  /** The execution or the flow to submit, without an id and an idempotency key. */
  submit: {
    execution?: Submission | null;
    flow?: FlowSubmission | null;
  };
  /** The name of a zone in the IANA database; only with cron. */
  timeZone?: string | null;
}

export interface Signal {
  deliveredAt: string;
  effect: "buffered" | "counted" | "resumed";
  idempotencyKey: string | null;
  name: string;
  number: number;
  payload?: unknown;
  source: string;
  /** The number of the suspension that took it. */
  takenBy: number | null;
  waitpoint: string | null;
  waitpointId: string | null;
}

export interface Spent {
  budget: string | null;
  part: string | null;
  period: number;
  spent: Record<string, number>;
}

export interface Step {
  attempt: number;
  durationMs: number | null;
  kind: "step" | "sleep" | "wait" | "spawn" | "join" | "race";
  name: string;
  number: number;
  recordedAt: string | null;
  result?: unknown;
  startedAt: string;
  state: "recorded" | "open";
}

export interface Submission {
  /** The longest time of one attempt. Default: no limit. */
  attemptTimeoutMs?: number | null;
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
  deadlineMs?: number | null;
  /** Waits until no further submission with the key has come for a while. */
  debounce?: Debounce | null;
  /** The delay of the start. Cannot be combined with delay_until_at. */
  delayMs?: number | null;
  /** The earliest start. Cannot be combined with delay_ms. */
  delayUntilAt?: string | null;
  /** Executions of different keys take turns. */
  fairnessKey?: string | null;
  /** An id of the caller's choice, which makes the submission safe to repeat. */
  id?: string | null;
  /** Submitting again with this key returns the existing execution. */
  idempotencyKey?: string | null;
  /** The time for which the key is kept; needs an idempotency_key. A server may have another default. */
  idempotencyWindowMs?: number | null;
  /** Any JSON value of at most 1 MiB, nested at most 128 deep. Default: null. */
  input?: unknown;
  /** The name of the handler that runs the execution. */
  kind: string;
  /** The lane in which it waits. */
  lane?: string | null;
  /** Higher ones are claimed first. */
  priority?: number | null;
  /** The quotas that limit it. */
  quotas?: string[] | null;
  /** The time for which it is kept after its end. Default: that of the namespace, or 7 days. */
  retentionMs?: number | null;
  /** The retries after failures and interruptions. Without it, those of the server. */
  retry?: Retry | null;
  /** The execution expires unless it starts within this time. */
  startByMs?: number | null;
  /** Names and values by which lists and events can be filtered. */
  tags?: Record<string, string> | null;
  /** Submitting again with this key returns the existing execution while it is not terminal. */
  uniqueWhileActive?: string | null;
}

export interface Suspension {
  attempt: number;
  number: number;
  sinceAt: string;
  waits: Array<{
    /** A resume condition, or a gate that has no room. */
    condition: Record<string, unknown>;
    escalated: boolean;
    onTimeout: "fail" | "cancel" | "expire" | "resume" | "escalate";
    step: string | null;
    timeoutAt?: string;
  }>;
}

export interface Waitpoint {
  createdAt: string;
  execution: string;
  expiresAt: string | null;
  id: string;
  name: string;
  prompt: string | null;
  /** The number of the signal that was delivered. */
  signal: number | null;
  signals: string[];
  source: string | null;
  state: "open" | "delivered" | "expired" | "revoked";
}

export interface Worker {
  capabilities?: string[];
  draining: boolean;
  endedAt: string | null;
  endedReason: "deleted" | "expired" | "superseded" | null;
  incarnation?: string | null;
  instance?: string;
  kinds?: string[] | null;
  lanes?: string[];
  live: boolean;
  seenAt: string;
  sessions: Array<{
    draining: boolean;
    leaseTtlMs: number;
    registeredAt: string;
    renewedAt: string | null;
    seenAt: string;
  }>;
  superseded: Array<{
    endedAt: string;
    incarnation: string;
  }>;
  worker?: string;
}

export interface GetAboutPageQuery {
  /** The part of the page. Default: about. */
  show?: "about" | "keys" | "waitpoint-keys" | "namespaces" | "configuration";
}

export interface GetApprovalsPageQuery {
  /** The place of the page in the list. */
  cursor?: string;
  /** The state. Default: open. */
  state?: "open" | "delivered" | "expired" | "revoked";
  /** Who is asked. */
  source?: string;
}

export interface GetBudgetsPageQuery {
  /** The place of the page in the list. */
  cursor?: string;
}

export interface GetEventsPageQuery {
  /** The types, with commas. */
  types?: string;
  /** The execution. */
  execution?: string;
  /** The flow. */
  flow?: string;
  /** A tag, name:value. */
  tag?: string;
}

export interface GetExecutionsPageQuery {
  /** The place of the page in the list. */
  cursor?: string;
  /** The states, with commas. */
  state?: string;
  /** The lane. */
  lane?: string;
  /** The kind. */
  kind?: string;
  /** The outcome. */
  outcome?: string;
  /** The flow. */
  flow?: string;
  /** The worker of the latest attempt. */
  worker?: string;
  /** Text of the latest error. */
  error?: string;
  /** The time of submission: 15m, 1h, 24h or 7d. */
  since?: string;
  /** The earliest submission. */
  submittedAfter?: string;
  /** The latest submission. */
  submittedBefore?: string;
  /** The earliest end. */
  endedAfter?: string;
  /** The latest end. */
  endedBefore?: string;
  /** A tag, name:value. */
  tag?: string;
  /** The cursors of the pages before, for the link back. */
  trail?: string;
}

export interface GetFlowsPageQuery {
  /** The place of the page in the list. */
  cursor?: string;
  /** The states, with commas. */
  state?: string;
  /** The name. */
  name?: string;
  /** A tag, name:value. */
  tag?: string;
  /** The earliest submission. */
  submittedAfter?: string;
  /** The latest submission. */
  submittedBefore?: string;
}

export interface GetFlowPageQuery {
  /** The view. Default: graph. */
  view?: "graph" | "gantt" | "table";
  /** The moment to show: a time, or the cursor of an event. Default: now. */
  at?: string;
  /** The number of the change to show, from 0; redirects to its moment. */
  step?: number;
  /** The first node of a box of alike nodes to draw one by one; may be repeated. */
  expand?: string;
}

export interface GetHealthAnswer {
  status: string;
  version: string;
}

export interface GetLanesPageQuery {
  /** The place of the page in the list. */
  cursor?: string;
  /** The place of the page in the list of quotas. */
  quotaCursor?: string;
}

export interface FollowPageQuery {
  /** Only changes of this execution. */
  execution?: string;
  /** Only changes of this flow. */
  flow?: string;
}

export interface GetLoginPageQuery {
  /** The page to go to. */
  next?: string;
}

export type GetOpenapiAnswer = Record<string, unknown>;

export interface GetReadinessAnswer {
  /** The milliseconds by which the clock of the store's database is behind the time of the store, after it stepped back; else 0. Leases, delays and schedules go on by the time of the store. */
  clockBehindMs: number;
  status: string;
  store: string;
  /** The number of namespaces whose background work no server does; null if it cannot be read. */
  uncoveredNamespaces: number | null;
}

export interface GetSchedulesPageQuery {
  /** The place of the page in the list. */
  cursor?: string;
}

export interface GetSettingsPageQuery {
  /** The part of the page. Default: about. */
  show?: "about" | "keys" | "waitpoint-keys" | "namespaces" | "configuration";
}

export interface ListKeysQuery {
  /** The maximum number of items of the page. */
  limit?: number;
  /** The next_cursor of the page before, unchanged. */
  cursor?: string;
}

export interface ListKeysAnswer {
  items: Array<{
    createdAt: string;
    expiresAt: string | null;
    id: string;
    lastUsedAt: string | null;
    name: string;
    namespaces: string[];
    revokedAt: string | null;
    role: "reader" | "submitter" | "worker" | "operator" | "admin";
  }>;
  /** The cursor of the next page; null at the end of the list. */
  nextCursor: string | null;
}

export interface CreateKeyRequest {
  expiresAt?: string | null;
  /** The name of the key, which is the actor of what it does. */
  name: string;
  /** The namespaces of the key; * for all of them. */
  namespaces: string[];
  role: "reader" | "submitter" | "worker" | "operator" | "admin";
}

export interface CreateKeyAnswer {
  createdAt: string;
  /** True if the request repeats an earlier one. */
  duplicate: boolean;
  expiresAt: string | null;
  id: string;
  /** The key, this once; null if the request repeats an earlier one. */
  key: string | null;
  lastUsedAt: string | null;
  name: string;
  namespaces: string[];
  revokedAt: string | null;
  role: "reader" | "submitter" | "worker" | "operator" | "admin";
}

export interface RevokeKeyAnswer {
  createdAt: string;
  expiresAt: string | null;
  id: string;
  lastUsedAt: string | null;
  name: string;
  namespaces: string[];
  revokedAt: string | null;
  role: "reader" | "submitter" | "worker" | "operator" | "admin";
}

export interface ListNamespacesQuery {
  /** The maximum number of items of the page. */
  limit?: number;
  /** The next_cursor of the page before, unchanged. */
  cursor?: string;
}

export interface ListNamespacesAnswer {
  items: Array<{
    /** True while a bulk job deletes it. */
    deleting: boolean;
    name: string;
    retentionMs: number | null;
    suspensionTimeoutMs: number | null;
    weight: number;
  }>;
  /** The cursor of the next page; null at the end of the list. */
  nextCursor: string | null;
}

export interface DeleteNamespaceAnswer {
  /** The action as it was given; a delay has become a time. */
  action: Record<string, unknown>;
  actor: string;
  createdAt: string;
  /** Those that the action changed. */
  done: number;
  endedAt: string | null;
  /** The filter as it was given; empty for all: true. */
  filter: Record<string, unknown>;
  id: string;
  /** The executions met so far. */
  matched: number;
  /** The time of submission of the execution met last. */
  positionAt: string | null;
  /** The first 100 executions that refused the action. */
  refused: Array<{
    code: string;
    id: string;
  }>;
  /** Those that refused the action. */
  refusedCount: number;
  state: "running" | "completed" | "stopped";
  /** Those that needed no change. */
  unchanged: number;
}

export interface GetNamespaceAnswer {
  /** True while a bulk job deletes it. */
  deleting: boolean;
  name: string;
  retentionMs: number | null;
  suspensionTimeoutMs: number | null;
  weight: number;
}

export interface PutNamespaceRequest {
  /** The retention of executions that give none. */
  retentionMs?: number | null;
  /** The timeout of suspensions that give none. */
  suspensionTimeoutMs?: number | null;
  /** The share of the namespace in claims from several. Default: 1. */
  weight?: number | null;
}

export interface PutNamespaceAnswer {
  /** True while a bulk job deletes it. */
  deleting: boolean;
  name: string;
  retentionMs: number | null;
  suspensionTimeoutMs: number | null;
  weight: number;
}

export interface ListWaitpointKeysAnswer {
  items: Array<{
    createdAt: string;
    expiresAt: string | null;
    keyId: string;
  }>;
  /** The cursor of the next page; null at the end of the list. */
  nextCursor: string | null;
}

export interface RotateWaitpointKeysRequest {
  /** The time for which tokens of the old key stay valid. */
  graceMs: number;
}

export interface RotateWaitpointKeysAnswer {
  /** True if the request repeats an earlier one. */
  duplicate: boolean;
  graceMs: number;
  keyId: string;
}

export interface ListBudgetsQuery {
  /** The maximum number of items of the page. */
  limit?: number;
  /** The next_cursor of the page before, unchanged. */
  cursor?: string;
}

export interface ListBudgetsAnswer {
  items: Budget[];
  /** The cursor of the next page; null at the end of the list. */
  nextCursor: string | null;
}

export interface RemoveBudgetAnswer {
  name: string;
  removed: boolean;
}

export interface ResetBudgetRequest {

}

export interface ResetBudgetAnswer {
  budget: Budget;
  /** True if the request repeats an earlier one. */
  duplicate: boolean;
}

export interface ReportUsageRequest {
  /** Default: the header Idempotency-Key. */
  dedupKey?: string | null;
  /** The execution that used it. */
  execution?: string | null;
  usage: Record<string, number>;
}

export interface ReportUsageAnswer {
  /** The dimensions whose hard limit is reached. */
  breached: string[];
  budget: Budget;
  /** True if the request repeats an earlier one. */
  duplicate: boolean;
}

export interface ListBulkJobsQuery {
  /** The maximum number of items of the page. */
  limit?: number;
  /** The next_cursor of the page before, unchanged. */
  cursor?: string;
}

export interface ListBulkJobsAnswer {
  items: Array<{
    /** The action as it was given; a delay has become a time. */
    action: Record<string, unknown>;
    actor: string;
    createdAt: string;
    /** Those that the action changed. */
    done: number;
    endedAt: string | null;
    /** The filter as it was given; empty for all: true. */
    filter: Record<string, unknown>;
    id: string;
    /** The executions met so far. */
    matched: number;
    /** The time of submission of the execution met last. */
    positionAt: string | null;
    /** The first 100 executions that refused the action. */
    refused: Array<{
      code: string;
      id: string;
    }>;
    /** Those that refused the action. */
    refusedCount: number;
    state: "running" | "completed" | "stopped";
    /** Those that needed no change. */
    unchanged: number;
  }>;
  /** The cursor of the next page; null at the end of the list. */
  nextCursor: string | null;
}

export interface StartBulkJobRequest {
  action: {
    graceMs?: number | null;
    reason?: string | null;
    type: "cancel";
  } | {
    type: "replay";
  } | {
    priority: number;
    type: "priority";
  } | {
    /** Give until_at or delay_ms. */
    delayMs?: number | null;
    type: "reschedule";
    /** Give until_at or delay_ms. */
    untilAt?: string | null;
  } | {
    remove?: string[] | null;
    set?: Record<string, string> | null;
    type: "tags";
  };
  /** True for every execution of the namespace. */
  all?: boolean | null;
  /** The filters of the list of executions. At least one must be given. */
  filter?: {
    /** The earliest end. */
    endedAfter?: string | null;
    /** The time before which the end lies. */
    endedBefore?: string | null;
    /** Text in the latest error; needs submitted_after or ended_after. */
    error?: string | null;
    /** The flow. */
    flow?: string | null;
    /** The kind. */
    kind?: string | null;
    /** The lane. */
    lane?: string | null;
    /** The outcome. */
    outcome?: "completed" | "failed" | "cancelled" | "expired" | "skipped" | null;
    /** The states, separated by commas. */
    state?: string | null;
    /** The earliest submission. */
    submittedAfter?: string | null;
    /** The time before which the submission lies. */
    submittedBefore?: string | null;
    /** Tags, each written name:value. All must match. */
    tag?: string[] | null;
    /** The name or instance of the worker of the latest attempt. */
    worker?: string | null;
  } | null;
}

export interface StartBulkJobAnswer {
  /** The action as it was given; a delay has become a time. */
  action: Record<string, unknown>;
  actor: string;
  createdAt: string;
  /** Those that the action changed. */
  done: number;
  /** True if the request repeats an earlier one. */
  duplicate: boolean;
  endedAt: string | null;
  /** The filter as it was given; empty for all: true. */
  filter: Record<string, unknown>;
  id: string;
  /** The executions met so far. */
  matched: number;
  /** The time of submission of the execution met last. */
  positionAt: string | null;
  /** The first 100 executions that refused the action. */
  refused: Array<{
    code: string;
    id: string;
  }>;
  /** Those that refused the action. */
  refusedCount: number;
  state: "running" | "completed" | "stopped";
  /** Those that needed no change. */
  unchanged: number;
}

export interface StopBulkJobAnswer {
  /** The action as it was given; a delay has become a time. */
  action: Record<string, unknown>;
  actor: string;
  createdAt: string;
  /** Those that the action changed. */
  done: number;
  endedAt: string | null;
  /** The filter as it was given; empty for all: true. */
  filter: Record<string, unknown>;
  id: string;
  /** The executions met so far. */
  matched: number;
  /** The time of submission of the execution met last. */
  positionAt: string | null;
  /** The first 100 executions that refused the action. */
  refused: Array<{
    code: string;
    id: string;
  }>;
  /** Those that refused the action. */
  refusedCount: number;
  state: "running" | "completed" | "stopped";
  /** Those that needed no change. */
  unchanged: number;
}

export interface GetBulkJobAnswer {
  /** The action as it was given; a delay has become a time. */
  action: Record<string, unknown>;
  actor: string;
  createdAt: string;
  /** Those that the action changed. */
  done: number;
  endedAt: string | null;
  /** The filter as it was given; empty for all: true. */
  filter: Record<string, unknown>;
  id: string;
  /** The executions met so far. */
  matched: number;
  /** The time of submission of the execution met last. */
  positionAt: string | null;
  /** The first 100 executions that refused the action. */
  refused: Array<{
    code: string;
    id: string;
  }>;
  /** Those that refused the action. */
  refusedCount: number;
  state: "running" | "completed" | "stopped";
  /** Those that needed no change. */
  unchanged: number;
}

export interface GetClockAnswer {
  /** True if the clock moves only when it is advanced. */
  manual: boolean;
  nowAt: string;
}

export interface AdvanceClockRequest {
  /** The time to advance by. */
  byMs: number;
  /** The longest real time to wait at each step until no execution is active. Default: 5000. */
  runningMs?: number | null;
}

export interface AdvanceClockAnswer {
  /** True if the request repeats an earlier one. */
  duplicate: boolean;
  nowAt: string;
  /** False if the call took too long: advance by the rest. */
  reached: boolean;
}

export interface ListEventsQuery {
  /** The cursor after which to begin. */
  after?: string;
  /** Where to begin: a time, now, or beginning. Not with after. */
  from?: string | "now" | "beginning";
  /** The types of events. Default: all. */
  types?: Array<"execution.submitted" | "execution.ready" | "execution.started" | "execution.completed" | "execution.failed" | "execution.cancelled" | "execution.expired" | "execution.skipped" | "execution.retry_scheduled" | "execution.delayed" | "execution.debounced" | "execution.cancel_requested" | "execution.progressed" | "execution.replayed" | "execution.reopened" | "execution.wired" | "execution.suspended" | "execution.resumed" | "execution.noticed" | "execution.escalated" | "signal.delivered" | "waitpoint.created" | "waitpoint.expired" | "waitpoint.revoked" | "waitpoint.reissued" | "step.recorded" | "operator.token_keys_rotated" | "key.created" | "key.revoked" | "operator.bulk_job_started" | "operator.bulk_job_ended" | "webhook.created" | "webhook.changed" | "webhook.deleted" | "webhook.secret_rotated" | "webhook.paused" | "webhook.missed" | "operator.schedule_saved" | "operator.schedule_deleted" | "schedule.fired" | "schedule.skipped" | "schedule.refused" | "inbox.refused" | "execution.held" | "execution.released" | "execution.adopted" | "operator.gate_configured" | "operator.gate_removed" | "budget.used" | "budget.soft_breach" | "budget.hard_breach" | "budget.reset" | "attempt.ended" | "lease.acquired" | "lease.renewed" | "lease.expired" | "lease.reclaimed" | "lease.revoked" | "lease.orphaned" | "lease.released" | "operator.rescheduled" | "operator.prioritised" | "operator.tagged" | "operator.drain_requested" | "edge.resolved" | "group.decided" | "flow.submitted" | "flow.grown" | "flow.completed" | "flow.failed" | "flow.cancelled" | "flow.reopened" | "flow.cancel_requested">;
  /** Only events of this execution. */
  execution?: string;
  /** Only events of this flow. */
  flow?: string;
  /** Only events of executions with this tag, written name:value. */
  tag?: string;
  /** The maximum number of events of the page. */
  limit?: number;
}

export interface ListEventsAnswer {
  items: Event[];
  /** Null at the current end of the log. */
  nextCursor: string | null;
  /** The position after the page, from which to continue later. */
  resumeCursor: string | null;
}

export interface ListExecutionsQuery {
  /** The lane. */
  lane?: string;
  /** The kind. */
  kind?: string;
  /** The states, separated by commas. */
  state?: Array<"waiting_dependencies" | "waiting" | "delayed" | "active" | "suspended" | "held" | "completed" | "failed" | "cancelled" | "expired" | "skipped">;
  /** The outcome. */
  outcome?: "completed" | "failed" | "cancelled" | "expired" | "skipped";
  /** The flow. */
  flow?: string;
  /** The name or instance of the worker of the latest attempt. */
  worker?: string;
  /** Tags, each written name:value. All must match. */
  tag?: string[];
  /** Text in the latest error; needs submitted_after or ended_after. */
  error?: string;
  /** The earliest submission. */
  submittedAfter?: string;
  /** The time before which the submission lies. */
  submittedBefore?: string;
  /** The earliest end. */
  endedAfter?: string;
  /** The time before which the end lies. */
  endedBefore?: string;
  /** The fields that items leave out unless they are named here. */
  include?: Array<"input" | "result" | "progress">;
  /** The maximum number of items of the page. */
  limit?: number;
  /** The next_cursor of the page before, unchanged. */
  cursor?: string;
}

export interface ListExecutionsAnswer {
  items: Execution[];
  /** The cursor of the next page; null at the end of the list. */
  nextCursor: string | null;
}

export interface SubmitExecutionAnswer {
  /** The input of an execution that waits for quiet was replaced. */
  debounced?: boolean;
  /** True if the request repeats an earlier one. */
  duplicate: boolean;
  execution: Execution;
}

export interface SubmitExecutionsRequest {
  executions: Submission[];
}

export interface SubmitExecutionsAnswer {
  results: Array<{
    /** The input of an execution that waits for quiet was replaced. */
    debounced?: boolean;
    /** True if the request repeats an earlier one. */
    duplicate: boolean;
    execution: Execution;
  } | {
    error: Problem;
  }>;
}

export interface ActOnExecutionsRequest {
  action: {
    graceMs?: number | null;
    reason?: string | null;
    type: "cancel";
  } | {
    type: "replay";
  } | {
    priority: number;
    type: "priority";
  } | {
    /** Give until_at or delay_ms. */
    delayMs?: number | null;
    type: "reschedule";
    /** Give until_at or delay_ms. */
    untilAt?: string | null;
  } | {
    remove?: string[] | null;
    set?: Record<string, string> | null;
    type: "tags";
  };
  /** True for every execution of the namespace. */
  all?: boolean | null;
  /** True to see what the action would change. */
  dryRun?: boolean | null;
  /** The filters of the list of executions. At least one must be given. */
  filter?: {
    /** The earliest end. */
    endedAfter?: string | null;
    /** The time before which the end lies. */
    endedBefore?: string | null;
    /** Text in the latest error; needs submitted_after or ended_after. */
    error?: string | null;
    /** The flow. */
    flow?: string | null;
    /** The kind. */
    kind?: string | null;
    /** The lane. */
    lane?: string | null;
    /** The outcome. */
    outcome?: "completed" | "failed" | "cancelled" | "expired" | "skipped" | null;
    /** The states, separated by commas. */
    state?: string | null;
    /** The earliest submission. */
    submittedAfter?: string | null;
    /** The time before which the submission lies. */
    submittedBefore?: string | null;
    /** Tags, each written name:value. All must match. */
    tag?: string[] | null;
    /** The name or instance of the worker of the latest attempt. */
    worker?: string | null;
  } | null;
  /** Give ids, filter or all. */
  ids?: string[] | null;
}

export interface ActOnExecutionsAnswer {
  done?: number;
  /** True if the request repeats an earlier one. */
  duplicate: boolean;
  /** The changed executions. */
  ids: string[];
  matched: number;
  notFound: string[];
  refused: Array<{
    code: string;
    detail: string;
    id: string;
  }>;
  unchanged: number;
  /** Instead of done in a dry run. */
  wouldChange?: number;
}

export interface ListAttemptsQuery {
  /** The maximum number of items of the page. */
  limit?: number;
  /** The next_cursor of the page before, unchanged. */
  cursor?: string;
}

export interface ListAttemptsAnswer {
  items: Attempt[];
  /** The cursor of the next page; null at the end of the list. */
  nextCursor: string | null;
}

export interface CancelExecutionRequest {
  graceMs?: number | null;
  /** Acts only if the execution has this version. */
  ifVersion?: number | null;
  reason?: string | null;
}

export interface CancelExecutionAnswer {
  /** True if the request repeats an earlier one. */
  duplicate: boolean;
  execution: Execution;
}

export interface ListChildrenQuery {
  /** The maximum number of items of the page. */
  limit?: number;
  /** The next_cursor of the page before, unchanged. */
  cursor?: string;
}

export interface ListChildrenAnswer {
  items: Relative[];
  /** The cursor of the next page; null at the end of the list. */
  nextCursor: string | null;
}

export interface ListExecutionEventsQuery {
  /** The maximum number of items of the page. */
  limit?: number;
  /** The next_cursor of the page before, unchanged. */
  cursor?: string;
}

export interface ListExecutionEventsAnswer {
  items: Event[];
  /** The cursor of the next page; null at the end of the list. */
  nextCursor: string | null;
}

export interface PrioritiseExecutionRequest {
  /** Acts only if the execution has this version. */
  ifVersion?: number | null;
  priority: number;
}

export interface PrioritiseExecutionAnswer {
  /** True if the request repeats an earlier one. */
  duplicate: boolean;
  execution: Execution;
}

export interface ReplayExecutionRequest {
  /** True to see what a replay would reopen. */
  dryRun?: boolean | null;
  /** Acts only if the execution has this version. */
  ifVersion?: number | null;
}

export interface ReplayExecutionAnswer {
  dryRun?: boolean;
  /** True if the request repeats an earlier one. */
  duplicate?: boolean;
  execution: Execution;
  /** For a dry run: the executions that would reopen. */
  wouldReopen?: string[];
}

export interface RescheduleExecutionRequest {
  /** Give until_at or delay_ms. */
  delayMs?: number | null;
  /** Acts only if the execution has this version. */
  ifVersion?: number | null;
  /** Give until_at or delay_ms. */
  untilAt?: string | null;
}

export interface RescheduleExecutionAnswer {
  /** True if the request repeats an earlier one. */
  duplicate: boolean;
  execution: Execution;
}

export interface GetExecutionResultQuery {
  /** The longest wait for the end. */
  waitMs?: number;
}

export interface GetExecutionResultAnswer {
  error: Failure | null;
  outcome: "completed" | "failed" | "cancelled" | "expired" | "skipped" | null;
  result?: unknown;
}

export interface ResumeExecutionRequest {
  /** Acts only if the execution has this version. */
  ifVersion?: number | null;
}

export interface ResumeExecutionAnswer {
  /** True if the request repeats an earlier one. */
  duplicate: boolean;
  execution: Execution;
}

export interface RevokeLeaseRequest {
  /** Acts only if the execution has this version. */
  ifVersion?: number | null;
  reason?: string | null;
}

export interface RevokeLeaseAnswer {
  /** True if the request repeats an earlier one. */
  duplicate: boolean;
  execution: Execution;
}

export interface ListSignalsQuery {
  /** The maximum number of items of the page. */
  limit?: number;
  /** The next_cursor of the page before, unchanged. */
  cursor?: string;
}

export interface ListSignalsAnswer {
  items: Signal[];
  /** The cursor of the next page; null at the end of the list. */
  nextCursor: string | null;
}

export interface SendSignalRequest {
  /** Default: the header Idempotency-Key. */
  idempotencyKey?: string | null;
  name: string;
  /** Any JSON value of at most 256 KiB. Default: null. */
  payload?: unknown;
  /** The source, which only operators may name. */
  source?: string | null;
}

export interface SendSignalAnswer {
  /** True if the request repeats an earlier one. */
  duplicate: boolean;
  effect: "buffered" | "counted" | "resumed";
  signal: {
    name: string;
    number: number;
    source: string;
  };
}

export interface ListStepsQuery {
  /** The maximum number of items of the page. */
  limit?: number;
  /** The next_cursor of the page before, unchanged. */
  cursor?: string;
}

export interface ListStepsAnswer {
  items: Step[];
  /** The cursor of the next page; null at the end of the list. */
  nextCursor: string | null;
}

export interface ListFramesQuery {
  /** The attempt. Default: the latest. */
  attempt?: number;
  /** The number of the last frame that was seen. */
  after?: number;
  /** The number of the frame before which to end. */
  before?: number;
  /** Leaves out best-effort frames. */
  mode?: "durable";
  /** The maximum number of frames. */
  limit?: number;
}

export interface ListFramesAnswer {
  attempt: number | null;
  /** True if the attempt has ended and the page has its last frames. */
  closed: boolean;
  items: Frame[];
  /** The cursor of the next page; null at the end of the list. */
  nextCursor: string | null;
}

export interface TailFramesQuery {
  /** The attempt. Default: the latest. */
  attempt?: number;
  /** The number of the last frame that was seen. */
  after?: number;
  /** Leaves out best-effort frames. */
  mode?: "durable";
}

export interface GetSummaryQuery {
  /** The attempt. Default: the latest. */
  attempt?: number;
}

export interface GetSummaryAnswer {
  attempt: number | null;
  document?: unknown;
  version: number;
}

export interface TagExecutionRequest {
  /** Acts only if the execution has this version. */
  ifVersion?: number | null;
  remove?: string[] | null;
  set?: Record<string, string> | null;
}

export interface TagExecutionAnswer {
  /** True if the request repeats an earlier one. */
  duplicate: boolean;
  execution: Execution;
}

export interface ListUpstreamsQuery {
  /** The maximum number of items of the page. */
  limit?: number;
  /** The next_cursor of the page before, unchanged. */
  cursor?: string;
}

export interface ListUpstreamsAnswer {
  items: Relative[];
  /** The cursor of the next page; null at the end of the list. */
  nextCursor: string | null;
}

export interface ListUsageQuery {
  /** The maximum number of items of the page. */
  limit?: number;
  /** The next_cursor of the page before, unchanged. */
  cursor?: string;
}

export interface ListUsageAnswer {
  items: Spent[];
  /** The cursor of the next page; null at the end of the list. */
  nextCursor: string | null;
}

export interface ListExecutionWaitpointsQuery {
  /** The maximum number of items of the page. */
  limit?: number;
  /** The next_cursor of the page before, unchanged. */
  cursor?: string;
}

export interface ListExecutionWaitpointsAnswer {
  items: Waitpoint[];
  /** The cursor of the next page; null at the end of the list. */
  nextCursor: string | null;
}

export interface ListFlowsQuery {
  /** The states. */
  state?: Array<"running" | "completed" | "failed" | "cancelled">;
  /** The name. */
  name?: string;
  /** A tag, written name:value. */
  tag?: string;
  /** The earliest submission. */
  submittedAfter?: string;
  /** The latest submission. */
  submittedBefore?: string;
  /** The maximum number of items of the page. */
  limit?: number;
  /** The next_cursor of the page before, unchanged. */
  cursor?: string;
}

export interface ListFlowsAnswer {
  items: Flow[];
  /** The cursor of the next page; null at the end of the list. */
  nextCursor: string | null;
}

export interface CancelFlowRequest {
  /** pending: active members run to their end. */
  mode?: "all" | "pending" | null;
  reason?: string | null;
  /** The longest wait until all members have ended. */
  waitMs?: number | null;
}

export interface CancelFlowAnswer {
  /** True if the request repeats an earlier one. */
  duplicate: boolean;
  flow: Flow;
}

export interface GetFlowGraphQuery {
  /** The format. */
  format?: "json" | "dot" | "svg";
}

export interface GrowFlowRequest {
  edges?: Edge[] | null;
  groups?: Group[] | null;
  nodes?: Node[] | null;
}

export interface GetFlowResultQuery {
  /** The longest wait for the end. */
  waitMs?: number;
}

export interface ListInboxQuery {
  /** The maximum number of items of the page. */
  limit?: number;
  /** The next_cursor of the page before, unchanged. */
  cursor?: string;
}

export interface ListInboxAnswer {
  items: Array<{
    /** The id that the caller got. */
    id: string;
    number: number;
    problem: {
      code: string;
      detail: string;
      /** The JSON pointer to the refused field. */
      pointer: string | null;
    } | null;
    refusedAt: string | null;
    /** The role of Postgres that submitted it. */
    role: string;
    submittedAt: string;
    type: "execution" | "flow";
  }>;
  nextCursor: string | null;
  oldestPendingAt: string | null;
  /** Submissions that wait to be taken in, up to 10000. */
  pending: number;
  /** Submissions that were refused, up to 10000. */
  refusedCount: number;
}

export interface DeleteInboxAnswer {
  number: number;
}

export interface RetryInboxRequest {

}

export interface RetryInboxAnswer {
  number: number;
}

export interface ListLanesQuery {
  /** The maximum number of items of the page. */
  limit?: number;
  /** The next_cursor of the page before, unchanged. */
  cursor?: string;
}

export interface ListLanesAnswer {
  items: Lane[];
  /** The cursor of the next page; null at the end of the list. */
  nextCursor: string | null;
}

export interface RemoveLaneAnswer {
  name: string;
  removed: boolean;
}

export interface PauseLaneRequest {

}

export interface PauseLaneAnswer {
  active: number;
  concurrency: number | null;
  /** False if the lane has the defaults. */
  configured: boolean;
  /** True if the request repeats an earlier one. */
  duplicate: boolean;
  name: string;
  rate: {
    count: number;
    windowMs: number;
  } | null;
  /** The delay until a full window admits the next start. */
  retryAfterMs: number | null;
  state: "active" | "paused" | "draining";
  waiting: number;
  weight: number;
}

export interface ResumeLaneRequest {

}

export interface ResumeLaneAnswer {
  active: number;
  concurrency: number | null;
  /** False if the lane has the defaults. */
  configured: boolean;
  /** True if the request repeats an earlier one. */
  duplicate: boolean;
  name: string;
  rate: {
    count: number;
    windowMs: number;
  } | null;
  /** The delay until a full window admits the next start. */
  retryAfterMs: number | null;
  state: "active" | "paused" | "draining";
  waiting: number;
  weight: number;
}

export interface ListQuotasQuery {
  /** The maximum number of items of the page. */
  limit?: number;
  /** The next_cursor of the page before, unchanged. */
  cursor?: string;
}

export interface ListQuotasAnswer {
  items: Quota[];
  /** The cursor of the next page; null at the end of the list. */
  nextCursor: string | null;
}

export interface RemoveQuotaAnswer {
  name: string;
  removed: boolean;
}

export interface ListSchedulesQuery {
  /** The maximum number of items of the page. */
  limit?: number;
  /** The next_cursor of the page before, unchanged. */
  cursor?: string;
}

export interface ListSchedulesAnswer {
  items: Schedule[];
  /** The cursor of the next page; null at the end of the list. */
  nextCursor: string | null;
}

export interface DeleteScheduleAnswer {
  name: string;
  removed: boolean;
}

export interface NextTimesQuery {
  /** The number of times. Default: 10. */
  count?: number;
}

export interface NextTimesAnswer {
  items: Array<{
    scheduledAt: string;
  }>;
  /** The cursor of the next page; null at the end of the list. */
  nextCursor: string | null;
}

export interface RunScheduleRequest {

}

export interface RunScheduleAnswer {
  /** True if the request repeats an earlier one. */
  duplicate: boolean;
  execution?: Execution;
  flow?: Flow;
}

export interface ListRunsAnswer {
  items: ScheduleRun[];
  /** The cursor of the next page; null at the end of the list. */
  nextCursor: string | null;
}

export interface ListStatsQuery {
  /** Only this lane. */
  lane?: string;
  /** The earliest minute. */
  from?: string;
  /** The time before which the last minute begins. */
  to?: string;
  /** The maximum number of items of the page. */
  limit?: number;
  /** The next_cursor of the page before, unchanged. */
  cursor?: string;
}

export interface ListStatsAnswer {
  items: Array<{
    cancelled: number;
    completed: number;
    expired: number;
    failed: number;
    lane: string | null;
    minuteAt: string;
    /** Times from ready to started. */
    queueMs: {
      count: number;
      max: number | null;
      mean: number | null;
      p50: number | null;
      p95: number | null;
    };
    retries: number;
    /** Times from started to ended. */
    runMs: {
      count: number;
      max: number | null;
      mean: number | null;
      p50: number | null;
      p95: number | null;
    };
    skipped: number;
    started: number;
    submitted: number;
  }>;
  /** The cursor of the next page; null at the end of the list. */
  nextCursor: string | null;
}

export interface ListWaitpointsQuery {
  /** The state. */
  state?: "open" | "delivered" | "expired" | "revoked";
  /** The source. */
  source?: string;
  /** The execution. */
  execution?: string;
  /** The maximum number of items of the page. */
  limit?: number;
  /** The next_cursor of the page before, unchanged. */
  cursor?: string;
}

export interface ListWaitpointsAnswer {
  items: Waitpoint[];
  /** The cursor of the next page; null at the end of the list. */
  nextCursor: string | null;
}

export interface AnswerWaitpointRequest {
  /** Default: the header Idempotency-Key. */
  idempotencyKey?: string | null;
  /** The name. Default: the only signal that the waitpoint takes. */
  name?: string | null;
  /** Any JSON value of at most 256 KiB. Default: null. */
  payload?: unknown;
}

export interface LookAtWaitpointRequest {
  token: string;
}

export interface LookAtWaitpointAnswer {
  /** The time of the answer that decided the question. */
  decidedAt: string | null;
  /** The sources of the answers that decided the question. */
  decidedBy: string[] | null;
  /** The signal that decided the question. */
  decidedWith: string | null;
  expiresAt: string | null;
  name: string;
  /** The outcome of the execution. Null while it has not ended or the waitpoint is open. */
  outcome: "completed" | "failed" | "cancelled" | "expired" | "skipped" | null;
  prompt: string | null;
  signals: string[];
  state: "open" | "delivered" | "expired" | "revoked";
  waitpoint: string;
}

export interface ReissueWaitpointRequest {
  expiresMs?: number | null;
}

export interface ReissueWaitpointAnswer {
  /** True if the request repeats an earlier one. */
  duplicate: boolean;
  /** The new token; null if the request repeats an earlier one. */
  token: string | null;
  waitpoint: Waitpoint;
}

export interface RevokeWaitpointRequest {

}

export interface RevokeWaitpointAnswer {
  /** True if the request repeats an earlier one. */
  duplicate: boolean;
  waitpoint: Waitpoint;
}

export interface SignalWaitpointRequest {
  /** Default: the header Idempotency-Key. */
  idempotencyKey?: string | null;
  /** The name. Default: the only signal that the waitpoint takes. */
  name?: string | null;
  /** Any JSON value of at most 256 KiB. Default: null. */
  payload?: unknown;
  /** The token that came with the waitpoint. */
  token: string;
}

export interface ListWebhooksQuery {
  /** The maximum number of items of the page. */
  limit?: number;
  /** The next_cursor of the page before, unchanged. */
  cursor?: string;
}

export interface ListWebhooksAnswer {
  items: Array<{
    createdAt: string;
    /** Deliveries that are not tried again, unless they are replayed. */
    dead: number;
    /** Events that were delivered so far. */
    delivered: number;
    /** The last success. */
    deliveredAt: string | null;
    /** The first failure since the last success. */
    failingSinceAt: string | null;
    filter: {
      execution: string | null;
      flow: string | null;
      /** As name:value. */
      tag: string | null;
    };
    /** The error of the last attempt, while deliveries fail. */
    lastError: string | null;
    /** Events that the log dropped before they could be delivered. */
    missed: number;
    name: string;
    /** The time until which an old secret signs, too. */
    oldSecretExpiresAt: string | null;
    paused: boolean;
    pausedReason: "operator" | "failing" | "gone" | "dead_letters" | null;
    /** Deliveries that are tried again. */
    pending: number;
    /** Events before this time were taken from the log. */
    takenUntilAt: string;
    types: string[];
    /** Without its query for callers who are not operators. */
    url: string;
  }>;
  /** The cursor of the next page; null at the end of the list. */
  nextCursor: string | null;
}

export interface RemoveWebhookAnswer {
  name: string;
  removed: boolean;
}

export interface GetWebhookAnswer {
  createdAt: string;
  /** Deliveries that are not tried again, unless they are replayed. */
  dead: number;
  /** Events that were delivered so far. */
  delivered: number;
  /** The last success. */
  deliveredAt: string | null;
  /** The first failure since the last success. */
  failingSinceAt: string | null;
  filter: {
    execution: string | null;
    flow: string | null;
    /** As name:value. */
    tag: string | null;
  };
  /** The error of the last attempt, while deliveries fail. */
  lastError: string | null;
  /** Events that the log dropped before they could be delivered. */
  missed: number;
  name: string;
  /** The time until which an old secret signs, too. */
  oldSecretExpiresAt: string | null;
  paused: boolean;
  pausedReason: "operator" | "failing" | "gone" | "dead_letters" | null;
  /** Deliveries that are tried again. */
  pending: number;
  /** Events before this time were taken from the log. */
  takenUntilAt: string;
  types: string[];
  /** Without its query for callers who are not operators. */
  url: string;
}

export interface PatchWebhookAnswer {
  createdAt: string;
  /** Deliveries that are not tried again, unless they are replayed. */
  dead: number;
  /** Events that were delivered so far. */
  delivered: number;
  /** The last success. */
  deliveredAt: string | null;
  /** The first failure since the last success. */
  failingSinceAt: string | null;
  filter: {
    execution: string | null;
    flow: string | null;
    /** As name:value. */
    tag: string | null;
  };
  /** The error of the last attempt, while deliveries fail. */
  lastError: string | null;
  /** Events that the log dropped before they could be delivered. */
  missed: number;
  name: string;
  /** The time until which an old secret signs, too. */
  oldSecretExpiresAt: string | null;
  paused: boolean;
  pausedReason: "operator" | "failing" | "gone" | "dead_letters" | null;
  /** Deliveries that are tried again. */
  pending: number;
  /** Events before this time were taken from the log. */
  takenUntilAt: string;
  types: string[];
  /** Without its query for callers who are not operators. */
  url: string;
}

export interface PutWebhookRequest {
  /** All conditions must match. Default: every event of the types. */
  filter?: {
    /** Only events of this execution. */
    execution?: string | null;
    /** Only events of this flow. */
    flow?: string | null;
    /** Only events of executions with this tag. */
    tag?: string | null;
  } | null;
  /** Default: false. False resumes a webhook, whatever paused it. */
  paused?: boolean | null;
  /** The types of events; * alone for all. */
  types: Array<"execution.submitted" | "execution.ready" | "execution.started" | "execution.completed" | "execution.failed" | "execution.cancelled" | "execution.expired" | "execution.skipped" | "execution.retry_scheduled" | "execution.delayed" | "execution.debounced" | "execution.cancel_requested" | "execution.progressed" | "execution.replayed" | "execution.reopened" | "execution.wired" | "execution.suspended" | "execution.resumed" | "execution.noticed" | "execution.escalated" | "signal.delivered" | "waitpoint.created" | "waitpoint.expired" | "waitpoint.revoked" | "waitpoint.reissued" | "step.recorded" | "operator.token_keys_rotated" | "key.created" | "key.revoked" | "operator.bulk_job_started" | "operator.bulk_job_ended" | "webhook.created" | "webhook.changed" | "webhook.deleted" | "webhook.secret_rotated" | "webhook.paused" | "webhook.missed" | "operator.schedule_saved" | "operator.schedule_deleted" | "schedule.fired" | "schedule.skipped" | "schedule.refused" | "inbox.refused" | "execution.held" | "execution.released" | "execution.adopted" | "operator.gate_configured" | "operator.gate_removed" | "budget.used" | "budget.soft_breach" | "budget.hard_breach" | "budget.reset" | "attempt.ended" | "lease.acquired" | "lease.renewed" | "lease.expired" | "lease.reclaimed" | "lease.revoked" | "lease.orphaned" | "lease.released" | "operator.rescheduled" | "operator.prioritised" | "operator.tagged" | "operator.drain_requested" | "edge.resolved" | "group.decided" | "flow.submitted" | "flow.grown" | "flow.completed" | "flow.failed" | "flow.cancelled" | "flow.reopened" | "flow.cancel_requested" | "*">;
  /** The URL of the receiver: https, and a public address unless the server allows others. */
  url: string;
}

export interface PutWebhookAnswer {
  createdAt: string;
  /** Deliveries that are not tried again, unless they are replayed. */
  dead: number;
  /** Events that were delivered so far. */
  delivered: number;
  /** The last success. */
  deliveredAt: string | null;
  /** The first failure since the last success. */
  failingSinceAt: string | null;
  filter: {
    execution: string | null;
    flow: string | null;
    /** As name:value. */
    tag: string | null;
  };
  /** The error of the last attempt, while deliveries fail. */
  lastError: string | null;
  /** Events that the log dropped before they could be delivered. */
  missed: number;
  name: string;
  /** The time until which an old secret signs, too. */
  oldSecretExpiresAt: string | null;
  paused: boolean;
  pausedReason: "operator" | "failing" | "gone" | "dead_letters" | null;
  /** Deliveries that are tried again. */
  pending: number;
  /** The secret, this once: whsec_ and base64. */
  secret?: string | null;
  /** Events before this time were taken from the log. */
  takenUntilAt: string;
  types: string[];
  /** Without its query for callers who are not operators. */
  url: string;
}

export interface ListDeliveriesQuery {
  /** Only deliveries in this state. */
  state?: "pending" | "delivered" | "dead";
  /** The maximum number of items of the page. */
  limit?: number;
  /** The next_cursor of the page before, unchanged. */
  cursor?: string;
}

export interface ListDeliveriesAnswer {
  items: Array<{
    /** The time at which it was delivered or became dead. */
    endedAt: string | null;
    /** The error of the last attempt. */
    error: string | null;
    eventAt: string;
    eventCursor: string;
    execution: string | null;
    /** Failed attempts, since the last replay. */
    failures: number;
    flow: string | null;
    /** The header webhook-id of the delivery. */
    id: string;
    /** Null also if it waits for an earlier event of its execution. */
    nextAttemptAt: string | null;
    state: "pending" | "delivered" | "dead";
    /** The status of the last response. */
    status: number | null;
    type: string;
  }>;
  /** The cursor of the next page; null at the end of the list. */
  nextCursor: string | null;
}

export interface ReplayDeliveryRequest {

}

export interface ReplayDeliveryAnswer {
  delivery: {
    /** The time at which it was delivered or became dead. */
    endedAt: string | null;
    /** The error of the last attempt. */
    error: string | null;
    eventAt: string;
    eventCursor: string;
    execution: string | null;
    /** Failed attempts, since the last replay. */
    failures: number;
    flow: string | null;
    /** The header webhook-id of the delivery. */
    id: string;
    /** Null also if it waits for an earlier event of its execution. */
    nextAttemptAt: string | null;
    state: "pending" | "delivered" | "dead";
    /** The status of the last response. */
    status: number | null;
    type: string;
  };
  /** True if the request repeats an earlier one. */
  duplicate: boolean;
}

export interface RotateWebhookSecretRequest {
  /** The time for which the old secret signs, too. */
  graceMs: number;
}

export interface RotateWebhookSecretAnswer {
  /** True if the request repeats an earlier one. */
  duplicate: boolean;
  graceMs: number;
  /** The secret, this once: whsec_ and base64. */
  secret: string | null;
}

export interface TestWebhookRequest {

}

export interface TestWebhookAnswer {
  /** True if the receiver accepted it. */
  delivered: boolean;
  /** The reason why it was not accepted. */
  error: string | null;
  /** The header webhook-id of the message. */
  id: string;
  /** The status of the response. */
  status: number | null;
  /** The time until the response, with the lookup and the connection. */
  tookMs: number;
}

export interface ListWorkersQuery {
  /** The maximum number of items of the page. */
  limit?: number;
  /** The next_cursor of the page before, unchanged. */
  cursor?: string;
}

export interface ListWorkersAnswer {
  items: Worker[];
  /** The cursor of the next page; null at the end of the list. */
  nextCursor: string | null;
}

export interface RemoveWorkerQuery {
  /** The incarnation that leaves. */
  incarnation?: string;
}

export interface RemoveWorkerAnswer {
  instance: string;
  /** The leases that were put back. */
  released: Fence[];
}

export interface DrainWorkerRequest {

}

export interface DrainWorkerAnswer {
  draining: boolean;
  /** True if the request repeats an earlier one. */
  duplicate: boolean;
  instance: string;
}

export interface GetWebhooksPageQuery {
  /** The place of the page in the list. */
  cursor?: string;
}

export interface GetWebhookPageQuery {
  /** The place of the page in the list. */
  cursor?: string;
  /** The state of deliveries. */
  state?: string;
}
