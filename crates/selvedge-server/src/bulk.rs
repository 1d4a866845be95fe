//! One action on many executions: by ids, or by the filter that lists.

use crate::Answer;
use crate::auth::Caller;
use crate::body::Sent;
use crate::fields::Fields;
use crate::filter::Words;
use crate::json;
use crate::operators::{read_cancel, read_priority, read_reschedule};
use crate::problem::Problem;
use axum::http::StatusCode;
use selvedge_core::rules::operator::Action;
use selvedge_core::{ExecutionId, Refusal};
use selvedge_engine::{Bulk, BulkTarget};
use uuid::Uuid;

/// `POST /v1/executions/bulk`
pub async fn bulk(caller: Caller, sent: Sent) -> Answer {
    let mut fields = sent.fields()?;
    let action = fields.object("action")?;
    let action = read_action(fields.require("action", action)?)?;
    let ids = fields.texts("ids")?.map(|ids| read_ids(&fields, &ids)).transpose()?;
    let words = fields.object("filter")?.map(read_words).transpose()?;
    let dry_run = fields.flag("dry_run")?.unwrap_or(false);
    let target = match (ids, words) {
        (Some(ids), None) => BulkTarget::Ids(ids),
        (None, Some(words)) => BulkTarget::Filter(Box::new(words.filter(&caller.namespace).await?)),
        (None, None) => return Err(fields.refuse("ids", "is missing; give ids or filter").into()),
        (Some(_), Some(_)) => return Err(fields.refuse("filter", "excludes ids; give only one").into()),
    };
    fields.finish()?;
    let bulk = Bulk { action, target, dry_run };
    let bulked = caller.namespace.bulk(bulk, &caller.actor).await?;
    let done = if dry_run { 0 } else { bulked.ids.len() };
    Ok(json::answer(StatusCode::OK, |object| {
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
    }))
}

fn read_action(mut fields: Fields<'_>) -> Result<Action, Refusal> {
    let word = fields.text("type")?;
    let action = match fields.require("type", word)?.as_str() {
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
        let wrong = |_| Refusal::field(&format!("{}/{index}", fields.pointer("ids")), "must be a UUID");
        Uuid::parse_str(id).map(ExecutionId).map_err(wrong)
    };
    ids.iter().enumerate().map(read).collect()
}

fn read_words(mut fields: Fields<'_>) -> Result<Words, Refusal> {
    let words = Words::take("/filter", |name| fields.text(name))?;
    fields.finish()?;
    Ok(words)
}
