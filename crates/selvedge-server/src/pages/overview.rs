//! The page `/`: what goes on, what needs attention, the curves of the last hour, the lanes, and the health of this server.

use super::frame::layout::{Page, Viewer, heading};
use super::parts::attention;
use super::parts::chart::{Curve, chart, count, milliseconds, sparkline};
use super::parts::minutes::{LastHour, Minutes, ended};
use super::parts::overview_data::OverviewData;
use super::parts::table::table_of;
use super::parts::{
    COUNT_MAX, bounded, duration, empty, executions_link, labelled_state, number, state, user_text,
};
use super::{executions, flows};
use crate::AppState;
use crate::auth::Caller;
use crate::routes::HandlerResult;
use crate::wire::query::Query;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use maud::{Markup, html};
use selvedge_core::rollup::{Rollup, Spread};
use selvedge_core::state::StateName;
use selvedge_engine::{Engine, GateView, StateCount};
use std::time::Duration;

/// The states that are shown in large figures.
const MAIN: [StateName; 2] = [StateName::Waiting, StateName::Active];
/// The time after which a feed that is behind is not healthy.
const BEHIND: Duration = Duration::from_secs(5);

/// `GET /`
pub async fn page(
    State(app): State<AppState>,
    caller: Caller,
    headers: HeaderMap,
    query: Query,
) -> HandlerResult {
    query.finish()?;
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or("127.0.0.1:7878");
    let data = app.overviews.get(&caller.namespace).await?;
    let viewer = Viewer::of(&caller);
    let content = render(&data, caller.namespace.engine(), host);
    Ok(Page::new("Overview", "/").live("/live").response(Some(&viewer), content))
}

fn render(data: &OverviewData, engine: &Engine, host: &str) -> Markup {
    let live = data.workers.iter().filter(|worker| worker.end.is_none()).count();
    let about = html! {
        p.faint #summary data-live {
            a href="/workers" { (live) @if live == 1 { " live worker" } @else { " live workers" } }
            " · " (number(data.hour.total.sum(|minute| minute.submitted))) " submitted and "
            (number(data.hour.total.sum(ended))) " ended in the last hour"
        }
    };
    html! {
        (heading(html! { "Overview" }, about))
        section #counts data-live aria-label="Executions by state" { (figures(data)) }
        section #attention data-live { h2 { "Needs attention" } (attention::list(&data.matters)) }
        @if data.executions.is_empty() { (first_steps(host)) }
        section #curves data-live { h2 { "Last hour" } (curves(data)) }
        section #lanes data-live {
            div.heading { h2 { "Lanes" } a href="/lanes" { "All lanes" } }
            (lane_table(data))
        }
        section #health data-live {
            div.heading { h2 { "This server" } a href="/about" { "About this server" } }
            (health(engine))
        }
        div.columns {
            section #newest-executions data-live {
                div.heading { h2 { "Newest executions" } a href="/executions" { "All executions" } }
                (executions::compact_table(&data.executions, data.now))
            }
            section #newest-flows data-live {
                div.heading { h2 { "Newest flows" } a href="/flows" { "All flows" } }
                (flows::table(&data.flows, data.now))
            }
        }
    }
}

/// Shows waiting and active executions in large figures, beside them the other live states and the outcomes of the last hour.
fn figures(data: &OverviewData) -> Markup {
    let (main, other): (Vec<&StateCount>, Vec<&StateCount>) = data
        .counts
        .iter()
        .filter(|one| one.state.outcome().is_none())
        .partition(|one| MAIN.contains(&one.state));
    let total = &data.hour.total;
    let outcomes = [
        (StateName::Completed, total.sum(|minute| minute.completed)),
        (StateName::Failed, total.sum(|minute| minute.failed)),
        (StateName::Cancelled, total.sum(|minute| minute.cancelled)),
        (StateName::Expired, total.sum(|minute| minute.expired)),
        (StateName::Skipped, total.sum(|minute| minute.skipped)),
    ];
    html! {
        div.figures {
            @for one in main {
                a.figure href=(executions_link(&[("state", one.state.as_str())])) {
                    b { (bounded(one.count, one.may_be_more)) }
                    (state(one.state))
                }
            }
            div.counts {
                div {
                    @for one in other { (figure(one.state, &bounded(one.count, one.may_be_more), one.count == 0)) }
                }
                p.caption { "Ended in the last hour" }
                div { @for (name, count) in outcomes { (figure(name, &number(count), count == 0)) } }
            }
        }
    }
}

fn figure(name: StateName, text: &str, is_zero: bool) -> Markup {
    html! {
        a class=[is_zero.then_some("zero")] href=(executions_link(&[("state", name.as_str())])) {
            b { (text) }
            (state(name))
        }
    }
}

fn curves(data: &OverviewData) -> Markup {
    let total = &data.hour.total;
    let counts = |label, colour, minute_count: fn(&Rollup) -> u64| Curve {
        label,
        colour,
        values: total.counts(minute_count),
        whole: number(total.sum(minute_count)),
    };
    let quantiles = |label, colour, spread: fn(&Rollup) -> &Spread, quantile| Curve {
        label,
        colour,
        values: total.quantiles(spread, quantile),
        whole: quantile_text(&total.spread(spread), quantile),
    };
    let rates = [counts("submitted", 1, |minute| minute.submitted), counts("ended", 2, ended)];
    let failures =
        [counts("failed", 3, |minute| minute.failed), counts("retried", 4, |minute| minute.retries)];
    let waits =
        [quantiles("p50", 1, |minute| &minute.queue, 0.5), quantiles("p99", 4, |minute| &minute.queue, 0.99)];
    let runs =
        [quantiles("p50", 1, |minute| &minute.run, 0.5), quantiles("p99", 4, |minute| &minute.run, 0.99)];
    html! {
        div.charts {
            (chart("In and out per minute", &rates, count))
            (chart("Waiting and active", &levels(data), count))
            (chart("Failures per minute", &failures, count))
            (chart("Wait before the start", &waits, milliseconds))
            (chart("Run time of attempts", &runs, milliseconds))
        }
        @if data.hour.is_cut { p.faint { "There are too many lanes to show all of their minutes." } }
    }
}

