//! The actions of operators on executions, alone or in bulk.

use crate::fields::Fields;
use crate::schema;
use crate::shape::{Input, Shape};
use crate::values::Millis;
use crate::write;
use crate::{Refusal, Request};
use selvedge_core::name::LABEL_LIMIT;
use selvedge_core::rules::operator::Action;
use selvedge_core::submission::{When, check_priority, check_tags};
use selvedge_core::{Name, Timestamp};
use std::collections::BTreeMap;

/// An action on many executions.
#[derive(Clone, Debug, PartialEq, Request)]
#[api(tag = "type")]
pub enum BulkAction {
    Cancel(Cancel),
    Replay,
    Priority(Prioritise),
    Reschedule(Reschedule),
    Tags(ChangeTags),
}

#[derive(Clone, Debug, Default, PartialEq, Request)]
pub struct Cancel {
    pub reason: Option<String>,
    pub grace_ms: Option<Millis>,
}

#[derive(Clone, Debug, PartialEq, Request)]
pub struct Prioritise {
    pub priority: Priority,
}

/// One of both fields is given.
#[derive(Clone, Debug, PartialEq, Request)]
#[api(needs_one_of("until_at", "delay_ms"), check = Reschedule::check)]
pub struct Reschedule {
    /// Give until_at or delay_ms.
    pub until_at: Option<Timestamp>,
    /// Give until_at or delay_ms.
    pub delay_ms: Option<Millis>,
}

#[derive(Clone, Debug, Default, PartialEq, Request)]
pub struct ChangeTags {
    pub set: Option<Tags>,
    pub remove: Option<Vec<Label>>,
}

impl Reschedule {
    fn check(&self, fields: &Fields<'_>) -> Result<(), Refusal> {
        match (self.until_at, self.delay_ms) {
            (Some(_), Some(_)) => {
                Err(fields.refuse("delay_ms", "cannot be combined with until_at; give only one of them"))
            }
            (None, None) => Err(fields.refuse("until_at", "is missing; give until_at or delay_ms")),
            (Some(_), None) | (None, Some(_)) => Ok(()),
        }
    }

    /// Returns the new earliest start.
    fn until(&self) -> When {
        match (self.until_at, self.delay_ms) {
            (Some(time), _) => When::At(time),
            (None, delay) => When::AfterMs(delay.map_or(0, |Millis(ms)| ms)),
        }
    }
}

impl From<BulkAction> for Action {
    fn from(action: BulkAction) -> Action {
        match action {
            BulkAction::Cancel(Cancel { reason, grace_ms }) => {
                Action::Cancel { reason, grace_ms: grace_ms.map_or(0, |Millis(ms)| ms) }
            }
            BulkAction::Replay => Action::Replay,
            BulkAction::Priority(Prioritise { priority: Priority(priority) }) => {
                Action::Prioritise { priority }
            }
            BulkAction::Reschedule(reschedule) => Action::Reschedule { until: reschedule.until() },
            BulkAction::Tags(ChangeTags { set, remove }) => {
                let remove = remove.unwrap_or_default().into_iter().map(|Label(name)| name).collect();
                Action::Tag { set: set.unwrap_or_default().0, remove }
            }
        }
    }
}

/// A priority, from -100 to 100.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Priority(pub i64);

impl Shape for Priority {
    fn schema() -> schema::Schema {
        schema::priority()
    }

    fn read(input: &Input<'_, '_>) -> Result<Self, Refusal> {
        let priority = i64::read(input)?;
        check_priority(&input.pointer(), priority)?;
        Ok(Priority(priority))
    }

    fn write(&self, out: &mut Vec<u8>) {
        self.0.write(out);
    }
}

/// Tags with their values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tags(pub BTreeMap<String, String>);

impl Shape for Tags {
    fn schema() -> schema::Schema {
        schema::tags()
    }

    fn read(input: &Input<'_, '_>) -> Result<Self, Refusal> {
        check_tags(&input.pointer(), input.text_map()?).map(Tags)
    }

    fn write(&self, out: &mut Vec<u8>) {
        write::value(out, &self.0);
    }
}

/// The name of a tag or a capability.
#[derive(Clone, Debug, PartialEq)]
pub struct Label(pub String);

impl Shape for Label {
    fn schema() -> schema::Schema {
        schema::label()
    }

    fn read(input: &Input<'_, '_>) -> Result<Self, Refusal> {
        let text = String::read(input)?;
        Name::parse(&input.pointer(), &text, LABEL_LIMIT)?;
        Ok(Label(text))
    }

    fn write(&self, out: &mut Vec<u8>) {
        self.0.write(out);
    }
}
