//! Bulk actions: one action on many executions, chosen by ids, by the filter of lists, or all of the namespace.

use crate::auth::Caller;
use crate::routes::HandlerResult;
use crate::wire::body::RequestBody;
use crate::wire::filter::resolve;
use crate::wire::json;
use crate::wire::problem::Problem;
use axum::http::StatusCode;
use selvedge_api::Shape;
use selvedge_api::actions::BulkAction;
use selvedge_api::fields::Fields;
use selvedge_api::filter::ExecutionFilter;
use selvedge_core::filter::Filter;
use selvedge_core::rules::keyed::Answered;
use selvedge_core::{ExecutionId, Refusal};
use selvedge_engine::{Bulk, BulkTarget, Error};
use uuid::Uuid;

/// The fields that choose the executions.
const TARGETS: [&str; 3] = ["ids", "filter", "all"];

/// `POST /v1/executions/bulk`
pub async fn bulk(caller: Caller, body: RequestBody) -> HandlerResult {
    let calls = caller.namespace.keyed(body.call_key()?);
    let mut fields = body.fields()?;
    let action = BulkAction::take(&mut fields, "action")?.into();
    let ids = fields.texts("ids")?.map(|ids| read_ids(&fields, &ids)).transpose()?;
    let filter = <Option<ExecutionFilter> as Shape>::take(&mut fields, "filter")?;
    let all = fields.flag("all")?.filter(|all| *all);
    let dry_run = fields.flag("dry_run")?.unwrap_or(false);
    let given = [ids.is_some(), filter.is_some(), all.is_some()];
    let given: Vec<&str> =
        TARGETS.into_iter().zip(given).filter(|(_, given)| *given).map(|(name, _)| name).collect();
    let field = match given.as_slice() {
        [] => return Err(fields.refuse("ids", "is missing; give ids, filter or all: true").into()),
        [field] => *field,
        [first, second, ..] => {
            let detail = format!("cannot be combined with {first}; give only one of them");
            return Err(fields.refuse(second, detail).into());
        }
    };
    fields.finish()?;
    let target = match (ids, filter) {
        (Some(ids), _) => BulkTarget::Ids(ids),
        (None, Some(filter)) => BulkTarget::Filter(Box::new(resolve(filter, &caller.namespace).await?)),
        (None, None) => BulkTarget::Filter(Box::new(Filter::all(caller.namespace.id()))),
    };
    let bulk = Bulk { action, target, dry_run };
    let Answered { done: result, duplicate } =
        calls.bulk(bulk, &caller.actor).await.map_err(|error| match error {
            // The engine does not know the field of the request.
            Error::Refused(refusal @ Refusal::TooMany { .. }) => {
                Problem::refused_at(&format!("/{field}"), refusal)
            }
            error => error.into(),
        })?;
    let changed = result.changed.len();
    Ok(json::response(StatusCode::OK, |object| {
        object.value("matched", &result.matched());
        object.value(if dry_run { "would_change" } else { "done" }, &changed);
        object.value("unchanged", &result.unchanged);
        object.array("refused", &result.refused, |out, (id, refusal)| {
            json::object(out, |object| {
                object.value("id", id);
                object.value("code", refusal.code());
                object.value("detail", &refusal.to_string());
            });
        });
        object.value("not_found", &result.not_found);
        object.value("ids", &result.changed);
        object.value("duplicate", &duplicate);
    }))
}

fn read_ids(fields: &Fields<'_>, ids: &[String]) -> Result<Vec<ExecutionId>, Refusal> {
    let read = |(index, id): (usize, &String)| {
        let refuse = |_| Refusal::field(&format!("{}/{index}", fields.pointer("ids")), "must be a UUID");
        Uuid::parse_str(id).map(ExecutionId).map_err(refuse)
    };
    ids.iter().enumerate().map(read).collect()
}
