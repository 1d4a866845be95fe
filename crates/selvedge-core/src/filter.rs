//! The filter of execution lists and bulk actions, and positions in a list.
//!
//! Lists are ordered by submission, newest first. A store follows the index that is narrowest for a filter and checks
//! the other conditions row by row, first against the [columns](Listed) of the index scan and then against the row.
//! [`Filter::matches`] alone defines the meaning of a filter.

use crate::history::newest_claim;
use crate::state::StateName;
use crate::{ClassId, Execution, ExecutionId, FlowId, Name, NamespaceId, Timestamp};
use serde::{Deserialize, Serialize};

/// Selects executions. All given conditions must match. Jobs store it as JSON: fields are never renamed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Filter {
    pub namespace: NamespaceId,
    /// The classes, in id order; none means all. The engine derives them from lane and kind.
    pub classes: Option<Vec<ClassId>>,
    /// The public states; empty means all.
    pub states: Vec<StateName>,
    /// The classes whose lane is paused, in id order. Their waiting executions count as held.
    pub paused: Vec<ClassId>,
    pub flow: Option<FlowId>,
    /// Tags, each written `name:value`. An execution must have all of them.
    pub tags: Vec<String>,
    /// The worker of the latest attempt, by its name or by its instance.
    pub worker: Option<String>,
    /// Text that the latest error contains, in upper or lower case.
    pub error: Option<String>,
    /// The earliest time of submission, inclusive.
    pub submitted_after: Option<Timestamp>,
    /// The latest time of submission, exclusive.
    pub submitted_before: Option<Timestamp>,
    /// The earliest end, inclusive. Only executions that have ended match.
    pub ended_after: Option<Timestamp>,
    /// The latest end, exclusive. Only executions that have ended match.
    pub ended_before: Option<Timestamp>,
}

/// The columns of an execution that a scan of an index reads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Listed {
    pub position: ListPosition,
    pub class: ClassId,
    /// The stored state.
    pub state: StateName,
    /// The end, if the execution has ended.
    pub ended_at: Option<Timestamp>,
}

/// The payloads that a list reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Payloads {
    /// True to read inputs.
    pub input: bool,
    /// True to read results.
    pub result: bool,
}

impl Payloads {
    /// Neither inputs nor results.
    pub const NONE: Payloads = Payloads { input: false, result: false };
    /// Inputs and results.
    pub const ALL: Payloads = Payloads { input: true, result: true };
}

impl Filter {
    /// Selects all executions of a namespace.
    pub fn all(namespace: NamespaceId) -> Self {
        Filter {
            namespace,
            classes: None,
            states: Vec::new(),
            paused: Vec::new(),
            flow: None,
            tags: Vec::new(),
            worker: None,
            error: None,
            submitted_after: None,
            submitted_before: None,
            ended_after: None,
            ended_before: None,
        }
    }

    /// Reports whether an execution matches.
    pub fn matches(&self, row: &Execution) -> bool {
        let (position, ended_at) = (ListPosition::of(row), row.ended_at);
        let listed = Listed { position, class: row.class, state: row.state.name(), ended_at };
        let has_tag = |tag: &String| {
            tag.split_once(':')
                .is_some_and(|(name, value)| row.tags.get(name).is_some_and(|own| own == value))
        };
        row.namespace == self.namespace
            && self.may_match(&listed)
            && self.flow.is_none_or(|flow| row.flow() == flow)
            && self.submitted_after.is_none_or(|from| row.submitted_at >= from)
            && self.submitted_before.is_none_or(|until| row.submitted_at < until)
            && self.tags.iter().all(has_tag)
            && self.error.as_deref().is_none_or(|text| has_error(row, text))
            && self.worker.as_deref().is_none_or(|worker| ran_on(row, worker))
    }

    /// Reports whether an execution with these columns can match: its class, state and end do.
    pub fn may_match(&self, listed: &Listed) -> bool {
        let Listed { class, state, ended_at, .. } = listed;
        self.classes.as_ref().is_none_or(|classes| contains(classes, *class))
            && (self.states.is_empty() || self.states.contains(&self.public_state(*state, *class)))
            && self.ended_after.is_none_or(|from| ended_at.is_some_and(|at| at >= from))
            && self.ended_before.is_none_or(|until| ended_at.is_some_and(|at| at < until))
    }

    /// Reports whether an index scan with the conditions on namespace, class, state, flow, time of submission and at
    /// most one tag finds exactly the executions that match.
    pub fn is_indexed(&self) -> bool {
        self.tags.len() <= 1
            && self.worker.is_none()
            && self.error.is_none()
            && self.ended_after.is_none()
            && self.ended_before.is_none()
            && (self.paused.is_empty() || self.classes.is_some())
    }

