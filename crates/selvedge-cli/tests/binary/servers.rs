//! Several servers on one store: refused on a file, side by side on a database.

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
        .expect("it starts");
    assert_eq!(second.status.code(), Some(1));
    assert!(second.stdout.is_empty());
    let message = String::from_utf8(second.stderr).expect("messages are text");
    assert!(message.contains(&first.url), "{message}");
    assert_eq!(message.lines().count(), 1, "{message}");

    // The lock dies with the process that had it.
    first.kill();
    Server::start(&place);
}

#[test]
fn two_servers_on_one_database_never_give_out_the_same_execution() {
    const MANY: u32 = 60;
    let place = Postgres::new();
    let (one, two) = (Server::start(&place), Server::start(&place));
    let executions: Vec<Value> = (0..MANY).map(|n| json!({"kind": "k", "input": n})).collect();
    let (status, answer) =
        post(&format!("{}/v1/executions/batch", one.url), &json!({"executions": executions}));
    assert_eq!(status, 200, "{answer}");
    let claim_all = |url: String, instance: &'static str| {
        thread::spawn(move || {
            let mut taken = Vec::new();
            loop {
                let claims = claim(&url, instance, 3, 0);
                if claims.is_empty() {
                    return taken;
                }
                taken.extend(claims.iter().map(|one| text(&one["execution"]["id"])));
            }
        })
    };
    let workers = [claim_all(one.url.clone(), "w-1"), claim_all(two.url.clone(), "w-2")];
    let taken: Vec<Vec<String>> = workers.into_iter().map(|worker| worker.join().expect("it ends")).collect();
    assert!(taken.iter().all(|taken| !taken.is_empty()), "both got some: {taken:?}");
    let all: Vec<String> = taken.concat();
    let distinct: BTreeSet<&String> = all.iter().collect();
    assert_eq!((all.len(), distinct.len()), (MANY as usize, MANY as usize));
}

#[test]
fn what_one_server_accepts_another_hands_to_the_worker_that_waits_there() {
    let place = Postgres::new();
    let (one, two) = (Server::start(&place), Server::start(&place));
    let url = two.url.clone();
    let waiting = thread::spawn(move || claim(&url, "w-2", 1, 60_000));
    while !get(&format!("{}/v1/workers", one.url)).1.to_string().contains("w-2") {}
    let id = submit(&one.url, json!({"kind": "k"}));
    let claimed = waiting.join().expect("it ends");
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
    let ready: Value = serde_json::from_str(&server.ready).expect("the ready line is JSON");
    assert_eq!(ready["address"], server.url);
    let store = text(&ready["store"]);
    assert!(store.contains(":***@") && !store.contains("secret"), "{store}");
}
