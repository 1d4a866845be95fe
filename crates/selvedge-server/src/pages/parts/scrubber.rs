//! The scrubber of a flow: its graph at any moment at which it changed, and the controls that lead there.
//!
//! The moments come from the histories of the executions ([`selvedge_core::past`]), which are kept as long as the executions.

use super::{address, clipped, moment, user_text, words};
use maud::{Markup, html};
use selvedge_api::times;
use selvedge_core::past::{Moment, moments};
use selvedge_core::{FlowId, Refusal, Timestamp};
use selvedge_engine::{Error, FlowRecord, Namespace};

/// The most executions of a flow whose past is shown.
pub const MEMBERS_MAX: usize = 5000;
/// The longest name in the description of a moment, in characters.
const NAME_MAX: usize = 40;

/// The wish of an address: a moment of the past.
pub enum Wish {
    /// The state after all changes up to a time: `at` is a time, or the cursor of an event.
    At(Timestamp),
    /// The change with this number, from 0: `step`, which the form without script sends.
    Step(u32),
}

impl Wish {
    /// Reads `at` and `step`.
    pub async fn read(
        namespace: &Namespace,
        at: Option<String>,
        step: Option<u32>,
    ) -> Result<Option<Wish>, Error> {
        match (at, step) {
            (None, None) => Ok(None),
            (None, Some(step)) => Ok(Some(Wish::Step(step))),
            (Some(_), Some(_)) => {
                Err(Refusal::field("/query/step", "cannot be combined with at; give only one of them").into())
            }
            (Some(text), None) => match times::parse(&text) {
                Some(time) => Ok(Some(Wish::At(time))),
                None => namespace.time_of_event(&text).await.map(|time| Some(Wish::At(time))),
            },
        }
    }
}

/// The moments of a flow, and the one that is shown.
pub struct Scrubber {
    flow: FlowId,
    moments: Vec<Moment>,
    /// The index of the moment that is shown; none for the present.
    shown: Option<usize>,
    /// The number of executions whose histories have gaps.
    incomplete: usize,
    /// The name of a node that changed at the moment that is shown, and the type of its event.
    example: (String, &'static str),
}

impl Scrubber {
    /// Returns the scrubber of a flow.
    pub fn new(flow: FlowId, record: &FlowRecord, wish: Option<&Wish>) -> Scrubber {
        let moments = moments(&record.histories());
        let last = moments.len().saturating_sub(1);
        let shown = wish.map(|wish| match wish {
            Wish::Step(step) => (*step as usize).min(last),
            Wish::At(at) => moments.partition_point(|moment| moment.at <= *at).saturating_sub(1),
        });
        let describe = |index: usize| {
            let Some(Moment { example: (member, line), .. }) = moments.get(index) else {
                return Default::default();
            };
            let member = &record.members[*member];
            let name = member.row.node().unwrap_or(&member.kind).to_owned();
            let events = member.lines[*line].fact.public_events();
            (clipped(&name, NAME_MAX), events.last().map_or("changed", |(kind, _)| *kind))
        };
        let example = describe(shown.unwrap_or(last));
        Scrubber { flow, moments, shown, incomplete: record.incomplete, example }
    }

    /// Returns the time that is shown; none for the present.
    pub fn at(&self) -> Option<Timestamp> {
        self.shown.and_then(|index| self.moments.get(index)).map(|moment| moment.at)
    }

    /// Returns the address of the moment with this index, to the microsecond.
    pub fn address(&self, index: usize) -> String {
        let path = format!("/flows/{}", self.flow);
        match self.moments.get(index) {
            Some(moment) => address(&path, &[("at", &exact(moment.at))]),
            None => path,
        }
    }

    /// Returns the address of the moment that is shown.
    pub fn shown_address(&self) -> Option<String> {
        self.shown.map(|index| self.address(index))
    }

    /// Shows the controls.
    pub fn show(&self) -> Markup {
        let path = format!("/flows/{}", self.flow);
        let last = self.moments.len().saturating_sub(1);
        let index = self.shown.unwrap_or(last);
        if self.moments.is_empty() {
            return html! {};
        }
        html! {
            form.scrubber method="get" action=(path) data-scrubber {
                button.needs-script type="button" data-play title="Replay the flow" { "▶ Play" }
                label.track {
                    span.visually-hidden { "Moment of the flow" }
                    input type="range" name="step" min="0" max=(last) value=(index) aria-describedby="moment";
                }
                button.no-script type="submit" { "Show" }
                div.moment #moment data-live data-step=(index) data-steps=(last) data-past=[self.shown.map(|_| "yes")] { (self.describe(index, last)) }
            }
            @if self.incomplete > 0 {
                p.faint { "The histories of " (self.incomplete) " executions cannot be read as a whole; their earlier states may be missing." }
            }
        }
    }

    fn describe(&self, index: usize, last: usize) -> Markup {
        let (name, kind) = &self.example;
        let word = words(kind.rsplit('.').next().unwrap_or(kind));
        let changed = self.moments[index];
        html! {
            span.what {
                @if self.shown.is_none() { b { "Now" } " · last change " } @else { b { "Change " (index + 1) " of " (last + 1) } " · " }
                (moment(changed.at)) " · " (user_text(name)) " " (word)
                @if changed.changes > 1 { ", and " (changed.changes - 1) " more" }
            }
            span.steps {
                @if index > 0 { a.button href=(self.address(index - 1)) rel="prev" aria-label="Change before" { "‹" } }
                @if self.shown.is_some() && index < last { a.button href=(self.address(index + 1)) rel="next" aria-label="Change after" { "›" } }
                @if self.shown.is_some() { a.button.primary href=(format!("/flows/{}", self.flow)) data-now { "Now" } }
            }
        }
    }
}

/// Returns a time to the microsecond.
pub fn exact(at: Timestamp) -> String {
    let text = times::text(at);
    format!("{}{:03}Z", text.trim_end_matches('Z'), at.micros().rem_euclid(1000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_in_an_address_is_exact() {
        let at = Timestamp::from_micros(1_700_000_000_123_456);
        assert_eq!(exact(at), "2023-11-14T22:13:20.123456Z");
        assert_eq!(times::parse(&exact(at)), Some(at));
    }
}
