//! Selects executions by the filters of the API's list: for `list`, and for actions on many.

use super::values::tag_filter;
use clap::Args;
use selvedge_client::Request;
use serde_json::{Map, Value, json};

/// The filters of a list.
#[derive(Args, Clone, Debug, Default)]
#[group(skip)]
pub struct Selection {
    /// Only those in this lane
    #[arg(long, value_name = "NAME", help_heading = "Filter")]
    lane: Option<String>,
    /// Only those of this kind
    #[arg(long, value_name = "NAME", help_heading = "Filter")]
    kind: Option<String>,
    /// Only those in one of these states, separated by commas
    #[arg(long, value_name = "STATES", help_heading = "Filter")]
    state: Option<String>,
    /// Only those with this outcome
    #[arg(long, value_name = "OUTCOME", help_heading = "Filter")]
    outcome: Option<String>,
    /// Only members of this flow
    #[arg(long, value_name = "ID", help_heading = "Filter")]
    flow: Option<String>,
    /// Only those whose latest attempt is of this worker or instance
    #[arg(long, value_name = "NAME", help_heading = "Filter")]
    worker: Option<String>,
    /// Only those with this tag; may be repeated
    #[arg(long = "tag", value_name = "NAME=VALUE", value_parser = tag_filter, help_heading = "Filter")]
    tags: Vec<String>,
    /// Only those submitted at or after this time (RFC 3339), or within this time, such as 2h
    #[arg(long, value_name = "TIME", value_parser = point, help_heading = "Filter")]
    submitted_after: Option<String>,
    /// Only those submitted before this time
    #[arg(long, value_name = "TIME", value_parser = point, help_heading = "Filter")]
    submitted_before: Option<String>,
    /// Only those that ended at or after this time
    #[arg(long, value_name = "TIME", value_parser = point, help_heading = "Filter")]
    ended_after: Option<String>,
    /// Only those that ended before this time
    #[arg(long, value_name = "TIME", value_parser = point, help_heading = "Filter")]
    ended_before: Option<String>,
    /// Only those whose latest error contains this text; together with --submitted-after or --ended-after
    #[arg(long, value_name = "TEXT", help_heading = "Filter")]
    error: Option<String>,
}

/// Parses a point in time: RFC 3339, or a duration that is subtracted from now.
fn point(text: &str) -> Result<String, String> {
    if let Ok(time) = text.parse::<jiff::Timestamp>() {
        return Ok(format!("{time:.3}"));
    }
    let ago = super::values::span(text)
        .map_err(|_| "write a time such as 2026-03-01T12:00:00Z, or how long ago, such as 2h".to_owned())?;
    let time = jiff::Timestamp::now().checked_sub(ago).map_err(|error| error.to_string())?;
    Ok(format!("{time:.3}"))
}

impl Selection {
    fn fields(&self) -> Vec<(&'static str, &String)> {
        let fields = [
            ("lane", &self.lane),
            ("kind", &self.kind),
            ("state", &self.state),
            ("outcome", &self.outcome),
            ("flow", &self.flow),
            ("worker", &self.worker),
            ("submitted_after", &self.submitted_after),
            ("submitted_before", &self.submitted_before),
            ("ended_after", &self.ended_after),
            ("ended_before", &self.ended_before),
            ("error", &self.error),
        ];
        fields.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?))).collect()
    }

    /// Reports whether there is no filter.
    pub fn is_empty(&self) -> bool {
        self.fields().is_empty() && self.tags.is_empty()
    }

    /// Adds the filters to the request of a list.
    pub fn query(&self, mut request: Request) -> Request {
        for (name, value) in self.fields() {
            request = request.query(name, value);
        }
        for tag in &self.tags {
            request = request.query("tag", tag);
        }
        request
    }

    /// Returns the filters as the body of a bulk call has them.
    pub fn filter(&self) -> Value {
        let mut filter: Map<String, Value> =
            self.fields().into_iter().map(|(name, value)| (name.to_owned(), json!(value))).collect();
        if !self.tags.is_empty() {
            filter.insert("tag".into(), json!(self.tags));
        }
        Value::Object(filter)
    }
}
