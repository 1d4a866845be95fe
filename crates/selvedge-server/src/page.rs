//! The pages for people: what runs here, and what every problem means. Nothing is loaded from elsewhere.

use crate::auth::Caller;
use crate::problem::Code;
use crate::{Answer, VERSION, times};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use selvedge_core::filter::Filter;
use selvedge_core::flow::FlowFilter;
use selvedge_core::state::StateName;
use selvedge_core::{Name, State, Suspension};
use selvedge_engine::{Error, FlowView, Namespace, View, WorkerView};
use std::fmt::{self, Display, Write};

/// How far executions are counted.
const COUNT_BOUND: u64 = 10_000;
/// How many of the newest executions are shown.
const NEWEST: u32 = 20;
/// How many of the newest flows are shown.
const FLOWS: u32 = 10;
/// How many characters are shown of what a suspended execution waits for.
const AWAITED: usize = 80;
/// How many workers are shown.
const WORKERS: usize = 20;

/// `GET /`
pub async fn page(caller: Caller, headers: HeaderMap) -> Answer {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let shown = Shown::read(&caller.namespace, host.unwrap_or("127.0.0.1:7878")).await?;
    let head = "<meta http-equiv=\"refresh\" content=\"5\">";
    Ok(html("Selvedge", head, &shown))
}

/// What the page shows.
struct Shown {
    host: String,
    store: &'static str,
    namespace: String,
    counts: Vec<(StateName, u64)>,
    workers: Vec<WorkerView>,
    newest: Vec<View>,
    flows: Vec<FlowView>,
}

impl Shown {
    async fn read(namespace: &Namespace, host: &str) -> Result<Shown, Error> {
        let all = Filter::all(namespace.id());
        let mut counts = Vec::new();
        for state in StateName::ALL {
            let filter = Filter { states: vec![state], ..all.clone() };
            counts.push((state, namespace.count(&filter, COUNT_BOUND).await?));
        }
        let workers = namespace.workers().await?;
        Ok(Shown {
            host: host.into(),
            store: namespace.engine().store_name(),
            namespace: namespace.name().to_string(),
            counts,
            workers,
            newest: namespace.list(&all, None, NEWEST).await?.0,
            flows: namespace.flows(&FlowFilter::all(namespace.id()), None, FLOWS).await?.0,
        })
    }
}

impl Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "<h1>Selvedge</h1>\n\
             <p>A durable execution engine: work is submitted as executions, workers claim them under leases, and \
             nothing is lost when a worker, this server or its connection to the store dies.</p>\n\
             <p class=\"faint\">Version {VERSION} on the {} store, namespace {}. <a href=\"/readyz\">Readiness</a> · \
             <a href=\"/metrics\">metrics</a> · <a href=\"/v1/events\">events</a> · \
             <a href=\"/docs/problems\">problems</a></p>\n",
            Escaped(self.store),
            Escaped(&self.namespace)
        )?;
        f.write_str("<h2>Executions</h2>\n<div class=\"counts\">")?;
        for (state, count) in &self.counts {
            let word = state.public();
            let more = if *count >= COUNT_BOUND { "+" } else { "" };
            write!(
                f,
                "<a href=\"/v1/executions?state={word}\"><b>{count}{more}</b><span class=\"{word}\">{word}</span></a>"
            )?;
        }
        f.write_str("</div>\n")?;
        self.write_newest(f)?;
        self.write_flows(f)?;
        self.write_workers(f)?;
        self.write_lines_to_try(f)
    }
}

impl Shown {
    fn write_newest(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<h2>Newest</h2>\n")?;
        if self.newest.is_empty() {
            return f
                .write_str("<p class=\"faint\">Nothing was submitted yet. Try the first line below.</p>\n");
        }
        let columns = ["Execution", "Kind", "Lane", "State", "Attempts", "Submitted"];
        write_table(f, &columns, &self.newest, |f, view| {
            let row = &view.stored.execution;
            let state = view.state().public();
            let more = match &row.state {
                State::Active(lease) => format!(" by {}", lease.worker),
                State::Suspended(suspension) => format!(" for {}", awaited(suspension)),
                State::Waiting | State::Held(_) => {
                    view.held_reason().map(|held| format!(" by {}", held.gate)).unwrap_or_default()
                }
                State::WaitingDependencies | State::Delayed { .. } | State::Terminal(_) => String::new(),
            };
            let id = row.id;
            write!(f, "<td class=\"id\"><a href=\"/v1/executions/{id}\">{id}</a></td>")?;
            write!(f, "<td>{}</td>", Escaped(&view.class.kind))?;
            write!(f, "<td>{}</td>", Escaped(&view.class.lane))?;
            write!(f, "<td><span class=\"{state}\">{state}</span>{}</td>", Escaped(&more))?;
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
            for (place, counted) in
                StateName::ALL.into_iter().filter(|one| flow.counts.of(*one) > 0).enumerate()
            {
                let (word, before) = (counted.public(), if place == 0 { ": " } else { ", " });
                write!(f, "{before}{} <span class=\"{word}\">{word}</span>", flow.counts.of(counted))?;
            }
            write!(f, "</td><td><a href=\"/v1/flows/{id}/graph?format=svg\">graph</a></td>")?;
            write!(f, "<td class=\"faint\">{}</td>", times::text(flow.submitted_at))
        })
    }

