//! Rows of bars drawn to scale: the timeline of an execution and the Gantt view of a flow.

use super::{clipped, duration, moment, words};
use maud::{Markup, html};
use selvedge_core::fact::{self, Fact};
use selvedge_core::headline::headline;
use selvedge_core::history::{Attempt, HistoryLine, state_after};
use selvedge_core::state::StateName;
use selvedge_core::waitpoint::WaitpointState;
use selvedge_core::{Execution, Signal, Step, Timestamp, Waitpoint};

/// The width of the picture, and of the labels on its left.
const WIDTH: f64 = 1000.0;
const LEFT: f64 = 170.0;
const ROW: f64 = 28.0;
const AXIS: f64 = 26.0;
/// The least width of a bar, so that a short one is visible.
const BAR_MIN: f64 = 2.0;
/// The most rows that are drawn.
pub const ROWS_MAX: usize = 200;
/// The most characters of a row's label.
const LABEL_MAX: usize = 24;

#[derive(Default)]
pub struct Row {
    /// The label on the left.
    pub label: String,
    /// The address that the row links to.
    pub link: Option<String>,
    pub bars: Vec<Bar>,
    /// The marks: a time and its description.
    pub marks: Vec<(Timestamp, String)>,
    /// True if it is on the critical path of a flow.
    pub is_critical: bool,
}

pub struct Bar {
    pub from: Timestamp,
    /// The end; none if it lasts.
    pub to: Option<Timestamp>,
    /// The state that colours it.
    pub state: StateName,
    /// The text on it, if it fits.
    pub label: String,
    /// The whole description.
    pub about: String,
}

/// The span of time of a picture.
#[derive(Clone, Copy)]
pub struct Scale {
    /// The left side.
    pub from: Timestamp,
    /// The right side.
    pub to: Timestamp,
}

impl Scale {
    fn ms(self) -> f64 {
        (self.to.millis() - self.from.millis()).max(1) as f64
    }

    fn x(self, at: Timestamp) -> f64 {
        let share = (at.micros() - self.from.micros()) as f64 / 1000.0 / self.ms();
        LEFT + share.clamp(0.0, 1.0) * (WIDTH - LEFT - 10.0)
    }

    /// Returns the distance between two ticks, in milliseconds: about six fit.
    fn step(self) -> f64 {
        let (second, minute, hour, day) = (1000.0, 60_000.0, 3_600_000.0, 86_400_000.0);
        let tens =
            |unit: f64| [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0].map(|count| count * unit);
        let sixties = |unit: f64| [1.0, 2.0, 5.0, 10.0, 15.0, 30.0].map(|count| count * unit);
        let hours = [hour, 2.0 * hour, 6.0 * hour, 12.0 * hour];
        let steps = tens(1.0).into_iter().chain(sixties(second)).chain(sixties(minute)).chain(hours);
        steps.chain(tens(day)).find(|step| self.ms() / step <= 7.0).unwrap_or(1000.0 * day)
    }
}

pub fn draw(label: &str, rows: &[Row], scale: Scale, now: Option<Timestamp>) -> Markup {
    let drawn = &rows[..rows.len().min(ROWS_MAX)];
    let height = AXIS + drawn.len() as f64 * ROW + 4.0;
    let step = scale.step();
    let ticks = (0..=(scale.ms() / step) as i64).map(|index| (index as f64 * step) as i64);
    html! {
        div.timeline tabindex="0" role="group" aria-label=(label) {
            svg viewBox=(format!("0 0 {WIDTH} {height}")) {
                @for index in (0..drawn.len()).step_by(2) {
                    rect.band x="0" y=(AXIS + index as f64 * ROW) width=(WIDTH) height=(ROW) {}
                }
                @for ms in ticks {
                    @let x = scale.x(scale.from.plus_ms(ms));
                    line.tick x1=(x) x2=(x) y1=(AXIS - 6.0) y2=(height) {}
                    @let at_end = x > WIDTH - 70.0;
                    text.tick-label x=(if at_end { x - 3.0 } else { x + 3.0 }) y="14" text-anchor=[at_end.then_some("end")] { "+" (duration(ms)) }
                }
                @for (index, row) in drawn.iter().enumerate() {
                    (draw_row(row, scale, AXIS + index as f64 * ROW))
                }
                @if let Some(now) = now.filter(|now| *now >= scale.from && *now <= scale.to) {
                    line.now x1=(scale.x(now)) x2=(scale.x(now)) y1=(AXIS - 6.0) y2=(height) {}
                }
            }
        }
        @if rows.len() > drawn.len() { p.faint { "The first " (drawn.len()) " of " (rows.len()) " rows." } }
    }
}

