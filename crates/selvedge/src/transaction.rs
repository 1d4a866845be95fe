//! Submissions inside a transaction of the program's own, on Postgres: the change of its tables and the work for it commit
//! together or not at all.
//!
//! [`Call`] is the only place that knows the SQL functions, [`refusal`] the only one that reads their errors. A driver of
//! Postgres implements [`PostgresTransaction`], which runs a call.

use crate::wire::submissions::FlowBody;
use crate::{Error, ExecutionId, Flow, FlowId, Refusal, Submission};
use selvedge_api::times;
use selvedge_core::Draft;
use selvedge_core::rules::flows::submit::FlowDraft;
use selvedge_core::submission::When;
use serde_json::json;
use std::future::Future;
use tokio_postgres::GenericClient;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

impl Submission {
    /// Submits the execution to a namespace inside a transaction on the store's database, and returns the id that the
    /// execution will have. The transaction is `&transaction` or `&client` of `tokio-postgres`; with the feature `sqlx` also
    /// `&mut transaction` or `&mut connection` of sqlx. A server or an embedded engine takes the submission in after the
    /// commit. The role of the connection needs the rights that docs/sql.md describes. There is no debounce here.
    ///
    /// An error ends the transaction, as every error of Postgres does: roll it back.
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
    ///
    /// # #[cfg(feature = "sqlx")]
    /// async fn order_with_sqlx(pool: &sqlx::PgPool) -> Result<(), Box<dyn std::error::Error>> {
    ///     let mut transaction = pool.begin().await?;
    ///     sqlx::query("insert into orders (id) values (1)").execute(&mut *transaction).await?;
    ///     Submission::new("ship").input(&1)?.submit_in(&mut transaction, "default").await?;
    ///     transaction.commit().await?;
    ///     Ok(())
    /// }
    /// ```
    pub async fn submit_in(
        self,
        transaction: impl PostgresTransaction,
        namespace: &str,
    ) -> Result<ExecutionId, Error> {
        let call = Call::submit(self.into(), namespace)?;
        Ok(ExecutionId(transaction.run(call).await?))
    }
}

impl Flow {
    /// Submits the flow to a namespace inside a transaction on the store's database, and returns the id that the flow will have.
    /// See [`Submission::submit_in`].
    ///
    /// ```
    /// # use selvedge::{Error, Flow};
    /// async fn order(client: &mut tokio_postgres::Client) -> Result<(), Box<dyn std::error::Error>> {
    ///     let transaction = client.transaction().await?;
    ///     transaction.execute("insert into orders (id) values (1)", &[]).await?;
    ///     let flow = Flow::new().node("pack", "pack").node("ship", "ship").after("ship", ["pack"]);
    ///     flow.submit_in(&transaction, "default").await?;
    ///     transaction.commit().await?;
    ///     Ok(())
    /// }
    /// ```
    pub async fn submit_in(
        self,
        transaction: impl PostgresTransaction,
        namespace: &str,
    ) -> Result<FlowId, Error> {
        let call = Call::submit_flow(self.into(), namespace)?;
        Ok(FlowId(transaction.run(call).await?))
    }
}

/// A transaction, or a connection, of a driver of Postgres. Implemented here for those of `tokio-postgres`, and with the feature
/// `sqlx` for those of sqlx.
pub trait PostgresTransaction: sealed::Sealed {
    /// Runs a call, and returns the id that it answers.
    #[doc(hidden)]
    fn run(self, call: Call) -> impl Future<Output = Result<Uuid, Error>> + Send;
}

mod sealed {
    /// Only this crate implements the trait, so it may change.
    pub trait Sealed {}
}

impl<T: GenericClient + Sync> sealed::Sealed for &T {}

impl<T: GenericClient + Sync> PostgresTransaction for &T {
    async fn run(self, call: Call) -> Result<Uuid, Error> {
        let values: Vec<&(dyn ToSql + Sync)> =
            call.values.iter().map(|value| value as &(dyn ToSql + Sync)).collect();
        let answered =
            self.query_one(&call.statement, &values).await.and_then(|row| row.try_get::<_, String>(0));
        read_id(&answered.map_err(|error| match error.as_db_error() {
            Some(refused) => refusal(refused.code().code(), refused.message()),
            None => unreachable_database(&error),
        })?)
    }
}

#[cfg(feature = "sqlx")]
mod with_sqlx {
    use super::{Call, PostgresTransaction, read_id, refusal, sealed, unreachable_database};
    use crate::Error;
    use sqlx::{PgConnection, Postgres, Transaction};
    use uuid::Uuid;

