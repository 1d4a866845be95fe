//! Submissions inside a transaction of the program's own, on Postgres: the change of its tables and the work for it commit
//! together or not at all.

use crate::{Error, ExecutionId, Submission};
use selvedge_core::Draft;
use selvedge_core::submission::When;
use selvedge_engine::request::times;
use serde_json::json;
use tokio_postgres::GenericClient;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

impl Submission {
    /// Submits the execution to a namespace inside a transaction on the store's database, and returns the id that the
    /// execution will have. A server or an embedded engine takes the submission in after the commit. The role of the
    /// connection needs the rights that docs/sql.md describes. There is no debounce here.
    ///
    /// ```
    /// # use selvedge::{Error, Submission};
    /// async fn order(client: &mut tokio_postgres::Client) -> Result<(), Box<dyn std::error::Error>> {
    ///     let transaction = client.transaction().await?;
    ///     transaction.execute("insert into orders (id) values (1)", &[]).await?;
    ///     Submission::new("ship").input(&1)?.submit_in(&transaction, "default").await?;
    ///     transaction.commit().await?;
    ///     Ok(())
    /// }
    /// ```
    pub async fn submit_in(
        self,
        transaction: &impl GenericClient,
        namespace: &str,
    ) -> Result<ExecutionId, Error> {
        let call = Call::new(self.into(), namespace)?;
        let parameters: Vec<&(dyn ToSql + Sync)> =
            call.values.iter().map(|value| value as &(dyn ToSql + Sync)).collect();
        let row = transaction.query_one(&call.statement, &parameters).await;
        let row = row.map_err(|error| match error.as_db_error() {
            Some(refused) => Error::field("", refused.message()),
            None => Error::Unavailable(format!("the database cannot be reached: {error}")),
        })?;
        let id: Uuid =
            row.try_get(0).map_err(|error| Error::Failed(format!("the id cannot be read: {error}")))?;
        Ok(ExecutionId(id))
    }
}

/// A call of the function `selvedge.submit` with the arguments that the submission gives, all of them sent as text.
struct Call {
    statement: String,
    values: Vec<String>,
}

impl Call {
    fn new(draft: Draft, namespace: &str) -> Result<Call, Error> {
        if draft.debounce.is_some() {
            return Err(Error::field("/debounce", "is not possible in a transaction"));
        }
        let mut arguments: Vec<(&str, &str, String)> = vec![
            ("kind", "text", draft.kind),
            ("lane", "text", draft.lane),
            ("namespace", "text", namespace.to_owned()),
        ];
        let input = String::from_utf8(draft.input.to_vec())
            .map_err(|_| Error::field("/input", "is not JSON, because it is not UTF-8"))?;
        arguments.push(("input", "json", input));
        let policy = draft.policy;
        let (delay_ms, delay_until) = match draft.delay {
            None => (None, None),
            Some(When::AfterMs(ms)) => (Some(ms), None),
            Some(When::At(time)) => (None, Some(times::text(time))),
        };
        let gates = draft.required_gates;
        let some_json = |given: bool, value: serde_json::Value| given.then(|| value.to_string());
        let budgets: Vec<_> =
            gates.budgets.iter().map(|(name, reserve)| json!({ "name": name, "reserve": reserve })).collect();
        let concurrency =
            gates.concurrency.as_ref().map(|(key, limit)| json!({ "key": key, "limit": limit }));
        let array = |items: &[String]| {
            let quoted =
                items.iter().map(|item| format!("\"{}\"", item.replace('\\', "\\\\").replace('"', "\\\"")));
            (!items.is_empty()).then(|| format!("{{{}}}", quoted.collect::<Vec<_>>().join(",")))
        };
        let quotas: Vec<String> = gates.quotas.iter().map(|name| name.to_string()).collect();
        let number = |number: Option<i64>| number.map(|number| number.to_string());
        let optional = [
            ("id", "uuid", draft.id.map(|id| id.to_string())),
            ("idempotency_key", "text", draft.idempotency_key),
            ("idempotency_window_ms", "bigint", number(draft.idempotency_window_ms)),
            ("unique_while_active", "text", draft.unique_while_active),
            ("priority", "integer", number(Some(draft.priority).filter(|priority| *priority != 0))),
            ("fairness_key", "text", gates.fairness_key.map(|key| key.to_string())),
            ("capabilities", "text[]", array(&draft.capabilities)),
            ("tags", "jsonb", some_json(!draft.tags.is_empty(), json!(draft.tags))),
            ("delay_until_at", "timestamptz", delay_until),
            ("delay_ms", "bigint", number(delay_ms)),
            ("start_by_ms", "bigint", number(policy.start_by_ms)),
            ("retry", "json", some_json(draft.gives_retry, json!(policy.retry))),
            ("attempt_timeout_ms", "bigint", number(policy.attempt_timeout_ms)),
            ("deadline_ms", "bigint", number(policy.deadline_ms)),
            ("retention_ms", "bigint", number(draft.gives_retention.then_some(policy.retention_ms))),
            ("budgets", "json", some_json(!budgets.is_empty(), json!(budgets))),
            ("quotas", "text[]", array(&quotas)),
            ("concurrency", "json", concurrency.map(|concurrency| concurrency.to_string())),
        ];
        let given = optional.into_iter().filter_map(|(name, kind, value)| Some((name, kind, value?)));
        arguments.extend(given);
        let list: Vec<String> = arguments
            .iter()
            .enumerate()
            .map(|(index, (name, kind, _))| format!("{name} => ${}::text::{kind}", index + 1))
            .collect();
        Ok(Call {
            statement: format!("select selvedge.submit({})", list.join(", ")),
            values: arguments.into_iter().map(|(_, _, value)| value).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_arguments_that_a_submission_gives_are_sent() {
        let submission = Submission::new("ship").capability("a\"b").tag("team", "blue");
        let call = Call::new(submission.into(), "default").expect("the submission is possible");
        assert_eq!(
            call.statement,
            "select selvedge.submit(kind => $1::text::text, lane => $2::text::text, namespace => $3::text::text, \
             input => $4::text::json, capabilities => $5::text::text[], tags => $6::text::jsonb)"
        );
        assert_eq!(call.values[4..], [r#"{"a\"b"}"#, r#"{"team":"blue"}"#]);
    }
}
