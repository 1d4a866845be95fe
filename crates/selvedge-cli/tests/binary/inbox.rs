//! Submissions from SQL reach a real server, also one that is killed while it takes them in.

use crate::support::{Postgres, Server, get, post, start_call};
use serde_json::json;

const SUBMISSIONS: u64 = 10_000;

/// Counts the executions of a lane.
fn count(server: &Server, lane: &str) -> u64 {
    let (mut total, mut cursor) = (0, String::new());
    loop {
        let (status, page) = get(&format!("{}/v1/executions?lane={lane}&limit=500{cursor}", server.url));
        assert_eq!(status, 200, "{page}");
        let items = page["items"].as_array().expect("items is a list");
        assert!(items.iter().all(|item| item["version"] == 1), "each was submitted once");
        total += items.len() as u64;
        match page["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return total,
        }
    }
}

fn pending(server: &Server) -> u64 {
    let (status, inbox) = get(&format!("{}/v1/inbox", server.url));
    assert_eq!(status, 200, "{inbox}");
    inbox["pending"].as_u64().expect("pending is a number")
}

#[test]
fn submissions_of_one_statement_survive_kills_of_the_server_that_takes_them_in() {
    let place = Postgres::new();
    let mut server = Server::start(&place);
    place.run(&format!(
        "select count(selvedge.submit('k', lane => 'many', notify => true)) from generate_series(1, {SUBMISSIONS})"
    ));
    for part in [SUBMISSIONS - 1, SUBMISSIONS / 2] {
        while pending(&server) > part {}
        server.kill();
        server = Server::start(&place);
    }
    while pending(&server) > 0 {}
    assert_eq!(count(&server, "many"), SUBMISSIONS);
}

#[test]
fn operators_see_refused_submissions_repeat_them_and_delete_them() {
    let place = Postgres::new();
    let server = Server::start(&place);
    let inbox = format!("{}/v1/inbox", server.url);
    let submit = "select selvedge.submit('k', lane => 'mail', quotas => array['mail'], notify => true)";
    place.run(&format!("{submit}; {submit}"));
    let items = loop {
        let (status, page) = get(&inbox);
        assert_eq!(status, 200, "{page}");
        if page["refused_count"] == 2 {
            break page["items"].clone();
        }
    };
    let problem = &items[0]["problem"];
    assert_eq!((&problem["code"], &problem["pointer"]), (&json!("unknown_quota"), &json!("/quotas/0")));
    assert_eq!(items[0]["type"], "execution");
    let (_, events) = get(&format!("{}/v1/events?types=inbox.refused", server.url));
    assert_eq!(events["items"].as_array().map(Vec::len), Some(2), "{events}");
    let number = |index: usize| items[index]["number"].as_u64().expect("it has a number");

    let (status, reply) = start_call("DELETE", &format!("{inbox}/{}", number(1)), None).response();
    assert_eq!((status, &reply["number"]), (200, &items[1]["number"]));
    let (status, reply) = start_call("DELETE", &format!("{inbox}/{}", number(1)), None).response();
    assert_eq!((status, &reply["code"]), (404, &json!("not_found")));
    let (status, _) = start_call("DELETE", &format!("{inbox}/x"), None).response();
    assert_eq!(status, 404);

    let (status, reply) =
        start_call("PUT", &format!("{}/v1/quotas/mail", server.url), Some(&json!({"concurrency": 1})))
            .response();
    assert!(status < 300, "{reply}");
    let (status, reply) = post(&format!("{inbox}/{}/retry", number(0)), &json!({}));
    assert_eq!(status, 200, "{reply}");
    while count(&server, "mail") == 0 {}
    assert_eq!(get(&inbox).1["refused_count"], 0);
}