    fn write_workers(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "<h2>Live workers: {}</h2>", self.workers.len())?;
        if self.workers.is_empty() {
            return f.write_str("<p class=\"faint\">No worker was seen lately.</p>\n");
        }
        let shown = &self.workers[..self.workers.len().min(WORKERS)];
        write_table(f, &["Worker", "Instance", "Lanes", "Seen"], shown, |f, worker| {
            let Some(session) = worker.sessions.first() else {
                return Ok(());
            };
            let lanes: Vec<&str> = session.scope.lanes.iter().map(|lane| lane.as_str()).collect();
            let drains = if session.draining { " (draining)" } else { "" };
            write!(f, "<td>{}{drains}</td>", Escaped(&session.worker))?;
            write!(f, "<td class=\"id\">{}</td>", Escaped(&session.instance))?;
            write!(f, "<td>{}</td>", Escaped(&lanes.join(", ")))?;
            write!(f, "<td class=\"faint\">{}</td>", times::text(worker.seen_at()))
        })
    }

    fn write_lines_to_try(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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

/// What a suspended execution waits for, in a few words.
fn awaited(suspension: &Suspension) -> String {
    let waits: Vec<String> = suspension.waits.iter().map(|wait| wait.condition.describe()).collect();
    let waits = waits.join(" or ");
    match waits.char_indices().nth(AWAITED) {
        None => waits,
        Some((end, _)) => format!("{} …", &waits[..end]),
    }
}

fn write_table<T>(
    f: &mut fmt::Formatter<'_>,
    columns: &[&str],
    rows: &[T],
    mut write_row: impl FnMut(&mut fmt::Formatter<'_>, &T) -> fmt::Result,
) -> fmt::Result {
    f.write_str("<div class=\"table\"><table><tr>")?;
    for column in columns {
        write!(f, "<th>{column}</th>")?;
    }
    f.write_str("</tr>\n")?;
    for row in rows {
        f.write_str("<tr>")?;
        write_row(f, row)?;
        f.write_str("</tr>\n")?;
    }
    f.write_str("</table></div>\n")
}

/// `GET /docs/problems`
pub async fn problems() -> Response {
    html("Problems · Selvedge", "", &Problems)
}

/// What every code means and what to do about it.
struct Problems;

impl Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "<h1>Problems</h1>\n<p>An answer that is no success is <code>application/problem+json</code> (RFC 9457). \
             Its <code>code</code> is stable; <code>detail</code> is for people and may change.</p>\n",
        )?;
        for code in Code::ALL {
            let declared = code.declared();
            write!(
                f,
                "<h2 id=\"{0}\"><code>{0}</code> <span class=\"faint\">{1}</span></h2>\n<p>{2}. {3}</p>\n",
                declared.code,
                declared.status.as_u16(),
                Escaped(declared.title),
                Escaped(declared.advice)
            )?;
        }
        f.write_str("<p class=\"faint\"><a href=\"/\">Back to the first page</a></p>\n")
    }
}

fn html(title: &str, head: &str, content: &dyn Display) -> Response {
    let style = include_str!("page.css");
    let mut text = String::with_capacity(16 * 1024);
    let _ = write!(
        text,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n{head}\n<title>{}</title>\n\
         <style>\n{style}</style>\n</head>\n<body>\n<main>\n{content}</main>\n</body>\n</html>\n",
        Escaped(title)
    );
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'",
        ),
        (header::CACHE_CONTROL, "no-store"),
    ];
    (headers, text).into_response()
}

/// Text as it stands in HTML.
struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character {
                '<' => f.write_str("&lt;"),
                '>' => f.write_str("&gt;"),
                '&' => f.write_str("&amp;"),
                '"' => f.write_str("&quot;"),
                '\'' => f.write_str("&#39;"),
                other => f.write_char(other),
            }?;
        }
        Ok(())
    }
}
