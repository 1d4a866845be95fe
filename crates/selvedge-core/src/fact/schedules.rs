//! Facts about schedules.

use super::declaration::declare;
use crate::schedule::RunSubject;
use crate::{Name, Timestamp};

declare! {
    /// An operator created or changed a schedule.
    pub struct ScheduleSaved { schedule: Name, paused: bool, }
    publishes "operator.schedule_saved" { "schedule": schedule, "paused": paused };

    /// An operator deleted a schedule.
    pub struct ScheduleDeleted { schedule: Name, }
    publishes "operator.schedule_deleted" { "schedule": schedule };

    /// A time of a schedule submitted an execution or a flow.
    pub struct ScheduleFired {
        schedule: Name,
        /// The time that fired.
        scheduled_at: Timestamp,
        /// True if a caller asked for it.
        manual: bool,
        /// The execution or flow.
        run: RunSubject,
    }
    publishes "schedule.fired" { "schedule": schedule, "manual": manual } with "scheduled_at" = scheduled_at;

    /// A time of a schedule started no run, because one lived or too many waited.
    pub struct ScheduleSkipped { schedule: Name, scheduled_at: Timestamp, }
    publishes "schedule.skipped" { "schedule": schedule } with "scheduled_at" = scheduled_at;

    /// The submission of a schedule was refused.
    pub struct ScheduleRefused {
        schedule: Name,
        scheduled_at: Timestamp,
        /// The code of the refusal.
        code: String,
        /// The message of the refusal.
        detail: String,
    }
    publishes "schedule.refused" { "schedule": schedule, "code": code, "detail": detail }
        with "scheduled_at" = scheduled_at;
}
