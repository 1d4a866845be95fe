//! An action on more executions than a bulk call takes becomes a bulk job, which is followed to its end.

use crate::cli::serve;
use crate::support::post;
use serde_json::{Value, json};

#[test]
fn an_action_on_more_than_10_000_executions_becomes_a_bulk_job() {
    let (_place, server, cli) = serve();
    let batch: Vec<Value> = (0..1000).map(|_| json!({"kind": "k", "lane": "old"})).collect();
    for _ in 0..11 {
        let (status, reply) =
            post(&format!("{}/v1/executions/batch", server.url), &json!({"executions": batch}));
        assert_eq!(status, 200, "{reply}");
    }
    let dry = cli.succeed(&["cancel", "--lane", "old", "--dry-run"]);
    assert_eq!(dry, "More than 10000 executions match: a bulk job would do it.");
    assert_eq!(cli.json(&["cancel", "--lane", "old", "--dry-run"]), [json!({"more_than": 10_000})]);
    let (code, line) = cli.fail(&["cancel", "--lane", "old"]);
    assert_eq!(code, 2);
    assert!(
        line.contains("More than 10000 executions will be cancelled.") && line.contains("--yes"),
        "{line}"
    );

    let ended = cli.run(&["cancel", "--lane", "old", "--yes"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    assert_eq!(ended.stdout, "cancel completed: 11000 matched, 11000 changed, 0 unchanged, 0 refused\n");
    assert!(ended.stderr.contains("runs on the server"), "{ended:?}");
    assert_eq!(cli.succeed(&["list", "--lane", "old", "--state", "waiting"]), "No execution matches.");
}
