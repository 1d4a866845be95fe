//! The page `/`: executions by state, the newest executions and flows, and live workers.

use crate::VERSION;
use crate::auth::Caller;
use crate::pages::{Escaped, html, write_table};
use crate::routes::HandlerResult;
use crate::wire::times;
use axum::http::{HeaderMap, header};
use selvedge_core::filter::{Filter, Payloads};
use selvedge_core::flow::FlowFilter;
use selvedge_core::state::StateName;
use selvedge_core::{Name, State, Suspension};
use selvedge_engine::store::COUNT_SCAN_MAX;
use selvedge_engine::{Error, FlowView, Namespace, View, WorkerView};
use std::fmt::{self, Display};

/// The largest count of executions in one state; beyond it the page shows `10000+`.
const COUNT_MAX: u64 = 10_000;
/// The states whose executions are counted among the newest only, where no index has them.
const NOT_INDEXED: [StateName; 2] = [StateName::Waiting, StateName::Completed];
/// The most executions that are listed.
const EXECUTIONS_MAX: u32 = 20;
/// The most flows that are listed.
const FLOWS_MAX: u32 = 10;
/// The most characters of a suspension's conditions.
const CONDITIONS_MAX: usize = 80;
/// The most workers that are listed.
const WORKERS_MAX: usize = 20;

/// `GET /`
pub async fn overview(caller: Caller, headers: HeaderMap) -> HandlerResult {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let overview = Overview::read(&caller.namespace, host.unwrap_or("127.0.0.1:7878")).await?;
    let head = "<meta http-equiv=\"refresh\" content=\"5\">";
    Ok(html("Selvedge", head, &overview))
}

/// The content of the page.
struct Overview {
    host: String,
    store: &'static str,
    namespace: String,
    /// The number of executions in each state, and whether there may be more.
    counts: Vec<(StateName, u64, bool)>,
    workers: Vec<WorkerView>,
    executions: Vec<View>,
    flows: Vec<FlowView>,
}

impl Overview {
    async fn read(namespace: &Namespace, host: &str) -> Result<Overview, Error> {
        let all = Filter::all(namespace.id());
        let are_many = namespace.count(&all, COUNT_SCAN_MAX as u64).await? >= COUNT_SCAN_MAX as u64;
        let mut counts = Vec::new();
        for state in StateName::ALL {
            let filter = Filter { states: vec![state], ..all.clone() };
            let count = namespace.count(&filter, COUNT_MAX).await?;
            counts.push((state, count, count >= COUNT_MAX || (are_many && NOT_INDEXED.contains(&state))));
        }
        let mut workers = namespace.workers().await?;
        workers.retain(|worker| worker.end.is_none());
        Ok(Overview {
            host: host.into(),
            store: namespace.engine().store_name(),
            namespace: namespace.name().to_string(),
            counts,
            workers,
            executions: namespace.list(&all, None, EXECUTIONS_MAX, Payloads::NONE).await?.0,
            flows: namespace.flows(&FlowFilter::all(namespace.id()), None, FLOWS_MAX).await?.0,
        })
    }
}

impl Display for Overview {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "<h1>Selvedge</h1>\n\
             <p>A durable execution engine: work is submitted as executions, workers claim them under leases, and \
             nothing is lost when a worker, this server or its connection to the store fails.</p>\n\
             <p class=\"faint\">Version {VERSION} on the {} store, namespace {}. <a href=\"/readyz\">Readiness</a> · \
             <a href=\"/metrics\">metrics</a> · <a href=\"/v1/events\">events</a> · \
             <a href=\"/docs\">reference</a> · <a href=\"/docs/problems\">problems</a></p>\n",
            Escaped(self.store),
            Escaped(&self.namespace)
        )?;
        f.write_str("<h2>Executions</h2>\n<div class=\"counts\">")?;
        for (state, count, more) in &self.counts {
            let word = state.as_str();
            let more = if *more { "+" } else { "" };
            write!(
                f,
                "<a href=\"/v1/executions?state={word}\"><b>{count}{more}</b><span class=\"{word}\">{word}</span></a>"
            )?;
        }
        f.write_str("</div>\n")?;
        self.write_executions(f)?;
        self.write_flows(f)?;
        self.write_workers(f)?;
        self.write_examples(f)
    }
}

