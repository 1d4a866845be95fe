//! One process per SQLite file, whatever path leads to it: a second server is refused, and the first loses nothing.

use crate::support::{Directory, Server, Sqlite, command, state, submit};
use serde_json::json;
use std::path::Path;
use std::process::Command;

/// Asserts that a server with the file at `path` is refused with a line that contains `text`.
fn check_refusal(path: &Path, text: &str) {
    let store = format!("sqlite:{}", path.display());
    let output = command().args(["serve", "--listen", "127.0.0.1:0", "--store", &store]).output();
    let output = output.expect("the binary starts");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{stderr}");
    assert!(stderr.contains("is already open in") && stderr.contains(text), "{stderr}");
}

/// Runs a server while `refused` tries to start others. Asserts that everything submitted to it is there after a kill.
fn check_ownership(refused: impl FnOnce(&Sqlite, &Server)) {
    let place = Sqlite::new();
    let server = Server::start(&place);
    let mut submitted = vec![submit(&server.url, json!({"kind": "k"}))];
    refused(&place, &server);
    submitted.extend((0..5).map(|_| submit(&server.url, json!({"kind": "k"}))));
    server.kill();
    let server = Server::start(&place);
    for id in &submitted {
        assert_eq!(state(&server.url, id), "waiting");
    }
}

#[test]
fn a_second_server_on_a_hard_link_is_refused() {
    check_ownership(|place, _| {
        let elsewhere = Directory::new();
        let links = [place.path("other.db"), elsewhere.path().join("selvedge.db")];
        for link in links {
            std::fs::hard_link(place.database(), &link).expect("the link is created");
            check_refusal(&link, "another process; stop it first");
        }
    });
}

#[test]
fn a_second_server_is_refused_although_the_owner_file_was_deleted() {
    check_ownership(|place, _| {
        std::fs::remove_file(place.path("selvedge.db-lock")).expect("the file is deleted");
        check_refusal(&place.database(), "another process; stop it first");
        // The first refusal has created the file anew.
        check_refusal(&place.database(), "another process; stop it first");
    });
}

#[test]
fn a_second_server_in_a_linked_directory_is_refused_with_the_address_of_the_first() {
    check_ownership(|place, server| {
        let elsewhere = Directory::new();
        let link = elsewhere.path().join("link");
        std::os::unix::fs::symlink(place.path(""), &link).expect("the link is created");
        check_refusal(&link.join("selvedge.db"), &format!("which listens on {}", server.url));
    });
}

#[test]
fn a_second_server_in_a_bind_mount_is_refused() {
    check_ownership(|place, server| {
        // A mount namespace of its own, which not every machine permits.
        let elsewhere = Directory::new();
        let (from, to) = (place.path(""), elsewhere.path());
        let bind = format!("mount --bind {} {}", from.display(), to.display());
        let unshare = |script: &str| {
            Command::new("unshare")
                .args(["--user", "--map-root-user", "--mount", "sh", "-c", script])
                .output()
        };
        if !unshare(&bind).is_ok_and(|output| output.status.success()) {
            return;
        }
        let binary = env!("CARGO_BIN_EXE_selvedge");
        let store = to.join("selvedge.db");
        let serve = format!("{binary} serve --listen 127.0.0.1:0 --store sqlite:{}", store.display());
        let output = unshare(&format!("{bind} && exec {serve}")).expect("the binary starts");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains(&format!("which listens on {}", server.url)), "{stderr}");
    });
}