/// Returns the curves of live executions, computed backwards from the present counts.
fn levels(data: &OverviewData) -> [Curve; 2] {
    let live = data.counts.iter().filter(|one| one.state.outcome().is_none());
    let (sum, more) = live.fold((0, false), |(sum, more), one| (sum + one.count, more || one.may_be_more));
    let active = data.counts.iter().find(|one| one.state == StateName::Active);
    let (active, active_more) = active.map_or((0, false), |one| (one.count, one.may_be_more));
    let total = &data.hour.total;
    [
        Curve {
            label: "not ended",
            colour: 1,
            values: total.levels(sum, |minute| minute.submitted as i64 - ended(minute) as i64),
            whole: bounded(sum, more),
        },
        Curve {
            label: "active",
            colour: 2,
            values: total.levels(active, |minute| minute.started as i64 - minute.run.count as i64),
            whole: bounded(active, active_more),
        },
    ]
}

fn quantile_text(spread: &Spread, quantile: f64) -> String {
    spread.quantile_us(quantile).map_or("–".into(), |us| milliseconds(us as f64 / 1000.0))
}

fn lane_table(data: &OverviewData) -> Markup {
    if data.lanes.is_empty() {
        return empty("No lanes yet", html! { p { "A lane appears with its first execution." } });
    }
    let columns = html! {
        th { "Lane" } th { "State" } th.number { "Waiting" } th.number { "Active" } th { "Ended per minute" }
        th.number { "Ended" } th.number { "Failed" } th.number { "Wait p50" } th.number { "Wait p99" }
        th.number { "Run p50" } th.number { "Run p99" }
    };
    let rows = html! { @for lane in &data.lanes { (lane_row(lane, &data.hour)) } };
    html! {
        (table_of(columns, rows))
        p.faint {
            "Counts and times are those of the last hour."
            @if data.lanes_left_out > 0 { " " (number(data.lanes_left_out as u64)) " lanes with fewer executions are not listed." }
        }
    }
}

fn lane_row(lane: &GateView, hour: &LastHour) -> Markup {
    let name = &lane.gate.name.name;
    let idle = Minutes::default();
    let minutes = hour.lanes.get(name).unwrap_or(&idle);
    let per_minute: Vec<f64> = minutes.counts(ended).into_iter().flatten().collect();
    let label = format!("{} executions ended in the last hour", minutes.sum(ended));
    let (wait, run) = (minutes.spread(|minute| &minute.queue), minutes.spread(|minute| &minute.run));
    let config = lane.gate.config.clone().unwrap_or_default();
    html! {
        tr {
            td { a href=(executions_link(&[("lane", name)])) { (user_text(name)) } }
            td { (super::lanes::lane_state(config.state)) }
            td.number { (bounded(lane.waiting, lane.waiting >= COUNT_MAX)) }
            td.number { (bounded(lane.active, lane.active >= COUNT_MAX)) }
            td { (sparkline(&label, &per_minute)) }
            td.number { (number(minutes.sum(ended))) }
            td.number { (number(minutes.sum(|minute| minute.failed))) }
            @for (spread, quantile) in [(&wait, 0.5), (&wait, 0.99), (&run, 0.5), (&run, 0.99)] {
                td.number.nowrap { (quantile_text(spread, quantile)) }
            }
        }
    }
}

/// Shows the health of the background work and of the event feed of this server.
fn health(engine: &Engine) -> Markup {
    let status = engine.reconciler_status();
    let late = status.iter().filter(|one| one.overdue > BEHIND).count();
    let errors: u64 = status.iter().map(|one| one.tally.errors + one.tally.panics).sum();
    let feed = engine.feed_status();
    let unreadable = engine.unreadable_entries();
    let sign = |is_well: bool, well: &str, unwell: &str| match is_well {
        true => labelled_state(StateName::Completed, well),
        false => labelled_state(StateName::Failed, unwell),
    };
    html! {
        dl.facts.card {
            div { dt { "Reconcilers" } dd { (sign(late == 0, &format!("{} on time", status.len()), &format!("{late} of {} late", status.len()))) } }
            div { dt { "Errors of reconcilers" } dd { (number(errors)) " since the start" } }
            div { dt { "Event feed" } dd {
                (sign(feed.behind < BEHIND, "on time", &format!("{} behind", duration(feed.behind.as_millis() as i64))))
            } }
            div { dt { "Entries that subscribers lack" } dd { (number(feed.behind_entries)) } }
            div { dt { "Subscribers" } dd { (number(feed.subscribers as u64)) } }
            div { dt { "Unreadable entries" } dd { (sign(unreadable == 0, "none", &number(unreadable))) } }
        }
    }
}

/// Shows commands to begin with, for a namespace without executions.
fn first_steps(host: &str) -> Markup {
    html! {
        section {
            (empty("Nothing has been submitted yet", html! {
                p { "Submit an execution and claim it, as a worker does:" }
                pre.line tabindex="0" {
                    "curl -d '{\"kind\": \"greet\", \"input\": {\"name\": \"world\"}}' http://" (host) "/v1/executions\n"
                    "curl -d '{\"worker\": \"me\", \"lanes\": [\"default\"], \"max\": 1}' http://" (host) "/v1/workers/my-shell/claim"
                }
                p { "The " a href="/docs" { "reference" } " has every call." }
            }))
        }
    }
}
