//! Prepares the submissions of schedules: checks them and interns their classes, before the transaction that makes them.

use crate::registry::Registry;
use crate::{Error, ServerDefaults};
use selvedge_core::plan::GraphPlan;
use selvedge_core::rules::flows::submit::FlowSubmission;
use selvedge_core::rules::schedule::PreparedRun;
use selvedge_core::schedule::Template;
use selvedge_core::{NamespaceId, Refusal, Submission};
use selvedge_store::Store;
use std::time::Duration;
use tokio::time::Instant;

/// The age from which on the settings of a namespace are read again.
const SETTINGS_AGE: Duration = Duration::from_secs(10);

/// A checked template. Converted at once, so its size does not matter.
#[allow(clippy::large_enum_variant)]
enum Checked {
    Execution(Submission),
    Flow(FlowSubmission, GraphPlan),
}

/// Checks a template. The refusal points to the field in the request that has the template at `/submit`.
pub fn check(template: &Template) -> Result<(), Refusal> {
    check_with(template, &ServerDefaults::default(), None).map(drop)
}

fn check_with(
    template: &Template,
    defaults: &ServerDefaults,
    retention_ms: Option<i64>,
) -> Result<Checked, Refusal> {
    match template {
        Template::Execution(draft) => {
            let mut draft = (**draft).clone();
            defaults.add_to(&mut draft, retention_ms);
            let checked = draft.check().map_err(|refusal| refusal.with_pointer_prefix("/submit/execution"));
            checked.map(Checked::Execution)
        }
        Template::Flow(draft) => {
            let mut draft = (**draft).clone();
            for node in &mut draft.graph.nodes {
                defaults.add_to(&mut node.draft, retention_ms);
            }
            let checked = draft.check().map_err(|refusal| refusal.with_pointer_prefix("/submit/flow"));
            checked.map(|(submission, plan)| Checked::Flow(submission, plan))
        }
    }
}

fn gives_retention(template: &Template) -> bool {
    match template {
        Template::Execution(draft) => draft.gives_retention,
        Template::Flow(draft) => draft.graph.nodes.iter().all(|node| node.draft.gives_retention),
    }
}

/// Prepares a template for a submission. The inner error is the reason why it is refused.
pub async fn prepare(
    store: &dyn Store,
    registry: &Registry,
    defaults: &ServerDefaults,
    namespace: NamespaceId,
    template: &Template,
) -> Result<Result<PreparedRun, Refusal>, Error> {
    let retention_ms = match gives_retention(template) {
        true => None,
        false => default_retention(store, registry, namespace).await?,
    };
    Ok(match check_with(template, defaults, retention_ms) {
        Err(refusal) => Err(refusal),
        Ok(Checked::Execution(submission)) => {
            let classes = registry.intern(&[submission.class(namespace)]).await?;
            let class = classes.into_iter().next().ok_or(Error::Closed)?;
            Ok(PreparedRun::Execution { submission, class })
        }
        Ok(Checked::Flow(submission, plan)) => {
            let classes = registry.intern(&plan.classes(namespace)).await?;
            Ok(PreparedRun::Flow { submission, plan, classes })
        }
    })
}

async fn default_retention(
    store: &dyn Store,
    registry: &Registry,
    namespace: NamespaceId,
) -> Result<Option<i64>, Error> {
    let since = Instant::now().checked_sub(SETTINGS_AGE);
    if let Some(settings) = registry.settings_since(namespace, since) {
        return Ok(settings.retention_ms);
    }
    let now = Instant::now();
    let settings = store.namespace_settings(namespace).await?;
    registry.keep_settings(namespace, settings, now);
    Ok(settings.retention_ms)
}