impl Overview {
    fn write_executions(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<h2>Newest</h2>\n")?;
        if self.executions.is_empty() {
            return f.write_str(
                "<p class=\"faint\">Nothing has been submitted yet. Try the first command below.</p>\n",
            );
        }
        let columns = ["Execution", "Kind", "Lane", "State", "Attempts", "Submitted"];
        write_table(f, &columns, &self.executions, |f, view| {
            let row = &view.stored.execution;
            let state = view.state().as_str();
            let addition = match &row.state {
                State::Active(lease) => format!(" by {}", lease.worker),
                State::Suspended(suspension) => format!(" for {}", conditions(suspension)),
                State::Waiting | State::Held(_) => {
                    view.held_reason().map(|held| format!(" by {}", held.gate)).unwrap_or_default()
                }
                State::WaitingDependencies | State::Delayed { .. } | State::Terminal(_) => String::new(),
            };
            let id = row.id;
            write!(f, "<td class=\"id\"><a href=\"/v1/executions/{id}\">{id}</a></td>")?;
            write!(f, "<td>{}</td>", Escaped(&view.class.kind))?;
            write!(f, "<td>{}</td>", Escaped(&view.class.lane))?;
            write!(f, "<td><span class=\"{state}\">{state}</span>{}</td>", Escaped(&addition))?;
            write!(f, "<td>{}</td>", row.epoch)?;
            write!(f, "<td class=\"faint\">{}</td>", times::text(row.submitted_at))
        })
    }

    fn write_flows(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.flows.is_empty() {
            return Ok(());
        }
        f.write_str("<h2>Newest flows</h2>\n")?;
        let columns = ["Flow", "Name", "State", "Nodes", "Graph", "Submitted"];
        write_table(f, &columns, &self.flows, |f, FlowView { flow, .. }| {
            let (id, state) = (flow.id, flow.state.as_str());
            let name = flow.name.as_ref().map_or("", Name::as_str);
            write!(f, "<td class=\"id\"><a href=\"/v1/flows/{id}\">{id}</a></td>")?;
            write!(f, "<td>{}</td>", Escaped(name))?;
            write!(f, "<td><span class=\"{state}\">{state}</span></td><td>{}", flow.counts.total())?;
            let states = StateName::ALL.into_iter().filter(|state| flow.counts.of(*state) > 0);
            for (index, counted) in states.enumerate() {
                let (word, separator) = (counted.as_str(), if index == 0 { ": " } else { ", " });
                write!(f, "{separator}{} <span class=\"{word}\">{word}</span>", flow.counts.of(counted))?;
            }
            write!(f, "</td><td><a href=\"/v1/flows/{id}/graph?format=svg\">graph</a></td>")?;
            write!(f, "<td class=\"faint\">{}</td>", times::text(flow.submitted_at))
        })
    }

    fn write_workers(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "<h2>Live workers: {}</h2>", self.workers.len())?;
        if self.workers.is_empty() {
            return f.write_str("<p class=\"faint\">No worker was seen recently.</p>\n");
        }
        let listed = &self.workers[..self.workers.len().min(WORKERS_MAX)];
        write_table(f, &["Worker", "Instance", "Lanes", "Seen"], listed, |f, worker| {
            let Some(session) = worker.sessions.first() else {
                return Ok(());
            };
            let lanes: Vec<&str> = session.scope.lanes.iter().map(|lane| lane.as_str()).collect();
            let draining = if session.draining { " (draining)" } else { "" };
            write!(f, "<td>{}{draining}</td>", Escaped(&session.worker))?;
            write!(f, "<td class=\"id\">{}</td>", Escaped(&session.instance))?;
            write!(f, "<td>{}</td>", Escaped(&lanes.join(", ")))?;
            write!(f, "<td class=\"faint\">{}</td>", times::text(worker.seen_at()))
        })
    }

    fn write_examples(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = Escaped(&self.host);
        let submission = Escaped(r#"{"kind": "greet", "input": {"name": "world"}}"#);
        let claim = Escaped(r#"{"worker": "me", "lanes": ["default"], "max": 1}"#);
        write!(
            f,
            "<h2>Try it</h2>\n<pre>curl -d '{submission}' http://{host}/v1/executions\n\
             curl -d '{claim}' http://{host}/v1/workers/my-shell/claim\n\
             curl 'http://{host}/v1/executions?state=active'</pre>\n"
        )
    }
}

/// Describes the resume conditions of a suspension, truncated.
fn conditions(suspension: &Suspension) -> String {
    let waits: Vec<String> = suspension.waits.iter().map(|wait| wait.condition.describe()).collect();
    let waits = waits.join(" or ");
    match waits.char_indices().nth(CONDITIONS_MAX) {
        None => waits,
        Some((end, _)) => format!("{} …", &waits[..end]),
    }
}
