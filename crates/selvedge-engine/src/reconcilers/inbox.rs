//! `inbox`: takes in the submissions that users have written with SQL, and deletes those that were refused long ago.
//!
//! A row is read as a request over HTTP, and submitted by the same rules. Its submission and its deletion are one
//! transaction: see [`TakeIn`].

use super::runtime::ReconcilerContext;
use super::{PAGE, Reconciler, Tally};
use crate::namespace::creation::{self, DEFAULT_NAMESPACE};
use crate::namespace::planned_graph;
use crate::request::graph::read_flow;
use crate::request::submission::read_submission;
use crate::{Error, ServerDefaults};
use async_trait::async_trait;
use selvedge_api::Rejection;
use selvedge_api::fields::Fields;
use selvedge_core::inbox::InboxEntry;
use selvedge_core::name::NAME_LIMIT;
use selvedge_core::plan::GraphPlan;
use selvedge_core::rules::flows::submit::{FlowSubmission, SubmitFlow};
use selvedge_core::rules::inbox::{InboxRequest, TakeIn, TakenIn};
use selvedge_core::rules::submit::{Submit, SubmitItem};
use selvedge_core::{Class, ClassId, ExecutionId, FlowId, Name, NamespaceId, Refusal, Submission, Timestamp};
use selvedge_store::{Error as StoreError, Overview};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// The time after which a tick begins no further page. The next tick continues at once.
const RUN_FOR: Duration = Duration::from_secs(2);

/// Takes in the rows of the inbox.
pub struct Inbox;

#[async_trait]
impl Reconciler for Inbox {
    fn name(&self) -> &'static str {
        "inbox"
    }

    fn interval(&self) -> Duration {
        Duration::from_millis(20)
    }

    fn next_due(&self, overview: &Overview) -> Option<Timestamp> {
        overview.due.of::<selvedge_core::inbox::InboxRow>()
    }

    async fn tick(&self, context: &ReconcilerContext) -> Result<Tally, Error> {
        let registry = context.committer.registry();
        let only = context.scope.namespace.map(|namespace| registry.namespace_name(namespace));
        let (mut tally, mut after) = (Tally::default(), None);
        let until = Instant::now() + RUN_FOR;
        while Instant::now() < until {
            let page = context.store.pending_inbox(only.as_ref(), after, PAGE).await?;
            after = page.last().map(|entry| (entry.transaction, entry.row.number));
            if after.is_none() {
                break;
            }
            tally += take_in(context, page).await?;
        }
        if tally.scanned == 0 {
            tally.done += context.store.delete_old_inbox(PAGE).await?;
        }
        Ok(tally)
    }
}

/// A request whose fields are valid.
enum Checked {
    Execution(Box<Submission>),
    Flow(Box<FlowSubmission>, GraphPlan),
}

/// Takes in the rows of a page. Each is submitted or refused on its own.
async fn take_in(context: &ReconcilerContext, page: Vec<InboxEntry>) -> Result<Tally, Error> {
    let homes = Homes::read(context, &page).await?;
    let scanned = page.len() as u64;
    let mut checked = Vec::with_capacity(page.len());
    for entry in page.into_iter().filter(|entry| !context.quarantine.contains(&entry.row.number)) {
        let home = homes.of(&entry);
        checked.push((check(&entry, &home, &context.defaults), home.namespace, entry));
    }
    let classes = checked.iter().flat_map(|(request, namespace, _)| classes(request, *namespace));
    let classes: Vec<Class> = classes.collect();
    let mut interned = context.committer.registry().intern(&classes).await?.into_iter();
    let rules = checked
        .into_iter()
        .map(|(request, namespace, entry)| rule(request, namespace, &entry, &mut interned));
    let rules: Vec<TakeIn> = rules.collect();
    let metrics = context.committer.metrics();
    let done = |reply| {
        metrics.took_in(reply);
        Ok(reply != TakenIn::Superseded)
    };
    let tally = context.run_for_each(rules, |_| true, |rule| rule.number, |rule| rule, done).await?;
    Ok(Tally { scanned, ..tally })
}

/// The namespaces of a page of rows.
struct Homes {
    known: HashMap<Name, Home>,
    /// The namespace whose log records the refusal of rows whose own does not exist.
    default: NamespaceId,
}

/// The namespace of a row.
#[derive(Clone)]
struct Home {
    namespace: NamespaceId,
    retention_ms: Option<i64>,
    /// The reason why nothing can be submitted into it.
    refusal: Option<Refusal>,
}

