"""The documents of the HTTP API. Generated from sdk/openapi.json by scripts/generate.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypedDict, Union

if TYPE_CHECKING:
    from typing_extensions import NotRequired, TypeAlias


class Attempt(TypedDict):
    attempt: int
    ended_at: Union[str, None]
    epoch: int
    error: Union[Failure, None]
    instance: str
    lease_id: str
    outcome: Union[str, None]
    started_at: str
    worker: str


class Backoff1(TypedDict):
    delay_ms: int
    type: Literal['fixed']


class Backoff2(TypedDict):
    initial_ms: NotRequired[Union[int, None]]
    jitter: NotRequired[Union[bool, None]]
    max_ms: NotRequired[Union[int, None]]
    multiplier: NotRequired[Union[float, None]]
    type: Literal['exponential']


Backoff: TypeAlias = "Union[Backoff1, Backoff2]"


class Budget(TypedDict):
    held: int
    limits: dict[str, BudgetLimitsValue]
    more_parts: NotRequired[bool]
    name: str
    next_reset_at: Union[str, None]
    on_hard: Literal['hold', 'suspend', 'fail']
    parts: NotRequired[list[BudgetPartsItem]]
    period: int
    period_ms: Union[int, None]
    reserved: dict[str, float]
    scope: Literal['namespace', 'flow', 'lane']
    usage: dict[str, float]


class BudgetLimitsValue(TypedDict):
    hard: NotRequired[float]
    soft: NotRequired[float]


class BudgetPartsItem(TypedDict):
    next_reset_at: Union[str, None]
    part: Union[str, None]
    period: int
    reserved: dict[str, float]
    usage: dict[str, float]


class BudgetConfig(TypedDict):
    limits: dict[str, BudgetConfigLimitsValue]
    on_hard: NotRequired[Literal['hold', 'suspend', 'fail', None]]
    period_ms: NotRequired[Union[int, None]]
    scope: NotRequired[Literal['namespace', 'flow', 'lane', None]]


class BudgetConfigLimitsValue(TypedDict):
    hard: NotRequired[Union[float, None]]
    soft: NotRequired[Union[float, None]]


class BudgetPatch(TypedDict):
    limits: NotRequired[Union[dict[str, Union[BudgetPatchLimitsValue, None]], None]]
    on_hard: NotRequired[Literal['hold', 'suspend', 'fail', None]]
    period_ms: NotRequired[Union[int, None]]
    scope: NotRequired[Literal['namespace', 'flow', 'lane', None]]


class BudgetPatchLimitsValue(TypedDict):
    hard: NotRequired[Union[float, None]]
    soft: NotRequired[Union[float, None]]


class CancelledOp(TypedDict):
    attempt: int
    epoch: int
    execution: str
    lease_id: str
    message: NotRequired[Union[str, None]]
    op: Literal['cancelled']
    op_id: NotRequired[Union[str, None]]


class Claim(TypedDict):
    attempt: int
    children: dict[str, ClaimChildrenValue]
    children_outcomes: dict[str, ClaimChildrenOutcomesValue]
    children_refs: dict[str, str]
    execution: Execution
    lease: Union[Lease, None]
    namespace: str
    resumed_by: Literal['condition', 'operator', 'timeout', None]
    signals: list[ClaimSignalsItem]
    step_records: dict[str, ClaimStepRecordsValue]
    steps: dict[str, Any]
    traceparent: Union[str, None]
    upstream: dict[str, Any]
    upstream_outcomes: dict[str, ClaimChildrenOutcomesValue]
    upstream_refs: dict[str, str]


class ClaimChildrenValue(TypedDict):
    outcome: Literal['completed', 'failed', 'cancelled', 'expired', 'skipped', None]
    result: Any


class ClaimChildrenOutcomesValue(TypedDict):
    error: Union[Failure, None]
    execution: str
    outcome: Literal['completed', 'failed', 'cancelled', 'expired', 'skipped', None]


class ClaimSignalsItem(TypedDict):
    name: str
    payload: Any
    source: str
    waitpoint: Union[str, None]


class ClaimStepRecordsValue(TypedDict):
    attempt: int
    kind: str


class ClaimAnswer(TypedDict):
    claims: list[Claim]
    drain: bool
    duplicate: bool


class ClaimRequest(TypedDict):
    capabilities: NotRequired[Union[list[str], None]]
    incarnation: NotRequired[Union[str, None]]
    kinds: NotRequired[Union[list[str], None]]
    lanes: list[str]
    lease_ttl_ms: NotRequired[Union[int, None]]
    max: int
    wait_ms: NotRequired[Union[int, None]]
    worker: str


class CompleteOp(TypedDict):
    attempt: int
    epoch: int
    execution: str
    lease_id: str
    op: Literal['complete']
    op_id: NotRequired[Union[str, None]]
    result: NotRequired[Any]


class Condition1(TypedDict):
    signal: str


class Condition2(TypedDict):
    any: list[Condition]


class Condition3(TypedDict):
    all: list[Condition]


class Condition4(TypedDict):
    count: Condition4Count


class Condition4Count(TypedDict):
    distinct: Literal['signals', 'waitpoints', 'sources']
    n: int
    of: list[str]


class Condition5(TypedDict):
    until_at: str


class Condition6(TypedDict):
    delay_ms: int


class Condition7(TypedDict):
    operator: Literal[True]


class Condition8(TypedDict):
    children: Literal[True]


Condition: TypeAlias = "Union[Condition1, Condition2, Condition3, Condition4, Condition5, Condition6, Condition7, Condition8]"


class Debounce(TypedDict):
    delay_ms: int
    key: str
    max_ms: NotRequired[Union[int, None]]


class Defaults(TypedDict):
    attempt_timeout_ms: NotRequired[Union[int, None]]
    budgets: NotRequired[Union[list[Union[str, DefaultsBudgetsItem]], None]]
    capabilities: NotRequired[Union[list[str], None]]
    concurrency: NotRequired[Union[DefaultsConcurrency, None]]
    deadline_ms: NotRequired[Union[int, None]]
    debounce: NotRequired[Union[Debounce, None]]
    delay_ms: NotRequired[Union[int, None]]
    delay_until_at: NotRequired[Union[str, None]]
    fairness_key: NotRequired[Union[str, None]]
    id: NotRequired[Union[str, None]]
    idempotency_key: NotRequired[Union[str, None]]
    idempotency_window_ms: NotRequired[Union[int, None]]
    input: NotRequired[Any]
    kind: NotRequired[Union[str, None]]
    lane: NotRequired[Union[str, None]]
    priority: NotRequired[Union[int, None]]
    quotas: NotRequired[Union[list[str], None]]
    retention_ms: NotRequired[Union[int, None]]
    retry: NotRequired[Union[Retry, None]]
    start_by_ms: NotRequired[Union[int, None]]
    tags: NotRequired[Union[dict[str, str], None]]
    unique_while_active: NotRequired[Union[str, None]]


class DefaultsBudgetsItem(TypedDict):
    name: str
    reserve: NotRequired[Union[dict[str, float], None]]


class DefaultsConcurrency(TypedDict):
    key: str
    limit: int


class DelayOp(TypedDict):
    attempt: int
    delay_ms: NotRequired[Union[int, None]]
    epoch: int
    execution: str
    lease_id: str
    op: Literal['delay']
    op_id: NotRequired[Union[str, None]]
    until_at: NotRequired[Union[str, None]]


class Delivery(TypedDict):
    duplicate: bool
    effect: Literal['buffered', 'counted', 'resumed']
    number: int
    waitpoint: str


Edge = TypedDict("Edge", {
    "from": "str",
    "to": "str",
    "when": "NotRequired[Literal['success', 'failure', 'failure_or_skipped', 'finished', None]]",
})


class Event(TypedDict):
    actor: Union[str, None]
    at: str
    cursor: str
    data: dict[str, Any]
    execution: Union[str, None]
    flow: Union[str, None]
    namespace: str
    type: str
    version: Union[int, None]


class Execution(TypedDict):
    attempt_timeout_ms: Union[int, None]
    attempts: int
    budgets: list[Union[str, ExecutionBudgetsItem]]
    cancel_requested: bool
    cancel_until_at: Union[str, None]
    capabilities: list[str]
    concurrency: Union[ExecutionConcurrency, None]
    deadline_at: Union[str, None]
    deadline_ms: Union[int, None]
    debounce: Union[Debounce, None]
    delayed_until_at: Union[str, None]
    ended_at: Union[str, None]
    error: Union[Failure, None]
    fairness_key: Union[str, None]
    flow_id: Union[str, None]
    generation: int
    held_reason: Union[ExecutionHeldReason, None]
    id: str
    idempotency_key: Union[str, None]
    idempotency_window_ms: Union[int, None]
    input: NotRequired[Any]
    interruptions: int
    kind: str
    lane: str
    lease: Union[Lease, None]
    namespace: str
    node: Union[str, None]
    outcome: Literal['completed', 'failed', 'cancelled', 'expired', 'skipped', None]
    parent: Union[str, None]
    priority: int
    progress: NotRequired[Union[ExecutionProgress, None]]
    quotas: list[str]
    ready_at: Union[str, None]
    replayed_at: Union[str, None]
    result: NotRequired[Any]
    retention_ms: int
    retries: int
    retry: ExecutionRetry
    schedule: NotRequired[str]
    scheduled_at: NotRequired[str]
    start_by_ms: Union[int, None]
    started_at: Union[str, None]
    state: Literal['waiting_dependencies', 'waiting', 'delayed', 'active', 'suspended', 'held', 'completed', 'failed', 'cancelled', 'expired', 'skipped']
    submitted_at: str
    suspension: Union[Suspension, None]
    tags: dict[str, str]
    unique_while_active: Union[str, None]
    version: int


class ExecutionBudgetsItem(TypedDict):
    name: str
    reserve: dict[str, float]


class ExecutionConcurrency(TypedDict):
    key: str
    limit: int


class ExecutionHeldReason(TypedDict):
    gate: ExecutionHeldReasonGate
    message: str
    until_at: Union[str, None]


class ExecutionHeldReasonGate(TypedDict):
    kind: Literal['lane', 'concurrency', 'quota', 'budget', 'fairness_key']
    name: str
    part: Union[str, None]


class ExecutionProgress(TypedDict):
    message: Union[str, None]
    percent: Union[float, None]


class ExecutionRetry(TypedDict):
    backoff: Union[ExecutionRetryBackoff1, ExecutionRetryBackoff2]
    max_interruptions: int
    max_retries: int
    retry_on: list[Literal['transient', 'permanent', 'infrastructure', 'timeout']]


class ExecutionRetryBackoff1(TypedDict):
    delay_ms: int
    type: Literal['fixed']


class ExecutionRetryBackoff2(TypedDict):
    initial_ms: int
    jitter: bool
    max_ms: int
    multiplier: float
    type: Literal['exponential']


class Explanation(TypedDict):
    next_change_at: Union[str, None]
    reasons: list[ExplanationReasonsItem]
    state: str


class ExplanationReasonsItem(TypedDict):
    code: Literal['waiting_for_upstreams', 'upstream_open', 'delayed', 'debounced', 'backoff', 'workers_died', 'suspended', 'suspension_timeout', 'lane_paused', 'lane_counting', 'concurrency_limit', 'rate_limit', 'budget_limit', 'reserve_exceeds_limit', 'holder', 'fairness_turn', 'line_head', 'gate_open', 'no_worker_in_lane', 'no_worker_of_kind', 'no_capable_worker', 'workers_draining', 'waiting_for_worker', 'active', 'cancel_requested', 'attempt_timeout', 'deadline', 'start_by', 'ended', 'failed', 'cancelled', 'expired', 'skipped', 'upstream_ended', 'skip_origin', 'members_open', 'member_open', 'member_failed', 'failure_handled', 'flow_cancelled']
    message: str
    ref: Union[ExplanationReasonsItemRef, None]
    until_at: Union[str, None]


class ExplanationReasonsItemRef(TypedDict):
    id: str
    type: str


FailOp = TypedDict("FailOp", {
    "attempt": "int",
    "class": "NotRequired[Literal['transient', 'permanent', 'infrastructure', 'timeout', None]]",
    "epoch": "int",
    "execution": "str",
    "lease_id": "str",
    "message": "str",
    "op": "Literal['fail']",
    "op_id": "NotRequired[Union[str, None]]",
    "retry_after_ms": "NotRequired[Union[int, None]]",
})


Failure = TypedDict("Failure", {
    "class": "Literal['transient', 'permanent', 'infrastructure', 'timeout']",
    "message": "str",
})


class Fence(TypedDict):
    attempt: int
    epoch: int
    execution: str
    lease_id: str


class FenceRequest(TypedDict):
    attempt: int
    epoch: int
    execution: str
    lease_id: str


class Flow(TypedDict):
    cancel: Union[FlowCancel, None]
    counts: FlowCounts
    deadline_at: Union[str, None]
    ended_at: Union[str, None]
    id: str
    idempotency_key: Union[str, None]
    name: Union[str, None]
    namespace: str
    retention_ms: Union[int, None]
    schedule: NotRequired[str]
    scheduled_at: NotRequired[str]
    state: Literal['running', 'completed', 'failed', 'cancelled']
    submitted_at: str
    tags: dict[str, str]
    version: int


class FlowCancel(TypedDict):
    actor: Union[str, None]
    draining: bool
    mode: Literal['all', 'pending']
    reason: Union[str, None]


class FlowCounts(TypedDict):
    active: int
    cancelled: int
    completed: int
    delayed: int
    expired: int
    failed: int
    held: int
    skipped: int
    suspended: int
    total: int
    waiting: int
    waiting_dependencies: int


class FlowNode(TypedDict):
    attempt_timeout_ms: NotRequired[Union[int, None]]
    budgets: NotRequired[Union[list[Union[str, DefaultsBudgetsItem]], None]]
    capabilities: NotRequired[Union[list[str], None]]
    concurrency: NotRequired[Union[DefaultsConcurrency, None]]
    deadline_ms: NotRequired[Union[int, None]]
    debounce: NotRequired[Union[Debounce, None]]
    delay_ms: NotRequired[Union[int, None]]
    delay_until_at: NotRequired[Union[str, None]]
    fairness_key: NotRequired[Union[str, None]]
    id: NotRequired[Union[str, None]]
    idempotency_key: NotRequired[Union[str, None]]
    idempotency_window_ms: NotRequired[Union[int, None]]
    input: NotRequired[Any]
    kind: NotRequired[Union[str, None]]
    lane: NotRequired[Union[str, None]]
    name: str
    priority: NotRequired[Union[int, None]]
    quotas: NotRequired[Union[list[str], None]]
    retention_ms: NotRequired[Union[int, None]]
    retry: NotRequired[Union[Retry, None]]
    start_by_ms: NotRequired[Union[int, None]]
    tags: NotRequired[Union[dict[str, str], None]]
    unique_while_active: NotRequired[Union[str, None]]


class FlowResult(TypedDict):
    flow: Flow
    outcome: Literal['completed', 'failed', 'cancelled', None]
    result_refs: dict[str, str]
    results: dict[str, FlowResultResultsValue]
    state: Literal['running', 'completed', 'failed', 'cancelled']


class FlowResultResultsValue(TypedDict):
    error: Union[Failure, None]
    outcome: Literal['completed', 'failed', 'cancelled', 'expired', 'skipped', None]
    result: Any


class FlowSubmission(TypedDict):
    deadline_ms: NotRequired[Union[int, None]]
    defaults: NotRequired[Union[Defaults, None]]
    edges: NotRequired[Union[list[Edge], None]]
    groups: NotRequired[Union[list[Group], None]]
    id: NotRequired[Union[str, None]]
    idempotency_key: NotRequired[Union[str, None]]
    name: NotRequired[Union[str, None]]
    nodes: NotRequired[Union[list[FlowNode], None]]
    retention_ms: NotRequired[Union[int, None]]
    tags: NotRequired[Union[dict[str, str], None]]


class Frame(TypedDict):
    at: str
    attempt: int
    correlation_id: Union[str, None]
    data: Any
    kind: Literal['stdout', 'stderr', 'event', 'blob']
    mode: Literal['durable', 'best_effort']
    number: int


class FrameOp(TypedDict):
    attempt: int
    correlation_id: NotRequired[Union[str, None]]
    data: Any
    epoch: int
    execution: str
    kind: Literal['stdout', 'stderr', 'event', 'blob']
    lease_id: str
    mode: NotRequired[Literal['durable', 'best_effort', 'summary', None]]
    op: Literal['frame']
    op_id: NotRequired[Union[str, None]]


class Graph(TypedDict):
    edges: list[GraphEdgesItem]
    groups: list[GraphGroupsItem]
    nodes: list[GraphNodesItem]
    spawned: list[GraphSpawnedItem]


GraphEdgesItem = TypedDict("GraphEdgesItem", {
    "from": "str",
    "resolution": "Literal['pending', 'holds', 'dead']",
    "to": "str",
    "when": "Literal['success', 'failure', 'failure_or_skipped', 'finished']",
})


class GraphGroupsItem(TypedDict):
    dead: int
    decision: Literal['pending', 'satisfied', 'impossible']
    holds: int
    node: str
    pending: int
    policy: GraphGroupsItemPolicy


class GraphGroupsItemPolicy(TypedDict):
    k: NotRequired[int]
    on_satisfied: NotRequired[Literal['cancel_remaining', 'let_run']]
    type: Literal['all_of', 'any_of', 'quorum']


class GraphNodesItem(TypedDict):
    execution: str
    name: str
    state: Literal['waiting_dependencies', 'waiting', 'delayed', 'active', 'suspended', 'held', 'completed', 'failed', 'cancelled', 'expired', 'skipped']


class GraphSpawnedItem(TypedDict):
    child: str
    parent: str


class Group(TypedDict):
    node: str
    policy: JoinPolicy


class GrownFlow(TypedDict):
    duplicate: bool
    executions: dict[str, str]
    flow: Flow


class HeartbeatAnswer(TypedDict):
    cancel_requested: list[Fence]
    drain: bool
    lost: list[HeartbeatAnswerLostItem]
    orphaned: list[Fence]
    renewed: list[Fence]


class HeartbeatAnswerLostItem(TypedDict):
    attempt: int
    code: str
    epoch: int
    execution: str
    holder: NotRequired[Union[HeartbeatAnswerLostItemHolder, None]]
    lease_id: str
    outcome: NotRequired[Literal['completed', 'failed', 'cancelled', 'expired', 'skipped', None]]
    reason: str
    state: NotRequired[str]


class HeartbeatAnswerLostItemHolder(TypedDict):
    claimed_at: str
    epoch: int
    instance: str
    lease_id: str
    worker: str


class JoinPolicy1(TypedDict):
    type: Literal['all_of']


class JoinPolicy2(TypedDict):
    on_satisfied: NotRequired[Literal['cancel_remaining', 'let_run', None]]
    type: Literal['any_of']


class JoinPolicy3(TypedDict):
    k: int
    on_satisfied: NotRequired[Literal['cancel_remaining', 'let_run', None]]
    type: Literal['quorum']


JoinPolicy: TypeAlias = "Union[JoinPolicy1, JoinPolicy2, JoinPolicy3]"


class Lane(TypedDict):
    active: int
    concurrency: Union[int, None]
    configured: bool
    name: str
    rate: Union[LaneRate, None]
    retry_after_ms: Union[int, None]
    state: Literal['active', 'paused', 'draining']
    waiting: int
    weight: int


class LaneRate(TypedDict):
    count: int
    window_ms: int


class LaneConfig(TypedDict):
    concurrency: NotRequired[Union[int, None]]
    rate: NotRequired[Union[LaneConfigRate, None]]
    state: NotRequired[Literal['active', 'paused', 'draining', None]]
    weight: NotRequired[Union[int, None]]


class LaneConfigRate(TypedDict):
    count: int
    window_ms: int


class LanePatch(TypedDict):
    concurrency: NotRequired[Union[int, None]]
    rate: NotRequired[Union[LanePatchRate, None]]
    state: NotRequired[Literal['active', 'paused', 'draining', None]]
    weight: NotRequired[Union[int, None]]


class LanePatchRate(TypedDict):
    count: NotRequired[Union[int, None]]
    window_ms: NotRequired[Union[int, None]]


class Lease(TypedDict):
    claimed_at: str
    epoch: int
    expires_at: Union[str, None]
    id: str
    instance: str
    ttl_ms: int
    worker: str


class Node(TypedDict):
    attempt_timeout_ms: NotRequired[Union[int, None]]
    budgets: NotRequired[Union[list[Union[str, DefaultsBudgetsItem]], None]]
    capabilities: NotRequired[Union[list[str], None]]
    concurrency: NotRequired[Union[DefaultsConcurrency, None]]
    deadline_ms: NotRequired[Union[int, None]]
    debounce: NotRequired[Union[Debounce, None]]
    delay_ms: NotRequired[Union[int, None]]
    delay_until_at: NotRequired[Union[str, None]]
    fairness_key: NotRequired[Union[str, None]]
    id: NotRequired[Union[str, None]]
    idempotency_key: NotRequired[Union[str, None]]
    idempotency_window_ms: NotRequired[Union[int, None]]
    input: NotRequired[Any]
    kind: str
    lane: NotRequired[Union[str, None]]
    name: str
    priority: NotRequired[Union[int, None]]
    quotas: NotRequired[Union[list[str], None]]
    retention_ms: NotRequired[Union[int, None]]
    retry: NotRequired[Union[Retry, None]]
    start_by_ms: NotRequired[Union[int, None]]
    tags: NotRequired[Union[dict[str, str], None]]
    unique_while_active: NotRequired[Union[str, None]]


Op: TypeAlias = "Union[CompleteOp, FailOp, ProgressOp, DelayOp, ReleaseOp, CancelledOp, WaitpointOp, SuspendOp, StepOp, FrameOp, UsageOp, SpawnOp]"


class OpResult1(TypedDict):
    breached: NotRequired[list[str]]
    delayed_until_at: NotRequired[str]
    executions: NotRequired[dict[str, str]]
    ok: Literal[True]
    state: Literal['waiting_dependencies', 'waiting', 'delayed', 'active', 'suspended', 'held', 'completed', 'failed', 'cancelled', 'expired', 'skipped', None]
    waitpoints: NotRequired[list[OpResult1WaitpointsItem]]


class OpResult1WaitpointsItem(TypedDict):
    id: str
    name: str
    token: str


class OpResult2(TypedDict):
    error: Problem


OpResult: TypeAlias = "Union[OpResult1, OpResult2]"


class Problem(TypedDict):
    code: Literal['invalid_json', 'invalid_cursor', 'tls_required', 'unauthorized', 'invalid_token', 'token_expired', 'token_revoked', 'forbidden', 'cross_origin', 'wrong_host', 'not_found', 'unknown_namespace', 'method_not_allowed', 'request_timeout', 'stale_lease', 'already_terminal', 'wrong_state', 'flow_ended', 'idempotency_mismatch', 'id_taken', 'version_mismatch', 'limit_reached', 'lane_draining', 'superseded', 'cursor_expired', 'cursor_unknown', 'payload_too_large', 'invalid_field', 'unknown_field', 'unknown_node', 'unknown_budget', 'unknown_quota', 'cycle', 'too_many', 'namespace_required', 'rate_limited', 'internal', 'unreadable_row', 'store_unavailable', 'shutting_down', 'overloaded']
    detail: str
    holder: NotRequired[Union[HeartbeatAnswerLostItemHolder, None]]
    outcome: NotRequired[Literal['completed', 'failed', 'cancelled', 'expired', 'skipped', None]]
    pointer: NotRequired[str]
    retry_after_ms: NotRequired[int]
    state: NotRequired[str]
    status: int
    title: str
    type: str


class ProgressOp(TypedDict):
    attempt: int
    epoch: int
    execution: str
    lease_id: str
    message: NotRequired[Union[str, None]]
    op: Literal['progress']
    op_id: NotRequired[Union[str, None]]
    percent: NotRequired[Union[float, None]]


class Quota(TypedDict):
    active: int
    concurrency: Union[int, None]
    held: int
    name: str
    rate: Union[LaneRate, None]
    retry_after_ms: Union[int, None]


class QuotaConfig(TypedDict):
    concurrency: NotRequired[Union[int, None]]
    rate: NotRequired[Union[LaneConfigRate, None]]


class QuotaPatch(TypedDict):
    concurrency: NotRequired[Union[int, None]]
    rate: NotRequired[Union[LanePatchRate, None]]


class Relative(TypedDict):
    error: Union[Failure, None]
    execution: str
    node: Union[str, None]
    outcome: Literal['completed', 'failed', 'cancelled', 'expired', 'skipped', None]
    result: Any


class ReleaseOp(TypedDict):
    attempt: int
    epoch: int
    execution: str
    lease_id: str
    op: Literal['release']
    op_id: NotRequired[Union[str, None]]


class Retry(TypedDict):
    backoff: NotRequired[Union[Backoff, None]]
    max_interruptions: NotRequired[Union[int, None]]
    max_retries: NotRequired[Union[int, None]]
    retry_on: NotRequired[Union[list[Literal['transient', 'permanent', 'infrastructure', 'timeout']], None]]


class Schedule(TypedDict):
    catch_up: Literal['none', 'one', 'all']
    created_at: str
    cron: Union[str, None]
    fired: int
    interval_ms: Union[int, None]
    jitter_ms: int
    last_scheduled_at: Union[str, None]
    name: str
    next_at: Union[str, None]
    overlap: Literal['allow', 'skip', 'queue']
    paused: bool
    queued: int
    refused: int
    skipped: int
    submit: Any
    time_zone: Union[str, None]
    version: int


class SchedulePatch(TypedDict):
    catch_up: NotRequired[Literal['none', 'one', 'all', None]]
    cron: NotRequired[Union[str, None]]
    interval_ms: NotRequired[Union[int, None]]
    jitter_ms: NotRequired[Union[int, None]]
    overlap: NotRequired[Literal['allow', 'skip', 'queue', None]]
    paused: NotRequired[Union[bool, None]]
    submit: NotRequired[Union[dict[str, Any], None]]
    time_zone: NotRequired[Union[str, None]]


class ScheduleRun(TypedDict):
    decided_at: str
    error: Union[ScheduleRunError, None]
    execution: Union[str, None]
    flow: Union[str, None]
    manual: bool
    outcome: Union[str, None]
    result: Literal['started', 'skipped', 'refused']
    scheduled_at: str
    state: Union[str, None]


class ScheduleRunError(TypedDict):
    code: str
    detail: str


class ScheduleSpec(TypedDict):
    catch_up: NotRequired[Literal['none', 'one', 'all', None]]
    cron: NotRequired[Union[str, None]]
    interval_ms: NotRequired[Union[int, None]]
    jitter_ms: NotRequired[Union[int, None]]
    overlap: NotRequired[Literal['allow', 'skip', 'queue', None]]
    paused: NotRequired[Union[bool, None]]
    submit: ScheduleSpecSubmit
    time_zone: NotRequired[Union[str, None]]


class ScheduleSpecSubmit(TypedDict):
    execution: NotRequired[Union[Submission, None]]
    flow: NotRequired[Union[FlowSubmission, None]]


class Signal(TypedDict):
    delivered_at: str
    effect: Literal['buffered', 'counted', 'resumed']
    idempotency_key: Union[str, None]
    name: str
    number: int
    payload: Any
    source: str
    taken_by: Union[int, None]
    waitpoint: Union[str, None]
    waitpoint_id: Union[str, None]


class SpawnOp(TypedDict):
    attempt: int
    detach: NotRequired[Union[bool, None]]
    edges: NotRequired[Union[list[Edge], None]]
    epoch: int
    execution: str
    groups: NotRequired[Union[list[Group], None]]
    lease_id: str
    nodes: NotRequired[Union[list[Node], None]]
    op: Literal['spawn']
    op_id: NotRequired[Union[str, None]]


class Spent(TypedDict):
    budget: Union[str, None]
    part: Union[str, None]
    period: int
    spent: dict[str, float]


class Step(TypedDict):
    attempt: int
    duration_ms: Union[int, None]
    kind: Literal['step', 'sleep', 'wait', 'spawn', 'join', 'race']
    name: str
    number: int
    recorded_at: Union[str, None]
    result: Any
    started_at: str
    state: Literal['recorded', 'open']


class StepOp(TypedDict):
    attempt: int
    duration_ms: NotRequired[Union[int, None]]
    epoch: int
    execution: str
    kind: NotRequired[Literal['step', 'sleep', 'wait', 'spawn', 'join', 'race', None]]
    lease_id: str
    name: str
    op: Literal['step']
    op_id: NotRequired[Union[str, None]]
    result: NotRequired[Any]


class Submission(TypedDict):
    attempt_timeout_ms: NotRequired[Union[int, None]]
    budgets: NotRequired[Union[list[Union[str, DefaultsBudgetsItem]], None]]
    capabilities: NotRequired[Union[list[str], None]]
    concurrency: NotRequired[Union[DefaultsConcurrency, None]]
    deadline_ms: NotRequired[Union[int, None]]
    debounce: NotRequired[Union[Debounce, None]]
    delay_ms: NotRequired[Union[int, None]]
    delay_until_at: NotRequired[Union[str, None]]
    fairness_key: NotRequired[Union[str, None]]
    id: NotRequired[Union[str, None]]
    idempotency_key: NotRequired[Union[str, None]]
    idempotency_window_ms: NotRequired[Union[int, None]]
    input: NotRequired[Any]
    kind: str
    lane: NotRequired[Union[str, None]]
    priority: NotRequired[Union[int, None]]
    quotas: NotRequired[Union[list[str], None]]
    retention_ms: NotRequired[Union[int, None]]
    retry: NotRequired[Union[Retry, None]]
    start_by_ms: NotRequired[Union[int, None]]
    tags: NotRequired[Union[dict[str, str], None]]
    unique_while_active: NotRequired[Union[str, None]]


class SuspendOp(TypedDict):
    attempt: int
    condition: NotRequired[Union[Condition, None]]
    epoch: int
    execution: str
    kind: NotRequired[Literal['wait', 'sleep', 'join', None]]
    lease_id: str
    on_timeout: NotRequired[Literal['fail', 'cancel', 'expire', 'resume', 'escalate', None]]
    op: Literal['suspend']
    op_id: NotRequired[Union[str, None]]
    step: NotRequired[Union[str, None]]
    timeout_ms: NotRequired[Union[int, None]]
    waitpoints: NotRequired[Union[list[Union[str, WaitpointRequest]], None]]
    waits: NotRequired[Union[list[Wait], None]]


class Suspension(TypedDict):
    attempt: int
    number: int
    since_at: str
    waits: list[SuspensionWaitsItem]


class SuspensionWaitsItem(TypedDict):
    condition: dict[str, Any]
    escalated: bool
    on_timeout: Literal['fail', 'cancel', 'expire', 'resume', 'escalate']
    step: Union[str, None]
    timeout_at: NotRequired[str]


class UsageOp(TypedDict):
    attempt: int
    budget: str
    dedup_key: NotRequired[Union[str, None]]
    epoch: int
    execution: str
    lease_id: str
    op: Literal['usage']
    op_id: NotRequired[Union[str, None]]
    usage: dict[str, float]


class Wait(TypedDict):
    condition: Condition
    kind: NotRequired[Literal['wait', 'sleep', 'join', None]]
    on_timeout: NotRequired[Literal['fail', 'cancel', 'expire', 'resume', 'escalate', None]]
    step: NotRequired[Union[str, None]]
    timeout_ms: NotRequired[Union[int, None]]


class Waitpoint(TypedDict):
    created_at: str
    execution: str
    expires_at: Union[str, None]
    id: str
    name: str
    prompt: Union[str, None]
    signal: Union[int, None]
    signals: list[str]
    source: Union[str, None]
    state: Literal['open', 'delivered', 'expired', 'revoked']


class WaitpointOp(TypedDict):
    attempt: int
    epoch: int
    execution: str
    expires_ms: NotRequired[Union[int, None]]
    lease_id: str
    name: str
    op: Literal['waitpoint']
    op_id: NotRequired[Union[str, None]]
    prompt: NotRequired[Union[str, None]]
    signals: NotRequired[Union[list[str], None]]
    source: NotRequired[Union[str, None]]


class WaitpointRequest(TypedDict):
    expires_ms: NotRequired[Union[int, None]]
    name: str
    prompt: NotRequired[Union[str, None]]
    signals: NotRequired[Union[list[str], None]]
    source: NotRequired[Union[str, None]]


class Worker(TypedDict):
    capabilities: NotRequired[list[str]]
    draining: bool
    ended_at: Union[str, None]
    ended_reason: Literal['deleted', 'expired', 'superseded', None]
    incarnation: NotRequired[Union[str, None]]
    instance: NotRequired[str]
    kinds: NotRequired[Union[list[str], None]]
    lanes: NotRequired[list[str]]
    live: bool
    seen_at: str
    sessions: list[WorkerSessionsItem]
    superseded: list[WorkerSupersededItem]
    worker: NotRequired[str]


class WorkerSessionsItem(TypedDict):
    draining: bool
    lease_ttl_ms: int
    registered_at: str
    renewed_at: Union[str, None]
    seen_at: str


class WorkerSupersededItem(TypedDict):
    ended_at: str
    incarnation: str


class BulkJob(TypedDict):
    action: dict[str, Any]
    actor: str
    created_at: str
    done: int
    ended_at: Union[str, None]
    filter: dict[str, Any]
    id: str
    matched: int
    position_at: Union[str, None]
    refused: list[BulkJobRefusedItem]
    refused_count: int
    state: Literal['running', 'completed', 'stopped']
    unchanged: int


class BulkJobRefusedItem(TypedDict):
    code: str
    id: str


class Clock(TypedDict):
    manual: bool
    now_at: str


ExecutionResult: TypeAlias = "FlowResultResultsValue"


class Health(TypedDict):
    status: str
    version: str


class Namespace(TypedDict):
    deleting: bool
    name: str
    retention_ms: Union[int, None]
    suspension_timeout_ms: Union[int, None]
    weight: int


class Readiness(TypedDict):
    clock_behind_ms: int
    status: str
    store: str
    uncovered_namespaces: Union[int, None]


class Summary(TypedDict):
    attempt: Union[int, None]
    document: Any
    version: int


class Webhook(TypedDict):
    created_at: str
    dead: int
    delivered: int
    delivered_at: Union[str, None]
    failing_since_at: Union[str, None]
    filter: WebhookFilter
    last_error: Union[str, None]
    missed: int
    name: str
    old_secret_expires_at: Union[str, None]
    paused: bool
    paused_reason: Literal['operator', 'failing', 'gone', 'dead_letters', None]
    pending: int
    taken_until_at: str
    types: list[str]
    url: str


class WebhookFilter(TypedDict):
    execution: Union[str, None]
    flow: Union[str, None]
    tag: Union[str, None]


class ActOnExecutionsAnswer(TypedDict):
    done: NotRequired[int]
    duplicate: bool
    ids: list[str]
    matched: int
    not_found: list[str]
    refused: list[ActOnExecutionsAnswerRefusedItem]
    unchanged: int
    would_change: NotRequired[int]


class ActOnExecutionsAnswerRefusedItem(TypedDict):
    code: str
    detail: str
    id: str


class AdvanceClockAnswer(TypedDict):
    duplicate: bool
    now_at: str
    reached: bool


class CancelExecutionAnswer(TypedDict):
    duplicate: bool
    execution: Execution


class CancelFlowAnswer(TypedDict):
    duplicate: bool
    flow: Flow


class CreateKeyAnswer(TypedDict):
    created_at: str
    duplicate: bool
    expires_at: Union[str, None]
    id: str
    key: Union[str, None]
    last_used_at: Union[str, None]
    name: str
    namespaces: list[str]
    revoked_at: Union[str, None]
    role: Literal['reader', 'submitter', 'worker', 'operator', 'admin']


class DeleteInboxAnswer(TypedDict):
    number: int


DeleteNamespaceAnswer: TypeAlias = "BulkJob"


class DeleteScheduleAnswer(TypedDict):
    name: str
    removed: bool


class DrainWorkerAnswer(TypedDict):
    draining: bool
    duplicate: bool
    instance: str


class ListAttemptsAnswer(TypedDict):
    items: list[Attempt]
    next_cursor: Union[str, None]


class ListBudgetsAnswer(TypedDict):
    items: list[Budget]
    next_cursor: Union[str, None]


class ListBulkJobsAnswer(TypedDict):
    items: list[BulkJob]
    next_cursor: Union[str, None]


class ListChildrenAnswer(TypedDict):
    items: list[Relative]
    next_cursor: Union[str, None]


class ListDeliveriesAnswer(TypedDict):
    items: list[ListDeliveriesAnswerItemsItem]
    next_cursor: Union[str, None]


class ListDeliveriesAnswerItemsItem(TypedDict):
    ended_at: Union[str, None]
    error: Union[str, None]
    event_at: str
    event_cursor: str
    execution: Union[str, None]
    failures: int
    flow: Union[str, None]
    id: str
    next_attempt_at: Union[str, None]
    state: Literal['pending', 'delivered', 'dead']
    status: Union[int, None]
    type: str


class ListEventsAnswer(TypedDict):
    items: list[Event]
    next_cursor: Union[str, None]
    resume_cursor: Union[str, None]


class ListExecutionEventsAnswer(TypedDict):
    items: list[Event]
    next_cursor: Union[str, None]


class ListExecutionWaitpointsAnswer(TypedDict):
    items: list[Waitpoint]
    next_cursor: Union[str, None]


class ListExecutionsAnswer(TypedDict):
    items: list[Execution]
    next_cursor: Union[str, None]


class ListFlowsAnswer(TypedDict):
    items: list[Flow]
    next_cursor: Union[str, None]


class ListFramesAnswer(TypedDict):
    attempt: Union[int, None]
    closed: bool
    items: list[Frame]
    next_cursor: Union[str, None]


class ListInboxAnswer(TypedDict):
    items: list[ListInboxAnswerItemsItem]
    next_cursor: Union[str, None]
    oldest_pending_at: Union[str, None]
    pending: int
    refused_count: int


class ListInboxAnswerItemsItem(TypedDict):
    id: str
    number: int
    problem: Union[ListInboxAnswerItemsItemProblem, None]
    refused_at: Union[str, None]
    role: str
    submitted_at: str
    type: Literal['execution', 'flow']


class ListInboxAnswerItemsItemProblem(TypedDict):
    code: str
    detail: str
    pointer: Union[str, None]


class ListKeysAnswer(TypedDict):
    items: list[ListKeysAnswerItemsItem]
    next_cursor: Union[str, None]


class ListKeysAnswerItemsItem(TypedDict):
    created_at: str
    expires_at: Union[str, None]
    id: str
    last_used_at: Union[str, None]
    name: str
    namespaces: list[str]
    revoked_at: Union[str, None]
    role: Literal['reader', 'submitter', 'worker', 'operator', 'admin']


class ListLanesAnswer(TypedDict):
    items: list[Lane]
    next_cursor: Union[str, None]


class ListNamespacesAnswer(TypedDict):
    items: list[Namespace]
    next_cursor: Union[str, None]


class ListQuotasAnswer(TypedDict):
    items: list[Quota]
    next_cursor: Union[str, None]


class ListRunsAnswer(TypedDict):
    items: list[ScheduleRun]
    next_cursor: Union[str, None]


class ListSchedulesAnswer(TypedDict):
    items: list[Schedule]
    next_cursor: Union[str, None]


class ListSignalsAnswer(TypedDict):
    items: list[Signal]
    next_cursor: Union[str, None]


class ListStatsAnswer(TypedDict):
    items: list[ListStatsAnswerItemsItem]
    next_cursor: Union[str, None]


class ListStatsAnswerItemsItem(TypedDict):
    cancelled: int
    completed: int
    expired: int
    failed: int
    lane: Union[str, None]
    minute_at: str
    queue_ms: ListStatsAnswerItemsItemQueueMs
    retries: int
    run_ms: ListStatsAnswerItemsItemQueueMs
    skipped: int
    started: int
    submitted: int


class ListStatsAnswerItemsItemQueueMs(TypedDict):
    count: int
    max: Union[float, None]
    mean: Union[float, None]
    p50: Union[float, None]
    p95: Union[float, None]


class ListStepsAnswer(TypedDict):
    items: list[Step]
    next_cursor: Union[str, None]


ListUpstreamsAnswer: TypeAlias = "ListChildrenAnswer"


class ListUsageAnswer(TypedDict):
    items: list[Spent]
    next_cursor: Union[str, None]


class ListWaitpointKeysAnswer(TypedDict):
    items: list[ListWaitpointKeysAnswerItemsItem]
    next_cursor: Union[str, None]


class ListWaitpointKeysAnswerItemsItem(TypedDict):
    created_at: str
    expires_at: Union[str, None]
    key_id: str


ListWaitpointsAnswer: TypeAlias = "ListExecutionWaitpointsAnswer"


class ListWebhooksAnswer(TypedDict):
    items: list[Webhook]
    next_cursor: Union[str, None]


class ListWorkersAnswer(TypedDict):
    items: list[Worker]
    next_cursor: Union[str, None]


class LookAtWaitpointAnswer(TypedDict):
    decided_at: Union[str, None]
    decided_by: Union[list[str], None]
    decided_with: Union[str, None]
    expires_at: Union[str, None]
    name: str
    outcome: Literal['completed', 'failed', 'cancelled', 'expired', 'skipped', None]
    prompt: Union[str, None]
    signals: list[str]
    state: Literal['open', 'delivered', 'expired', 'revoked']
    waitpoint: str


class NextTimesAnswer(TypedDict):
    items: list[NextTimesAnswerItemsItem]
    next_cursor: Union[str, None]


class NextTimesAnswerItemsItem(TypedDict):
    scheduled_at: str


PatchWebhookAnswer: TypeAlias = "Webhook"


class PauseLaneAnswer(TypedDict):
    active: int
    concurrency: Union[int, None]
    configured: bool
    duplicate: bool
    name: str
    rate: Union[LaneRate, None]
    retry_after_ms: Union[int, None]
    state: Literal['active', 'paused', 'draining']
    waiting: int
    weight: int


PrioritiseExecutionAnswer: TypeAlias = "CancelExecutionAnswer"


PutNamespaceAnswer: TypeAlias = "Namespace"


PutWebhookAnswer: TypeAlias = "PutWebhookAnswer_"


class PutWebhookAnswer_(TypedDict):
    created_at: str
    dead: int
    delivered: int
    delivered_at: Union[str, None]
    failing_since_at: Union[str, None]
    filter: WebhookFilter
    last_error: Union[str, None]
    missed: int
    name: str
    old_secret_expires_at: Union[str, None]
    paused: bool
    paused_reason: Literal['operator', 'failing', 'gone', 'dead_letters', None]
    pending: int
    secret: Union[str, None]
    taken_until_at: str
    types: list[str]
    url: str


class ReissueWaitpointAnswer(TypedDict):
    duplicate: bool
    token: Union[str, None]
    waitpoint: Waitpoint


RemoveBudgetAnswer: TypeAlias = "DeleteScheduleAnswer"


RemoveLaneAnswer: TypeAlias = "DeleteScheduleAnswer"


RemoveQuotaAnswer: TypeAlias = "DeleteScheduleAnswer"


RemoveWebhookAnswer: TypeAlias = "DeleteScheduleAnswer"


class RemoveWorkerAnswer(TypedDict):
    instance: str
    released: list[Fence]


class ReplayDeliveryAnswer(TypedDict):
    delivery: ListDeliveriesAnswerItemsItem
    duplicate: bool


class ReplayExecutionAnswer(TypedDict):
    dry_run: NotRequired[bool]
    duplicate: NotRequired[bool]
    execution: Execution
    would_reopen: NotRequired[list[str]]


class ReportAnswer(TypedDict):
    claim_error: NotRequired[Problem]
    claims: list[Claim]
    drain: NotRequired[bool]
    results: list[OpResult]


class ReportUsageAnswer(TypedDict):
    breached: list[str]
    budget: Budget
    duplicate: bool


RescheduleExecutionAnswer: TypeAlias = "CancelExecutionAnswer"


class ResetBudgetAnswer(TypedDict):
    budget: Budget
    duplicate: bool


ResumeExecutionAnswer: TypeAlias = "CancelExecutionAnswer"


ResumeLaneAnswer: TypeAlias = "PauseLaneAnswer"


RetryInboxAnswer: TypeAlias = "DeleteInboxAnswer"


RevokeKeyAnswer: TypeAlias = "ListKeysAnswerItemsItem"


RevokeLeaseAnswer: TypeAlias = "CancelExecutionAnswer"


class RevokeWaitpointAnswer(TypedDict):
    duplicate: bool
    waitpoint: Waitpoint


class RotateWaitpointKeysAnswer(TypedDict):
    duplicate: bool
    grace_ms: int
    key_id: str


class RotateWebhookSecretAnswer(TypedDict):
    duplicate: bool
    grace_ms: int
    secret: Union[str, None]


class RunScheduleAnswer(TypedDict):
    duplicate: bool
    execution: NotRequired[Execution]
    flow: NotRequired[Flow]


class SendSignalAnswer(TypedDict):
    duplicate: bool
    effect: Literal['buffered', 'counted', 'resumed']
    signal: SendSignalAnswerSignal


class SendSignalAnswerSignal(TypedDict):
    name: str
    number: int
    source: str


class StartBulkJobAnswer(TypedDict):
    action: dict[str, Any]
    actor: str
    created_at: str
    done: int
    duplicate: bool
    ended_at: Union[str, None]
    filter: dict[str, Any]
    id: str
    matched: int
    position_at: Union[str, None]
    refused: list[BulkJobRefusedItem]
    refused_count: int
    state: Literal['running', 'completed', 'stopped']
    unchanged: int


StopBulkJobAnswer: TypeAlias = "BulkJob"


class SubmitExecutionAnswer(TypedDict):
    debounced: NotRequired[bool]
    duplicate: bool
    execution: Execution


class SubmitExecutionsAnswer(TypedDict):
    results: list[Union[SubmitExecutionAnswer, OpResult2]]


TagExecutionAnswer: TypeAlias = "CancelExecutionAnswer"


class TestWebhookAnswer(TypedDict):
    delivered: bool
    error: Union[str, None]
    id: str
    status: Union[int, None]
    took_ms: int
