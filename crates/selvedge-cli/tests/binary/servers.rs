//! Several servers on one store: refused on a SQLite file, allowed on a Postgres database.

use crate::support::{Place, Postgres, Server, Sqlite, claim, command, get, post, submit, text};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::thread;

#[test]
fn a_second_server_on_the_same_file_is_refused_with_the_address_of_the_first() {
    let place = Sqlite::new();
    let first = Server::start(&place);
    let second = command()
        .args(["serve", "--store", &place.store(), "--listen", "127.0.0.1:0"])
        .output()
        .expect("the binary starts");
    assert_eq!(second.status.code(), Some(1));
    assert!(second.stdout.is_empty());
    let message = String::from_utf8(second.stderr).expect("messages are text");
    assert!(message.contains(&first.url), "{message}");
    assert_eq!(message.lines().count(), 1, "{message}");

    // The lock is released when its process dies.
    first.kill();
    Server::start(&place);
}

#[test]
fn two_servers_on_one_database_never_hand_out_the_same_execution() {
    const COUNT: u32 = 60;
    let place = Postgres::new();
    let (first, second) = (Server::start(&place), Server::start(&place));
    let executions: Vec<Value> = (0..COUNT).map(|n| json!({"kind": "k", "input": n})).collect();
    let (status, response) =
        post(&format!("{}/v1/executions/batch", first.url), &json!({"executions": executions}));
    assert_eq!(status, 200, "{response}");
    let claim_all = |url: String, instance: &'static str| {
        thread::spawn(move || {
            let mut claimed = Vec::new();
            loop {
                let claims = claim(&url, instance, 3, 0);
                if claims.is_empty() {
                    return claimed;
                }
                claimed.extend(claims.iter().map(|claim| text(&claim["execution"]["id"])));
            }
        })
    };
    let workers = [claim_all(first.url.clone(), "w-1"), claim_all(second.url.clone(), "w-2")];
    let claimed: Vec<Vec<String>> =
        workers.into_iter().map(|worker| worker.join().expect("the worker does not panic")).collect();
    assert!(claimed.iter().all(|claimed| !claimed.is_empty()), "both workers claimed some: {claimed:?}");
    let all: Vec<String> = claimed.concat();
    let distinct: BTreeSet<&String> = all.iter().collect();
    assert_eq!((all.len(), distinct.len()), (COUNT as usize, COUNT as usize));
}

#[test]
fn a_submission_to_one_server_wakes_up_a_claim_that_waits_on_another() {
    let place = Postgres::new();
    let (first, second) = (Server::start(&place), Server::start(&place));
    let url = second.url.clone();
    let waiting = thread::spawn(move || claim(&url, "w-2", 1, 60_000));
    while !get(&format!("{}/v1/workers", first.url)).1.to_string().contains("w-2") {}
    let id = submit(&first.url, json!({"kind": "k"}));
    let claimed = waiting.join().expect("the claim does not panic");
    assert_eq!(claimed.len(), 1);
    assert_eq!(text(&claimed[0]["execution"]["id"]), id);
}

#[test]
fn a_password_in_the_address_of_the_store_is_not_printed() {
    let place = Postgres::new();
    let mut serve = command();
    serve.args(["serve", "--json"]);
    serve.env("SELVEDGE_STORE", place.store_with_password("secret"));
    let server = Server::spawn(serve);
    let ready: Value = serde_json::from_str(&server.ready_line).expect("the ready line is JSON");
    assert_eq!(ready["address"], server.url);
    let store = text(&ready["store"]);
    assert!(store.contains(":***@") && !store.contains("secret"), "{store}");
}