fn draw_row(row: &Row, scale: Scale, top: f64) -> Markup {
    let content = html! {
        title { (row.label) }
        text.row-label x="10" y=(top + 18.0) { (clipped(&row.label, LABEL_MAX)) }
        @for bar in &row.bars {
            @let x = scale.x(bar.from);
            @let width = (scale.x(bar.to.unwrap_or(scale.to)) - x).max(BAR_MIN);
            g class=(format!("state-{}", bar.state.as_str())) {
                title { (bar.about) }
                rect class=(if is_wait(bar.state) { "span waits" } else { "span" }) x=(format!("{x:.1}")) y=(top + 5.0) width=(format!("{width:.1}")) height=(ROW - 10.0) rx="3" {}
                @if !is_wait(bar.state) && width > bar.label.chars().count() as f64 * 6.6 + 10.0 {
                    text.on-span x=(format!("{:.1}", x + 5.0)) y=(top + 18.0) { (bar.label) }
                }
            }
        }
        @for (at, about) in &row.marks {
            @let x = scale.x(*at);
            path.mark d=(format!("M{x:.1} {:.1}l6 9-6 9-6-9z", top + 5.0)) { title { (about) } }
        }
    };
    html! {
        @match &row.link {
            Some(link) => a href=(link) class=[row.is_critical.then_some("critical")] { (content) },
            None => g class=[row.is_critical.then_some("critical")] { (content) },
        }
    }
}

/// Reports whether nothing runs in a state: its bars are pale.
fn is_wait(state: StateName) -> bool {
    match state {
        StateName::WaitingDependencies | StateName::Waiting | StateName::Delayed | StateName::Held => true,
        StateName::Suspended
        | StateName::Active
        | StateName::Completed
        | StateName::Failed
        | StateName::Cancelled
        | StateName::Expired
        | StateName::Skipped => false,
    }
}

/// The recorded life of an execution.
pub struct Life<'a> {
    pub row: &'a Execution,
    /// The lines of its history, oldest first.
    pub lines: &'a [HistoryLine],
    /// Its attempts, oldest first.
    pub attempts: &'a [Attempt],
    pub steps: &'a [Step],
    pub waitpoints: &'a [Waitpoint],
    pub signals: &'a [Signal],
    /// The end of its current lease.
    pub lease_until: Option<Timestamp>,
}