    impl sealed::Sealed for &mut PgConnection {}

    impl PostgresTransaction for &mut PgConnection {
        async fn run(self, call: Call) -> Result<Uuid, Error> {
            // The statement consists of names and placeholders; every value is a parameter.
            let mut query = sqlx::query_scalar::<_, String>(sqlx::AssertSqlSafe(call.statement));
            for value in call.values {
                query = query.bind(value);
            }
            let answered = query.fetch_one(self).await;
            read_id(&answered.map_err(|error| match error.as_database_error() {
                Some(refused) => refusal(refused.code().as_deref().unwrap_or_default(), refused.message()),
                None => unreachable_database(&error),
            })?)
        }
    }

    impl sealed::Sealed for &mut Transaction<'_, Postgres> {}

    impl PostgresTransaction for &mut Transaction<'_, Postgres> {
        async fn run(self, call: Call) -> Result<Uuid, Error> {
            let connection: &mut PgConnection = self;
            connection.run(call).await
        }
    }
}

/// Returns the error of a statement that the database refused, by its SQLSTATE.
fn refusal(sqlstate: &str, message: &str) -> Error {
    let refused =
        |code: &str| Refusal { code: code.into(), message: message.into(), pointer: None, status: None };
    match sqlstate {
        // Wrong arguments, and values that are not of their type, such as JSON with a NUL character.
        _ if sqlstate.starts_with("22") => Error::Invalid(refused("invalid_field")),
        // The role may not call the function, or may not submit into the namespace.
        "42501" => Error::Denied(refused("forbidden")),
        // There is no schema or function: no server has started on this database, or only an old one.
        "3F000" | "42883" => Error::Address(format!("the database has no store of Selvedge: {message}")),
        // A deadlock, a conflict, a lost connection, a lack of resources, an intervention.
        _ if ["40", "08", "53", "57"].iter().any(|class| sqlstate.starts_with(class)) => {
            Error::Unavailable(message.into())
        }
        // The transaction has failed before.
        _ => Error::Failed(format!("{message} (SQLSTATE {sqlstate})")),
    }
}

fn read_id(text: &str) -> Result<Uuid, Error> {
    Uuid::try_parse(text).map_err(|error| Error::Failed(format!("the id cannot be read: {error}")))
}

fn unreachable_database(error: &impl std::fmt::Display) -> Error {
    Error::Unavailable(format!("the database cannot be reached: {error}"))
}

/// A call of a function of the schema `selvedge`, with the arguments that the submission gives. They are sent as text, and the
/// id is answered as text, so that a driver needs no support for further types.
#[derive(Clone, Debug)]
pub struct Call {
    statement: String,
    values: Vec<String>,
}

impl Call {
    fn submit(draft: Draft, namespace: &str) -> Result<Call, Error> {
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
        Ok(Call::new("submit", arguments))
    }

    fn submit_flow(draft: FlowDraft, namespace: &str) -> Result<Call, Error> {
        let body = serde_json::to_string(&FlowBody::new(&draft)?)
            .map_err(|error| Error::field("", format!("cannot be serialised: {error}")))?;
        let arguments = vec![("body", "json", body), ("namespace", "text", namespace.to_owned())];
        Ok(Call::new("submit_flow", arguments))
    }

    /// Returns the call of a function with these arguments: their names, types and values.
    fn new(function: &str, arguments: Vec<(&str, &str, String)>) -> Call {
        let list: Vec<String> = arguments
            .iter()
            .enumerate()
            .map(|(index, (name, kind, _))| format!("{name} => ${}::text::{kind}", index + 1))
            .collect();
        Call {
            statement: format!("select selvedge.{function}({})::text", list.join(", ")),
            values: arguments.into_iter().map(|(_, _, value)| value).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_arguments_that_a_submission_gives_are_sent() {
        let submission = Submission::new("ship").capability("a\"b").tag("team", "blue");
        let call = Call::submit(submission.into(), "default").expect("the submission is possible");
        assert_eq!(
            call.statement,
            "select selvedge.submit(kind => $1::text::text, lane => $2::text::text, namespace => $3::text::text, \
             input => $4::text::json, capabilities => $5::text::text[], tags => $6::text::jsonb)::text"
        );
        assert_eq!(call.values[4..], [r#"{"a\"b"}"#, r#"{"team":"blue"}"#]);
    }
}
