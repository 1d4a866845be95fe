// Lanes, quotas, budgets and schedules: named configurations, created or replaced by `put`, changed by `patch`.

import { type Duration, milliseconds } from "../duration.js";
import { Flow } from "../flow.js";
import { type Kind, kindName } from "../task.js";
import type * as api from "../types.js";
import type { SubmitOptions } from "./client.js";
import { pages } from "./resources.js";
import type { Transport } from "./transport.js";

/** The calls that all named configurations have. */
class Named<Shown, Config, Patch> {
  constructor(
    protected readonly transport: Transport,
    private readonly collection: string,
  ) {}

  /** Creates or replaces the configuration of this name. */
  put(name: string, config: Config): Promise<Shown> {
    return this.transport.change("PUT", this.path(name), config);
  }

  /** Changes the fields that it names. Null lifts a limit. */
  patch(name: string, patch: Patch): Promise<Shown> {
    return this.transport.change("PATCH", this.path(name), patch);
  }

  /** Returns the configuration with its current use. */
  get(name: string): Promise<Shown> {
    return this.transport.get(this.path(name));
  }

  /** Yields all, ordered by name. */
  list(): AsyncGenerator<Shown> {
    return pages(this.transport, this.collection);
  }

  /** Deletes the configuration. */
  async delete(name: string): Promise<void> {
    await this.transport.change("DELETE", this.path(name));
  }

  protected path(name: string, action = ""): string {
    return `${this.collection}/${encodeURIComponent(name)}${action}`;
  }
}

/** The lanes of the namespace. */
export class Lanes extends Named<api.Lane, api.LaneConfig, api.LanePatch> {
  constructor(transport: Transport) {
    super(transport, "/v1/lanes");
  }

  /** Stops claims from the lane. */
  pause(name: string): Promise<api.PauseLaneAnswer> {
    return this.transport.post(this.path(name, "/pause"));
  }

  /** Allows claims from the lane again. */
  resume(name: string): Promise<api.ResumeLaneAnswer> {
    return this.transport.post(this.path(name, "/resume"));
  }
}

/** The quotas of the namespace. */
export class Quotas extends Named<api.Quota, api.QuotaConfig, api.QuotaPatch> {
  constructor(transport: Transport) {
    super(transport, "/v1/quotas");
  }
}

/** The budgets of the namespace. */
export class Budgets extends Named<api.Budget, api.BudgetConfig, api.BudgetPatch> {
  constructor(transport: Transport) {
    super(transport, "/v1/budgets");
  }

  /** Counts spending that no handler reports. The same `dedupKey` counts once. */
  usage(name: string, request: api.ReportUsageRequest): Promise<api.ReportUsageAnswer> {
    return this.transport.post(this.path(name, "/usage"), request);
  }

  /** Begins a new period. */
  async reset(name: string): Promise<api.Budget> {
    const answer = await this.transport.post<api.ResetBudgetAnswer>(this.path(name, "/reset"));
    return answer.budget;
  }
}

/** The submission of a schedule: an execution, or a flow. */
export type ScheduleTarget =
  | Flow
  | { execution: Omit<SubmitOptions, "traceparent"> & { kind: Kind; input?: unknown } }
  | { flow: Flow | api.FlowSubmission };

/** The fields of a schedule: `cron` with a `timeZone`, or `interval`. */
export type ScheduleConfig = Omit<api.ScheduleSpec, "submit"> & {
  submit: ScheduleTarget;
  /** The elapsed time between two runs, instead of `intervalMs`. Not with `cron`. */
  interval?: Duration;
};

/** The schedules of the namespace. */
export class Schedules extends Named<api.Schedule, ScheduleConfig, Partial<ScheduleConfig>> {
  constructor(transport: Transport) {
    super(transport, "/v1/schedules");
  }

  /** Creates or replaces the schedule of this name. */
  override put(name: string, config: ScheduleConfig): Promise<api.Schedule> {
    return this.transport.change("PUT", this.path(name), scheduleFields(config));
  }

  /** Changes the fields that it names. */
  override patch(name: string, patch: Partial<ScheduleConfig>): Promise<api.Schedule> {
    return this.transport.change("PATCH", this.path(name), scheduleFields(patch));
  }

  /** Submits once, now. */
  run(name: string): Promise<api.RunScheduleAnswer> {
    return this.transport.post(this.path(name, "/run"));
  }

  /** Returns the next times of the schedule. */
  next(name: string, count?: number): Promise<api.NextTimesAnswer> {
    return this.transport.get(this.path(name, "/next"), { count });
  }
}

function scheduleFields({ submit, interval, ...fields }: Partial<ScheduleConfig>): api.SchedulePatch {
  const intervalMs = interval === undefined ? fields.intervalMs : milliseconds(interval);
  return { ...fields, intervalMs, submit: submit && targetFields(submit) };
}

function targetFields(target: ScheduleTarget): api.ScheduleSpec["submit"] {
  if (target instanceof Flow) return { flow: target.submission() };
  if ("flow" in target) return { flow: target.flow instanceof Flow ? target.flow.submission() : target.flow };
  const { kind, ...fields } = target.execution;
  return { execution: { ...fields, kind: kindName(kind) } };
}
