//! Bulk actions: one action on many executions, chosen by ids or by the filter of lists.

use crate::auth::Caller;
use crate::routes::HandlerResult;
use crate::routes::operators::{read_cancel, read_priority, read_reschedule};
use crate::wire::body::RequestBody;
use crate::wire::fields::Fields;
use crate::wire::filter::RawFilter;
use crate::wire::json;
use crate::wire::problem::Problem;
use axum::http::StatusCode;
use selvedge_core::rules::keyed::Answered;
use selvedge_core::rules::operator::Action;
use selvedge_core::{ExecutionId, Refusal};
use selvedge_engine::{Bulk, BulkTarget};
use uuid::Uuid;

/// `POST /v1/executions/bulk`
pub async fn bulk(caller: Caller, body: RequestBody) -> HandlerResult {
    let calls = caller.namespace.keyed(body.call_key()?);
    let mut fields = body.fields()?;
    let action = fields.object("action")?;
    let action = read_action(fields.require("action", action)?)?;
    let ids = fields.texts("ids")?.map(|ids| read_ids(&fields, &ids)).transpose()?;
    let filter = fields.object("filter")?.map(read_filter).transpose()?;
    let dry_run = fields.flag("dry_run")?.unwrap_or(false);
    let target = match (ids, filter) {
        (Some(ids), None) => BulkTarget::Ids(ids),
        (None, Some(filter)) => BulkTarget::Filter(Box::new(filter.resolve(&caller.namespace).await?)),
        (None, None) => return Err(fields.refuse("ids", "is missing; give ids or filter").into()),
        (Some(_), Some(_)) => {
            let detail = "cannot be combined with ids; give only one of them";
            return Err(fields.refuse("filter", detail).into());
        }
    };
    fields.finish()?;
    let bulk = Bulk { action, target, dry_run };
    let Answered { done: bulked, duplicate } = calls.bulk(bulk, &caller.actor).await?;
    let done = if dry_run { 0 } else { bulked.ids.len() };
    Ok(json::response(StatusCode::OK, |object| {
        object.value("matched", &bulked.matched);
        object.value("done", &done);
        object.value("ids", &bulked.ids);
        object.array("refused", bulked.refused, |out, (id, refusal)| {
            json::object(out, |object| {
                object.value("execution", &id);
                Problem::from(refusal).write(object.field("error"));
            });
        });
        object.value("more", &bulked.more);
        object.value("duplicate", &duplicate);
    }))
}

fn read_action(mut fields: Fields<'_>) -> Result<Action, Refusal> {
    let kind = fields.text("type")?;
    let action = match fields.require("type", kind)?.as_str() {
        "cancel" => read_cancel(&mut fields)?,
        "replay" => Action::Replay,
        "priority" => read_priority(&mut fields)?,
        "reschedule" => read_reschedule(&mut fields)?,
        other => {
            let detail = format!("is {other:?}; it must be one of cancel, replay, priority, reschedule");
            return Err(fields.refuse("type", detail));
        }
    };
    fields.finish()?;
    Ok(action)
}

fn read_ids(fields: &Fields<'_>, ids: &[String]) -> Result<Vec<ExecutionId>, Refusal> {
    let read = |(index, id): (usize, &String)| {
        let refuse = |_| Refusal::field(&format!("{}/{index}", fields.pointer("ids")), "must be a UUID");
        Uuid::parse_str(id).map(ExecutionId).map_err(refuse)
    };
    ids.iter().enumerate().map(read).collect()
}

fn read_filter(mut fields: Fields<'_>) -> Result<RawFilter, Refusal> {
    let filter = RawFilter::take("/filter", |name| fields.text(name))?;
    fields.finish()?;
    Ok(filter)
}