impl Life<'_> {
    /// Draws the timeline.
    pub fn draw(&self, now: Timestamp) -> Markup {
        let from = self.row.submitted_at;
        let end = self.row.ended_at.unwrap_or(now);
        let scale = Scale { from, to: end.max(from.plus_ms(1)) };
        let mut rows = vec![self.states(end)];
        rows.extend(self.attempts.iter().map(attempt_row));
        rows.extend(self.leases());
        rows.extend(self.steps.iter().map(step_row));
        rows.extend(self.waitpoints.iter().map(|waitpoint| self.wait_row(waitpoint, now)));
        if !self.signals.is_empty() {
            let mark = |signal: &Signal| (signal.at, format!("{} from {}", signal.name, signal.source));
            let marks = self.signals.iter().map(mark).collect();
            rows.push(Row { label: "Signals".into(), marks, ..Row::default() });
        }
        let total = duration(end.ms_since(from));
        let is_live = self.row.ended_at.is_none();
        html! {
            (draw("Timeline", &rows, scale, is_live.then_some(now)))
            p.faint {
                "From " (moment(from)) " to " (moment(end)) " UTC: " (total) ". Pale: nothing runs."
                @if !self.signals.is_empty() { " ◆ marks a signal." }
                @if let Some(until) = self.lease_until { " The lease ends at " (moment(until)) " unless it is renewed." }
            }
        }
    }

    /// Returns the row of the states that the execution has had.
    fn states(&self, end: Timestamp) -> Row {
        let first = match self.row.join.is_some() {
            true => StateName::WaitingDependencies,
            false => StateName::Waiting,
        };
        let mut changes: Vec<(Timestamp, StateName)> = vec![(self.row.submitted_at, first)];
        let states =
            self.lines.iter().filter_map(|line| state_after(&line.fact).map(|state| (line.at, state)));
        changes.extend(states);
        let ends = changes.iter().skip(1).map(|(at, _)| *at).chain([end]);
        let bars =
            changes.iter().zip(ends).filter(|((from, state), to)| to > from && state.outcome().is_none());
        let bars = bars.map(|((from, state), to)| {
            let label = words(state.as_str());
            let about = format!("{label} for {}", duration(to.ms_since(*from)));
            Bar { from: *from, to: Some(to), state: *state, label, about }
        });
        Row { label: "State".into(), bars: bars.collect(), ..Row::default() }
    }

    /// Returns the row of the leases: from each claim to the end of its attempt, with a mark where a lease was lost.
    fn leases(&self) -> Option<Row> {
        let mut row = Row { label: "Leases".into(), ..Row::default() };
        for line in self.lines {
            match &line.fact {
                Fact::Claimed(fact::Claimed { lease, ttl_ms, after }) => {
                    let attempt = self.attempts.iter().find(|attempt| attempt.lease.epoch == lease.epoch);
                    let ended = attempt.and_then(|attempt| attempt.ended_at);
                    let again = if after.is_some() { ", claimed again after a lease expired" } else { "" };
                    let about = format!(
                        "lease {} of {} ({}), {} without renewal{again}",
                        lease.epoch,
                        lease.worker,
                        lease.instance,
                        duration(*ttl_ms)
                    );
                    let label = format!("{} · {}", lease.instance, duration(*ttl_ms));
                    row.bars.push(Bar { from: line.at, to: ended, state: StateName::Active, label, about });
                }
                Fact::LeaseExpired { .. } => row.marks.push((line.at, "the lease expired".into())),
                Fact::Orphaned { .. } => row
                    .marks
                    .push((line.at, "the lease was orphaned: the claim never reached its worker".into())),
                Fact::Revoked { .. } => row.marks.push((line.at, "an operator took back the lease".into())),
                _ => {}
            }
        }
        (!row.bars.is_empty()).then_some(row)
    }

    /// Returns the row of a waitpoint: from its creation to its answer or its end.
    fn wait_row(&self, waitpoint: &Waitpoint, now: Timestamp) -> Row {
        let word = waitpoint.state_at(now).as_str();
        let (state, to) = match waitpoint.state {
            WaitpointState::Delivered(number, _) => {
                let signal = self.signals.iter().find(|signal| signal.number == number);
                (StateName::Completed, signal.map(|signal| signal.at))
            }
            WaitpointState::Open => (StateName::Suspended, waitpoint.expires_at.filter(|at| *at <= now)),
            WaitpointState::Expired => (StateName::Expired, waitpoint.expires_at),
            WaitpointState::Revoked => (StateName::Cancelled, None),
        };
        let about = format!("waitpoint {}: {word}", waitpoint.name);
        let to = to.or(self.row.ended_at);
        let bar = Bar { from: waitpoint.created_at, to, state, label: word.into(), about };
        Row { label: format!("Wait {}", waitpoint.name), bars: vec![bar], ..Row::default() }
    }
}

/// Returns the state that colours the outcome of an attempt; `running` is that of one that has not ended.
pub fn state_of_attempt(outcome: &str) -> StateName {
    match outcome {
        "completed" => StateName::Completed,
        "failed" | "timeout" => StateName::Failed,
        "suspended" | "breached" => StateName::Suspended,
        "delayed" | "released" => StateName::Delayed,
        "running" => StateName::Active,
        "cancelled" => StateName::Cancelled,
        _ => StateName::Expired,
    }
}

fn attempt_row(attempt: &Attempt) -> Row {
    let outcome = attempt.outcome.unwrap_or("running");
    let state = state_of_attempt(outcome);
    let worker = &attempt.lease.worker;
    let mut about = format!("{} on {worker} ({})", words(outcome), attempt.lease.instance);
    if let Some(error) = &attempt.error {
        about.push_str(&format!(": {}", headline(&error.message)));
    }
    let label = format!("{} on {worker}", words(outcome));
    let bar = Bar { from: attempt.started_at, to: attempt.ended_at, state, label, about };
    let label = format!("Attempt {}", attempt.lease.attempt());
    Row { label, link: None, bars: vec![bar], ..Row::default() }
}

fn step_row(step: &Step) -> Row {
    let state = match step.recorded_at {
        Some(_) => StateName::Completed,
        None => StateName::Suspended,
    };
    let (label, about) = (step.kind.as_str().to_owned(), format!("{} {}", step.kind.as_str(), step.name));
    let bar = Bar { from: step.started_at, to: step.recorded_at, state, label, about };
    Row { label: format!("Step {}", step.name), link: None, bars: vec![bar], ..Row::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn about_six_ticks_fit_any_span_of_time() {
        for ms in [1, 7, 90, 4000, 65_000, 7_200_000, 400_000_000, 30_000_000_000_i64] {
            let scale = Scale { from: Timestamp::from_millis(0), to: Timestamp::from_millis(ms) };
            let ticks = ms as f64 / scale.step();
            assert!((0.9..=7.0).contains(&ticks), "{ms} ms: {ticks}");
        }
    }
}
