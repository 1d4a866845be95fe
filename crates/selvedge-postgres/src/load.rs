//! The loading half of a transaction: every statement that is needed goes out at once and the answers are gathered.
//!
//! Statements run on the server in the order in which they are sent, so locks are taken in the global order: executions,
//! then sessions; and the leases of a session are read after the session is locked. Before all of them, and before the time
//! is read, comes the writers' advisory lock, which is only shared: see `bounds` and `log`.

use crate::bounds::Bounds;
use crate::pipeline::{Parameters, Pipeline};
use crate::row::{self, Micros};
use crate::sql;
use crate::transaction::Failed;
use deadpool_postgres::Object;
use selvedge_core::rows::{KeyName, KeyRow, KeyScope};
use selvedge_core::{ExecutionId, Name, NamespaceId, Needs, Rows};
use selvedge_store::Error;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

/// What a statement was sent for, to know its answer.
enum Asked {
    Begin,
    Lock,
    Now,
    Executions,
    Candidates,
    Inputs,
    Keys,
    Sessions,
    Leases,
    Classes,
}

/// Loads rows; begins the transaction first where there is a key of the lock to begin it with.
pub async fn load(
    client: &Object,
    needs: &Needs,
    begin: Option<i64>,
    bounds: &Bounds,
) -> Result<Rows, Failed> {
    let mut asked = Vec::new();
    let mut pipeline = Pipeline::new(client);
    let mut add = async |what, text: &str, parameters| -> Result<(), Failed> {
        asked.push(what);
        Ok(pipeline.add(text, parameters).await?)
    };
    if let Some(writers_key) = begin {
        add(Asked::Begin, "begin", vec![]).await?;
        let parameters: Parameters<'_> = vec![Box::new(writers_key)];
        add(Asked::Lock, "select pg_advisory_xact_lock_shared($1)", parameters).await?;
    }
    if !needs.executions.is_empty() {
        add(Asked::Executions, &sql::EXECUTIONS_LOCK, vec![ids(&needs.executions)]).await?;
    }
    if !needs.executions_if_free.is_empty() {
        add(Asked::Executions, &sql::EXECUTIONS_LOCK_FREE, vec![ids(&needs.executions_if_free)]).await?;
    }
    if !needs.keys.is_empty() {
        add(Asked::Keys, &sql::KEYS_FIND, keys(&needs.keys)).await?;
    }
    for candidates in &needs.candidates {
        let passed = bounds.of(&candidates.classes);
        let (text, classes): (_, Box<dyn ToSql + Sync + Send>) = match candidates.classes.as_slice() {
            [class] => (&sql::EXECUTIONS_CANDIDATES, Box::new(class.0)),
            classes => {
                let classes: Vec<i32> = classes.iter().map(|class| class.0).collect();
                (&sql::EXECUTIONS_CANDIDATES_OF_MANY, Box::new(classes))
            }
        };
        let parameters: Parameters<'_> = vec![
            classes,
            Box::new(passed.keys),
            Box::new(passed.generations),
            Box::new(passed.bounds),
            Box::new(i64::from(candidates.limit)),
            ids(&needs.except),
        ];
        add(Asked::Candidates, text, parameters).await?;
    }
    if !needs.look.is_empty() {
        add(Asked::Executions, &sql::EXECUTIONS_LOOK, vec![ids(&needs.look)]).await?;
    }
    if !needs.inputs.is_empty() {
        add(Asked::Inputs, &sql::EXECUTIONS_INPUTS, vec![ids(&needs.inputs)]).await?;
    }
    if !needs.sessions.is_empty() {
        let sessions: Vec<i64> = needs.sessions.iter().map(|id| id.0).collect();
        add(Asked::Sessions, &sql::SESSIONS_FIND, vec![Box::new(sessions)]).await?;
    }
    if !needs.sessions_locked.is_empty() {
        let sessions: Vec<i64> = needs.sessions_locked.iter().map(|id| id.0).collect();
        add(Asked::Sessions, &sql::SESSIONS_LOCK, vec![Box::new(sessions)]).await?;
    }
    if !needs.instances.is_empty() {
        add(Asked::Sessions, &sql::SESSIONS_LOCK_INSTANCES, instances(&needs.instances)).await?;
        add(Asked::Leases, &sql::SESSIONS_LEASES, instances(&needs.instances)).await?;
    }
    if let Some(after) = needs.classes_after {
        add(Asked::Classes, &sql::CLASSES_AFTER, vec![Box::new(after.0)]).await?;
    }
    // Told last, when all locks are held: so the times of a row's versions never go back.
    add(Asked::Now, "select clock_timestamp()", vec![]).await?;
    let mut rows = Rows::default();
    for (asked, answer) in asked.iter().zip(pipeline.run().await) {
        gather(asked, &answer?, &mut rows)?;
    }
    rows.candidates = in_claim_order(&rows);
    Ok(rows)
}

