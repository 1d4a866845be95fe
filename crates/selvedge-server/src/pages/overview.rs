//! The page `/`: what goes on, what needs attention, the curves of the last hour, and the lanes.

use super::attention::{self, Matter};
use super::chart::{Curve, chart, count, milliseconds, sparkline};
use super::layout::{Page, Viewer, heading};
use super::minutes::{LastHour, Minutes, ended};
use super::parts::{COUNT_MAX, bounded, empty, executions_link, number, state, user_text};
use super::{executions, flows};
use crate::auth::Caller;
use crate::routes::HandlerResult;
use crate::wire::query::Query;
use axum::http::{HeaderMap, header};
use futures_util::future::try_join_all;
use maud::{Markup, html};
use selvedge_core::Timestamp;
use selvedge_core::filter::{Filter, Payloads};
use selvedge_core::flow::FlowFilter;
use selvedge_core::gate::GateKind;
use selvedge_core::rollup::{Rollup, Spread};
use selvedge_core::state::StateName;
use selvedge_engine::store::COUNT_SCAN_MAX;
use selvedge_engine::{Error, FlowView, GateView, Namespace, View, WorkerView};

/// The states whose executions are counted among the newest only, where no index has them.
const NOT_INDEXED: [StateName; 2] = [StateName::Waiting, StateName::Completed];
/// The most executions and flows that are listed.
const NEWEST: u32 = 8;
/// The most lanes that are listed.
const LANES_MAX: u32 = 50;

/// `GET /`
pub async fn page(caller: Caller, headers: HeaderMap, query: Query) -> HandlerResult {
    query.finish()?;
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or("127.0.0.1:7878");
    let overview = Overview::read(&caller.namespace).await?;
    let viewer = Viewer::of(&caller);
    Ok(Page::new("Overview", "/").live("/live").response(Some(&viewer), overview.render(host)))
}

/// The content of the page.
struct Overview {
    now: Timestamp,
    counts: Vec<(StateName, u64, bool)>,
    matters: Vec<Matter>,
    hour: LastHour,
    lanes: Vec<GateView>,
    workers: Vec<WorkerView>,
    executions: Vec<View>,
    flows: Vec<FlowView>,
}

impl Overview {
    async fn read(namespace: &Namespace) -> Result<Overview, Error> {
        let all = Filter::all(namespace.id());
        let counts = count_by_state(namespace).await?;
        let workers = namespace.workers().await?;
        let (lanes, _) = namespace.gates(GateKind::Lane, None, LANES_MAX).await?;
        Ok(Overview {
            now: namespace.now().await?,
            matters: attention::matters(namespace, &lanes, &workers, &counts).await?,
            hour: LastHour::read(namespace).await?,
            executions: namespace.list(&all, None, NEWEST, Payloads::NONE).await?.0,
            flows: namespace.flows(&FlowFilter::all(namespace.id()), None, NEWEST).await?.0,
            counts,
            lanes,
            workers,
        })
    }

