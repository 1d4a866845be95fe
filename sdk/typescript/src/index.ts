// The public API of the package.

export {
  type BatchItem,
  Client,
  type ListOptions,
  type SignalOptions,
  type SubmitOptions,
  type TaskItem,
} from "./client/client.js";
export type { EventsOptions, FramesOptions } from "./client/feeds.js";
export type { Flows, ListFlowsOptions } from "./client/flows.js";
export type { Budgets, Lanes, Quotas, ScheduleConfig, Schedules, ScheduleTarget } from "./client/limits.js";
export type { BulkJobs, ListWaitpointsOptions, Waitpoints, Webhooks, Workers } from "./client/resources.js";
export { type Ended, type FlowEnded, FlowRun, Run, type WaitOptions } from "./client/run.js";
export type { ClientOptions } from "./client/transport.js";
export type { Duration } from "./duration.js";
export {
  AlreadyTerminal,
  AttemptOver,
  BadRequest,
  Cancelled,
  Conflict,
  ConnectionFailed,
  Delay,
  Forbidden,
  Gone,
  IdempotencyMismatch,
  Invalid,
  NotCompleted,
  NotFound,
  PayloadTooLarge,
  Permanent,
  Problem,
  RateLimited,
  Release,
  Retry,
  SelvedgeError,
  StaleLease,
  Superseded,
  Suspended,
  Unauthorized,
  Unavailable,
  VersionMismatch,
  WaitTimeout,
} from "./errors.js";
export {
  anyOf,
  type Dependencies,
  Flow,
  type FlowOptions,
  Node,
  type NodeOptions,
  type Policy,
  quorum,
  type Upstream,
  type When,
} from "./flow.js";
export type { Json } from "./json.js";
export type { ParseSchema, ResultType, Schema, SchemaInput, SchemaOutput, StandardSchema } from "./schema.js";
export { type SignalType, signal } from "./signal.js";
export { type InputThen, type Kind, type Task, task } from "./task.js";
export type * as api from "./types.js";
export type { Attempt, Event, Execution, Explanation, Frame } from "./types.js";
export type { Approval, ApprovalOptions, Vote } from "./worker/approval.js";
export type { Branch, NamedBranch } from "./worker/branches.js";
export type {
  Branches,
  Context,
  FrameOptions,
  ReceivedSignal,
  SpawnOptions,
  UsageResult,
  WaitLimit,
  WaitResult,
} from "./worker/context.js";
export type { WorkerSummary } from "./worker/driver.js";
export type { BatchEntry, BatchHandler, Handler, TaskOptions } from "./worker/handlers.js";
export type { Lifespan } from "./worker/lifespan.js";
export type { Logger } from "./worker/logger.js";
export type { Middleware, Next } from "./worker/middleware.js";
export type { Child, UpstreamOutcome, Upstreams } from "./worker/relatives.js";
export { type Until, until } from "./worker/until.js";
export type { Waitpoint } from "./worker/waitpoint.js";
export { Worker, type WorkerOptions } from "./worker/worker.js";
