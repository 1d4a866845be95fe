//! The specification of a schedule, read and written, and JSON merge patches of it.

use crate::wire::graph::read_flow;
use crate::wire::json::{self, Object};
use crate::wire::submission::read_submission;
use selvedge_api::fields::Fields;
use selvedge_core::Refusal;
use selvedge_core::schedule::times::Timing;
use selvedge_core::schedule::{CatchUp, Overlap, ScheduleSpec, Template};
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// The time zone of cron expressions that name none.
pub const TIME_ZONE: &str = "UTC";

/// Reads a specification.
pub fn read_spec(mut fields: Fields<'_>) -> Result<ScheduleSpec, Refusal> {
    let (cron, zone) = (fields.text("cron")?, fields.text("time_zone")?);
    let interval_ms = fields.integer("interval_ms")?;
    let timing = match (cron, interval_ms) {
        (Some(expression), None) => {
            Timing::Cron { expression, time_zone: zone.unwrap_or_else(|| TIME_ZONE.into()) }
        }
        (None, Some(_)) if zone.is_some() => {
            return Err(fields.refuse("time_zone", "is for cron; an interval counts elapsed time"));
        }
        (None, Some(interval_ms)) => Timing::Interval { interval_ms },
        (Some(_), Some(_)) => {
            return Err(fields.refuse("interval_ms", "cannot be combined with cron; give only one of them"));
        }
        (None, None) => return Err(fields.refuse("cron", "is missing; give cron or interval_ms")),
    };
    let submit_text = fields.non_null("submit");
    let submit_text = fields.require("submit", submit_text)?;
    let submit = read_template(Fields::from_value(submit_text, fields.pointer("submit"))?)?;
    let spec = ScheduleSpec {
        timing,
        submit,
        submit_text: Some(submit_text.get().to_owned()),
        overlap: fields
            .word("overlap", Overlap::parse, Overlap::ALL.map(Overlap::as_str))?
            .unwrap_or_default(),
        catch_up: fields
            .word("catch_up", CatchUp::parse, CatchUp::ALL.map(CatchUp::as_str))?
            .unwrap_or_default(),
        jitter_ms: fields.integer("jitter_ms")?.unwrap_or(0),
        paused: fields.flag("paused")?.unwrap_or(false),
    };
    fields.finish()?;
    Ok(spec)
}

fn read_template(mut fields: Fields<'_>) -> Result<Template, Refusal> {
    let template = match fields.exactly_one(&["execution", "flow"])? {
        "flow" => fields
            .object("flow")?
            .map(|flow| read_flow(flow, None))
            .transpose()?
            .map(Box::new)
            .map(Template::Flow),
        _ => fields
            .object("execution")?
            .map(|one| read_submission(one, None))
            .transpose()?
            .map(Box::new)
            .map(Template::Execution),
    };
    fields.require("execution", template)
}

/// Writes the fields of a specification.
pub fn write_spec(object: &mut Object<'_>, spec: &ScheduleSpec) {
    let (cron, time_zone, interval_ms) = match &spec.timing {
        Timing::Cron { expression, time_zone } => (Some(expression), Some(time_zone), None),
        Timing::Interval { interval_ms } => (None, None, Some(*interval_ms)),
    };
    object.value("cron", &cron);
    object.value("time_zone", &time_zone);
    object.value("interval_ms", &interval_ms);
    object.raw("submit", spec.submit_text.as_deref().map(str::as_bytes));
    object.value("overlap", spec.overlap.as_str());
    object.value("catch_up", spec.catch_up.as_str());
    object.value("jitter_ms", &spec.jitter_ms);
    object.value("paused", &spec.paused);
}

/// Refuses a patch with unknown fields or values of other types.
pub fn check_patch(mut fields: Fields<'_>) -> Result<(), Refusal> {
    fields.text("cron")?;
    fields.text("time_zone")?;
    fields.integer("interval_ms")?;
    fields.object("submit")?;
    fields.word("overlap", Overlap::parse, Overlap::ALL.map(Overlap::as_str))?;
    fields.word("catch_up", CatchUp::parse, CatchUp::ALL.map(CatchUp::as_str))?;
    fields.integer("jitter_ms")?;
    fields.flag("paused")?;
    fields.finish()
}

/// Applies a JSON merge patch (RFC 7396) to a specification, and returns the result as JSON. Values that the patch does not name
/// stay byte for byte.
pub fn patched(spec: &ScheduleSpec, patch: &RawValue) -> Vec<u8> {
    let mut document = Vec::new();
    json::object(&mut document, |object| write_spec(object, spec));
    let document = String::from_utf8(document).unwrap_or_default();
    merge(&document, patch.get()).into_bytes()
}

/// Merges a patch into a value, both as JSON text.
fn merge(target: &str, patch: &str) -> String {
    type Members<'a> = BTreeMap<String, &'a RawValue>;
    let Ok(patch_members) = serde_json::from_str::<Members<'_>>(patch) else { return patch.to_owned() };
    let members = serde_json::from_str::<Members<'_>>(target).unwrap_or_default();
    let mut merged: BTreeMap<String, String> =
        members.into_iter().map(|(name, value)| (name, value.get().to_owned())).collect();
    for (name, value) in patch_members {
        match value.get() {
            "null" => drop(merged.remove(&name)),
            value => {
                let before = merged.remove(&name).unwrap_or_default();
                merged.insert(name, merge(&before, value));
            }
        }
    }
    let mut out = Vec::new();
    json::object(&mut out, |object| {
        for (name, value) in &merged {
            object.entry(name).extend_from_slice(value.as_bytes());
        }
    });
    String::from_utf8(out).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_merge_patch_changes_what_it_names_and_keeps_the_bytes_of_the_rest() {
        for (target, patch, merged) in [
            (r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"b":"c"}"#, r#"{"a":"b","b":"c"}"#),
            (r#"{"a":"b"}"#, r#"{"a":null}"#, "{}"),
            (r#"{"a":{"b":1.50,"c":[1, 2]}}"#, r#"{"a":{"b":null}}"#, r#"{"a":{"c":[1, 2]}}"#),
            (r#"{"a":1.50}"#, r#"{"b":{"c":null}}"#, r#"{"a":1.50,"b":{}}"#),
            (r#"{"a":[1]}"#, r#"{"a":{"x":1}}"#, r#"{"a":{"x":1}}"#),
            (r#"{"a":"b"}"#, r#"["c"]"#, r#"["c"]"#),
        ] {
            assert_eq!(merge(target, patch), merged);
        }
    }
}