fn gather(asked: &Asked, answer: &[Row], rows: &mut Rows) -> Result<(), Error> {
    match asked {
        Asked::Begin | Asked::Lock => {}
        Asked::Now => rows.now = answer.first().map(|row| row.get::<_, Micros>(0).time()).unwrap_or_default(),
        Asked::Executions => {
            for answer in answer {
                match row::execution(answer) {
                    Ok(execution) => rows.executions.push(execution),
                    Err(unreadable) => rows.unreadable.push(unreadable),
                }
            }
        }
        Asked::Candidates => {
            for answer in answer {
                match row::execution(answer) {
                    Ok(execution) => {
                        rows.candidates.push(execution.id);
                        rows.inputs.push((execution.id, row::payload(answer, sql::COLUMN_COUNT)));
                        rows.executions.push(execution);
                    }
                    Err(unreadable) => rows.unreadable.push(unreadable),
                }
            }
        }
        Asked::Inputs => {
            rows.inputs.extend(answer.iter().map(|row| (ExecutionId(row.get(0)), row::payload(row, 1))));
        }
        Asked::Keys => {
            for row in answer {
                rows.keys.push(key(row)?);
            }
        }
        Asked::Sessions => rows.sessions.extend(answer.iter().map(row::session)),
        Asked::Leases => {
            for answer in answer {
                match row::held_lease(answer) {
                    Ok(lease) => rows.leases.push(lease),
                    Err(unreadable) => rows.unreadable.push(unreadable),
                }
            }
        }
        Asked::Classes => rows.classes.extend(answer.iter().map(row::class)),
    }
    Ok(())
}

/// Candidates of several statements, merged.
fn in_claim_order(rows: &Rows) -> Vec<ExecutionId> {
    let mut candidates = rows.candidates.clone();
    if candidates.len() > 1 {
        let place: std::collections::HashMap<_, _> = rows
            .executions
            .iter()
            .map(|row| (row.id, (std::cmp::Reverse(row.priority), row.ready_order, row.id)))
            .collect();
        candidates.sort_by_key(|id| place.get(id).copied());
        candidates.dedup();
    }
    candidates
}

fn ids(ids: &[ExecutionId]) -> Box<dyn ToSql + Sync + Send + 'static> {
    Box::new(ids.iter().map(|id| id.0).collect::<Vec<Uuid>>())
}

fn keys(names: &[KeyName]) -> Parameters<'static> {
    vec![
        Box::new(names.iter().map(|name| name.namespace.0).collect::<Vec<i32>>()),
        Box::new(names.iter().map(|name| name.scope.code()).collect::<Vec<i16>>()),
        Box::new(names.iter().map(|name| name.key.to_string()).collect::<Vec<String>>()),
    ]
}

fn instances(instances: &[(NamespaceId, Name)]) -> Parameters<'static> {
    vec![
        Box::new(instances.iter().map(|(namespace, _)| namespace.0).collect::<Vec<i32>>()),
        Box::new(instances.iter().map(|(_, instance)| instance.to_string()).collect::<Vec<String>>()),
    ]
}

fn key(row: &Row) -> Result<KeyRow, Error> {
    let code: i16 = row.get(1);
    let scope =
        KeyScope::from_code(code).ok_or_else(|| Error::Failed(format!("keys: unknown scope {code}")))?;
    Ok(KeyRow {
        name: KeyName { namespace: NamespaceId(row.get(0)), scope, key: Name::trusted(row.get(2)) },
        execution: row.get::<_, Option<Uuid>>(3).map(ExecutionId),
        digest: row.get::<_, i64>(4) as u64,
        answer: row::payload(row, 5),
        expires_at: row.get::<_, Option<Micros>>(6).map(Micros::time),
    })
}