impl Homes {
    async fn read(context: &ReconcilerContext, page: &[InboxEntry]) -> Result<Homes, Error> {
        let open = async |name: &Name| {
            creation::open(&*context.store, &context.committer, context.create_namespaces, name).await
        };
        let default = open(&Name::trusted(DEFAULT_NAMESPACE)).await?;
        let default =
            default.ok_or_else(|| StoreError::Failed("the namespace default was deleted".into()))?;
        let mut known = HashMap::new();
        for name in page.iter().map(|entry| &entry.row.namespace) {
            if known.contains_key(name) || Name::parse("/namespace", name, NAME_LIMIT).is_err() {
                continue;
            }
            let found = open(name).await?;
            let settings = match found {
                Some(namespace) => Some(context.store.namespace_settings(namespace).await?),
                None => None,
            };
            let missing = || Refusal::UnknownNamespace { namespace: name.to_string() };
            let exists = settings.is_some_and(|settings| settings.deletion.is_none());
            let refusal = (!exists).then(missing);
            let retention_ms = settings.and_then(|settings| settings.retention_ms);
            known.insert(name.clone(), Home { namespace: found.unwrap_or(default), retention_ms, refusal });
        }
        Ok(Homes { known, default })
    }

    fn of(&self, entry: &InboxEntry) -> Home {
        let invalid = || Home {
            namespace: self.default,
            retention_ms: None,
            refusal: Name::parse("/namespace", &entry.row.namespace, NAME_LIMIT).err(),
        };
        self.known.get(&entry.row.namespace).cloned().unwrap_or_else(invalid)
    }
}

/// Reads the request of a row, and checks its fields.
fn check(entry: &InboxEntry, home: &Home, defaults: &ServerDefaults) -> Result<Checked, Refusal> {
    if let Some(refusal) = &home.refusal {
        return Err(refusal.clone());
    }
    let fields = Fields::from_body(entry.body.as_bytes()).map_err(|invalid| match invalid {
        Rejection::NotJson(detail) | Rejection::Problem(_, detail) => Refusal::field("", detail),
        Rejection::Refused(refusal) => refusal,
    })?;
    match entry.is_flow {
        false => {
            let mut draft = read_submission(fields, None)?;
            draft.id = Some(entry.id);
            defaults.add_to(&mut draft, home.retention_ms);
            Ok(Checked::Execution(Box::new(draft.check()?)))
        }
        true => {
            let mut draft = read_flow(fields, None)?;
            draft.id = Some(entry.id);
            for node in &mut draft.graph.nodes {
                defaults.add_to(&mut node.draft, home.retention_ms);
            }
            let (submission, plan) = draft.check()?;
            Ok(Checked::Flow(Box::new(submission), plan))
        }
    }
}

/// Returns the classes that a request needs.
fn classes(request: &Result<Checked, Refusal>, namespace: NamespaceId) -> Vec<Class> {
    match request {
        Ok(Checked::Execution(submission)) => vec![submission.class(namespace)],
        Ok(Checked::Flow(_, plan)) => plan.classes(namespace),
        Err(_) => Vec::new(),
    }
}

/// Returns the rule that takes a row in. `interned` continues with the ids of its classes.
fn rule(
    request: Result<Checked, Refusal>,
    namespace: NamespaceId,
    entry: &InboxEntry,
    interned: &mut impl Iterator<Item = ClassId>,
) -> TakeIn {
    let actor = Name::parse("/role", &format!("sql:{}", entry.role), NAME_LIMIT).ok();
    let request = match request {
        Err(refusal) => InboxRequest::Invalid(refusal),
        Ok(Checked::Execution(submission)) => {
            let class = interned.next().unwrap_or(ClassId(0));
            let item = SubmitItem { submission: Ok(*submission), class, id: ExecutionId(entry.id) };
            let (items, actor) = (vec![item], actor.clone());
            InboxRequest::Execution(Submit { namespace, items, actor, call_key: None, repeated: false })
        }
        Ok(Checked::Flow(submission, plan)) => {
            let classes = interned.take(plan.nodes().len()).collect();
            InboxRequest::Flow(Box::new(SubmitFlow {
                namespace,
                id: FlowId(entry.id),
                submission: *submission,
                planned: planned_graph(plan, classes),
                actor: actor.clone(),
                call_key: None,
                repeated: false,
            }))
        }
    };
    TakeIn { number: entry.row.number, namespace, id: entry.id, actor, request }
}