    fn render(&self, host: &str) -> Markup {
        let live = self.workers.iter().filter(|worker| worker.end.is_none()).count();
        let about = html! {
            p.faint #summary data-live {
                (live) @if live == 1 { " live worker" } @else { " live workers" }
                " · " (number(self.hour.total.sum(|minute| minute.submitted))) " submitted and "
                (number(self.hour.total.sum(ended))) " ended in the last hour"
            }
        };
        html! {
            (heading(html! { "Overview" }, about))
            section #counts data-live aria-label="Executions by state" { (counts_grid(&self.counts)) }
            section #attention data-live { h2 { "Needs attention" } (attention::list(&self.matters)) }
            @if self.executions.is_empty() { (first_steps(host)) }
            section #curves data-live { h2 { "Last hour" } (curves(&self.hour)) }
            section #lanes data-live { h2 { "Lanes" } (self.lane_table()) }
            div.columns {
                section #newest-executions data-live {
                    div.heading { h2 { "Newest executions" } a href="/executions" { "All executions" } }
                    (executions::compact_table(&self.executions, self.now))
                }
                section #newest-flows data-live {
                    div.heading { h2 { "Newest flows" } a href="/flows" { "All flows" } }
                    (flows::table(&self.flows, self.now))
                }
            }
        }
    }

    fn lane_table(&self) -> Markup {
        if self.lanes.is_empty() {
            return empty("No lanes yet", html! { p { "A lane appears with its first execution." } });
        }
        html! {
            div.table {
                table {
                    thead {
                        tr {
                            th { "Lane" } th { "State" } th.number { "Waiting" } th.number { "Active" }
                            th { "Ended per minute" } th.number { "Failed" } th.number { "Wait p50" } th.number { "Wait p99" }
                        }
                    }
                    tbody { @for lane in &self.lanes { (self.lane_row(lane)) } }
                }
            }
            @if self.hour.is_cut { p.faint { "There are too many lanes to show all of their minutes." } }
        }
    }

    fn lane_row(&self, lane: &GateView) -> Markup {
        let name = &lane.gate.name.name;
        let idle = Minutes::default();
        let minutes = self.hour.lanes.get(name).unwrap_or(&idle);
        let per_minute: Vec<f64> = minutes.counts(ended).into_iter().flatten().collect();
        let label = format!("{} executions ended in the last hour", minutes.sum(ended));
        let wait = minutes.spread(|minute| &minute.queue);
        let quantile = |quantile| match wait.quantile_us(quantile) {
            Some(us) => milliseconds(us as f64 / 1000.0),
            None => "–".into(),
        };
        let config = lane.gate.config.clone().unwrap_or_default();
        html! {
            tr {
                td { a href=(executions_link(&[("lane", name)])) { (user_text(name)) } }
                td { (super::lanes::lane_state(config.state)) }
                td.number { (bounded(lane.waiting, lane.waiting >= COUNT_MAX)) }
                td.number { (bounded(lane.active, lane.active >= COUNT_MAX)) }
                td { (sparkline(&label, &per_minute)) }
                td.number { (number(minutes.sum(|minute| minute.failed))) }
                td.number { (quantile(0.5)) }
                td.number { (quantile(0.99)) }
            }
        }
    }
}

/// Counts the executions in each state, and tells where there may be more.
async fn count_by_state(namespace: &Namespace) -> Result<Vec<(StateName, u64, bool)>, Error> {
    let all = Filter::all(namespace.id());
    let are_many = namespace.count(&all, COUNT_SCAN_MAX as u64).await? >= COUNT_SCAN_MAX as u64;
    let counts = StateName::ALL.map(|state| {
        let filter = Filter { states: vec![state], ..all.clone() };
        async move {
            let count = namespace.count(&filter, COUNT_MAX).await?;
            let may_be_more = count >= COUNT_MAX || (are_many && NOT_INDEXED.contains(&state));
            Ok::<_, Error>((state, count, may_be_more))
        }
    });
    try_join_all(counts).await
}

/// Shows the counts: the states of executions that have not ended, and below the outcomes.
fn counts_grid(counts: &[(StateName, u64, bool)]) -> Markup {
    let (ended, live): (Vec<_>, Vec<_>) =
        counts.iter().copied().partition(|(name, ..)| name.outcome().is_some());
    html! {
        div.counts {
            @for row in [live, ended] {
                div {
                    @for (name, count, more) in row {
                        a class=[(count == 0).then_some("zero")] href=(executions_link(&[("state", name.as_str())])) {
                            b { (bounded(count, more)) }
                            (state(name))
                        }
                    }
                }
            }
        }
    }
}

fn curves(hour: &LastHour) -> Markup {
    let total = &hour.total;
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
        whole: total
            .spread(spread)
            .quantile_us(quantile)
            .map_or("–".into(), |us| milliseconds(us as f64 / 1000.0)),
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
            (chart("Executions per minute", &rates, count))
            (chart("Failures per minute", &failures, count))
            (chart("Wait before the start", &waits, milliseconds))
            (chart("Run time of attempts", &runs, milliseconds))
        }
    }
}

/// Shows commands to begin with, for a namespace without executions.
fn first_steps(host: &str) -> Markup {
    html! {
        section {
            (empty("Nothing has been submitted yet", html! {
                p { "Submit an execution and claim it, as a worker does:" }
                pre.line {
                    "curl -d '{\"kind\": \"greet\", \"input\": {\"name\": \"world\"}}' http://" (host) "/v1/executions\n"
                    "curl -d '{\"worker\": \"me\", \"lanes\": [\"default\"], \"max\": 1}' http://" (host) "/v1/workers/my-shell/claim"
                }
                p { "The " a href="/docs" { "reference" } " has every call." }
            }))
        }
    }
}
