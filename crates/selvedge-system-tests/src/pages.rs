//! The cost of a statement, independent of the load of the machine: the number of pages that it touches.

use serde_json::Value;
use tokio_postgres::{Client, SimpleQueryMessage};

/// Runs a statement, rolls it back, and returns the number of pages that it touched.
pub async fn pages(client: &Client, statement: &str, arguments: &str) -> i64 {
    let text = format!(
        "begin; prepare asked as {statement}; \
         explain (analyze, buffers, timing off, format json) execute asked({arguments}); deallocate asked; rollback"
    );
    let answers = client.simple_query(&text).await;
    let answers = answers.unwrap_or_else(|error| panic!("{error:?}\n{statement}\n{arguments}"));
    let plan = answers.iter().find_map(|answer| match answer {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    });
    let plan: Value = serde_json::from_str(&plan.expect("there is a plan")).expect("a plan is JSON");
    let read = ["Shared Hit Blocks", "Shared Read Blocks"].map(|blocks| plan[0]["Plan"][blocks].as_i64());
    read.into_iter().flatten().sum()
}
