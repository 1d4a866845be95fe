// Lanes, quotas, budgets and schedules: named configurations, created or replaced by `put`, changed by `patch`.

import type * as api from "../types.js";
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

/** The schedules of the namespace. */
export class Schedules extends Named<api.Schedule, api.ScheduleSpec, api.SchedulePatch> {
  constructor(transport: Transport) {
    super(transport, "/v1/schedules");
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
