//! Facts about schedules.

use super::Recorded;
use super::events::{EventBody, time_data};
use crate::schedule::RunSubject;
use crate::{Name, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// An operator created or changed a schedule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScheduleSaved {
    /// The schedule's name.
    pub schedule: Name,
    /// True if it is paused.
    pub paused: bool,
}

impl Recorded for ScheduleSaved {
    fn public_events(&self) -> Vec<EventBody> {
        let Self { schedule, paused } = self;
        vec![("operator.schedule_saved", json!({ "schedule": schedule, "paused": paused }))]
    }
}

/// An operator deleted a schedule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScheduleDeleted {
    /// The schedule's name.
    pub schedule: Name,
}

impl Recorded for ScheduleDeleted {
    fn public_events(&self) -> Vec<EventBody> {
        let Self { schedule } = self;
        vec![("operator.schedule_deleted", json!({ "schedule": schedule }))]
    }
}

/// A time of a schedule submitted an execution or a flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScheduleFired {
    /// The schedule's name.
    pub schedule: Name,
    /// The time that fired.
    pub scheduled_at: Timestamp,
    /// True if a caller asked for it.
    pub manual: bool,
    /// The execution or flow.
    pub run: RunSubject,
}

impl Recorded for ScheduleFired {
    fn public_events(&self) -> Vec<EventBody> {
        let Self { schedule, scheduled_at, manual, run: _ } = self;
        let mut data = time_data("scheduled_at", Some(*scheduled_at));
        data["schedule"] = json!(schedule);
        data["manual"] = json!(manual);
        vec![("schedule.fired", data)]
    }
}

/// A time of a schedule started no run, because one lived or too many waited.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScheduleSkipped {
    /// The schedule's name.
    pub schedule: Name,
    pub scheduled_at: Timestamp,
}

impl Recorded for ScheduleSkipped {
    fn public_events(&self) -> Vec<EventBody> {
        let Self { schedule, scheduled_at } = self;
        let mut data = time_data("scheduled_at", Some(*scheduled_at));
        data["schedule"] = json!(schedule);
        vec![("schedule.skipped", data)]
    }
}

/// The submission of a schedule was refused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScheduleRefused {
    /// The schedule's name.
    pub schedule: Name,
    pub scheduled_at: Timestamp,
    /// The code of the refusal.
    pub code: String,
    /// The message of the refusal.
    pub detail: String,
}

impl Recorded for ScheduleRefused {
    fn public_events(&self) -> Vec<EventBody> {
        let Self { schedule, scheduled_at, code, detail } = self;
        let mut data = time_data("scheduled_at", Some(*scheduled_at));
        data["schedule"] = json!(schedule);
        data["code"] = json!(code);
        data["detail"] = json!(detail);
        vec![("schedule.refused", data)]
    }
}