    /// Returns the time before which every matching execution was submitted: none ends before its submission.
    pub fn submission_bound(&self) -> Option<Timestamp> {
        [self.submitted_before, self.ended_before].into_iter().flatten().min()
    }

    /// Returns filters whose states are stored states. Together they select what this filter selects, no execution
    /// twice.
    pub fn by_stored_state(&self) -> Vec<Filter> {
        let asks = |state: StateName| self.states.contains(&state);
        let stored = Filter { paused: Vec::new(), ..self.clone() };
        if asks(StateName::Waiting) == asks(StateName::Held) || self.paused.is_empty() {
            return vec![stored];
        }
        let is_paused = |class: &ClassId| contains(&self.paused, *class);
        let waiting = |classes: Vec<ClassId>| Filter {
            states: vec![StateName::Waiting],
            classes: Some(classes),
            ..stored.clone()
        };
        if asks(StateName::Held) {
            let asked = |class: &&ClassId| self.classes.as_ref().is_none_or(|asked| contains(asked, **class));
            let paused = self.paused.iter().filter(asked).copied().collect();
            return vec![waiting(paused), stored];
        }
        let Some(classes) = &self.classes else {
            // Without a list of all classes, the waiting executions of paused lanes are left out row by row.
            return vec![stored];
        };
        let open = waiting(classes.iter().filter(|class| !is_paused(class)).copied().collect());
        let mut others = stored;
        others.states.retain(|state| *state != StateName::Waiting);
        if others.states.is_empty() { vec![open] } else { vec![open, others] }
    }

    /// Returns the public state: waiting executions of paused lanes are held.
    fn public_state(&self, state: StateName, class: ClassId) -> StateName {
        match state == StateName::Waiting && contains(&self.paused, class) {
            true => StateName::Held,
            false => state,
        }
    }
}

/// Searches a class in a list in id order, which may have many thousands.
fn contains(classes: &[ClassId], class: ClassId) -> bool {
    classes.binary_search(&class).is_ok()
}

fn has_error(row: &Execution, text: &str) -> bool {
    let error = row.detail.error.as_ref();
    error.is_some_and(|error| error.message.to_lowercase().contains(&text.to_lowercase()))
}

/// Reports whether the latest attempt ran, or runs, on a worker with this name or instance.
fn ran_on(row: &Execution, worker: &str) -> bool {
    if row.epoch == 0 {
        return false;
    }
    let is_named = |name: &Name, instance: &Name| name.as_str() == worker || instance.as_str() == worker;
    match row.state.lease() {
        Some(lease) => is_named(&lease.worker, &lease.instance),
        None => {
            let lines = row.history.lines().unwrap_or_default();
            newest_claim(&lines).is_some_and(|(lease, _)| is_named(&lease.worker, &lease.instance))
        }
    }
}

/// The position of an execution in a list: newest first, then by descending id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ListPosition {
    /// The time of submission.
    pub submitted_at: Timestamp,
    pub id: ExecutionId,
}

impl ListPosition {
    pub fn of(row: &Execution) -> Self {
        ListPosition { submitted_at: row.submitted_at, id: row.id }
    }
}

/// Returns the form of a tag in indexes and filters.
pub fn tag_text(name: &str, value: &str) -> String {
    format!("{name}:{value}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_by_stored_state_select_what_the_filter_selects_once() {
        let classes = [1, 2, 3].map(ClassId);
        let position =
            ListPosition { submitted_at: Timestamp::from_micros(1), id: ExecutionId(uuid::Uuid::nil()) };
        let listed = StateName::ALL
            .into_iter()
            .flat_map(|state| classes.map(|class| Listed { position, class, state, ended_at: None }));
        let listed: Vec<Listed> = listed.collect();
        let states = [StateName::Waiting, StateName::Held, StateName::Delayed];
        for chosen in 0..8_u32 {
            for paused in [vec![], vec![ClassId(2)], classes.to_vec()] {
                for asked in [None, Some(vec![ClassId(1), ClassId(2)]), Some(classes.to_vec())] {
                    let states = (0..3).filter(|bit| chosen & (1 << bit) != 0).map(|bit| states[bit]);
                    let filter = Filter {
                        states: states.collect(),
                        paused: paused.clone(),
                        classes: asked,
                        ..Filter::all(NamespaceId(1))
                    };
                    for one in &listed {
                        let found =
                            filter.by_stored_state().iter().filter(|part| part.may_match(one)).count();
                        let expected = usize::from(filter.may_match(one));
                        // Row by row: the caller checks each found row against the whole filter.
                        let left_to_caller = filter.classes.is_none() && found == 1 && expected == 0;
                        assert!(found == expected || left_to_caller, "{filter:?} {one:?}");
                    }
                }
            }
        }
    }
}
