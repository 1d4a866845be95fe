//! Profiles: named servers in a file that only its owner can read.

use crate::cli::{Cli, serve};
use crate::snapshot::Snapshot;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;

const KEY: &str = "slv_0123456789012345678901234567890123456789";

/// Answers one request with an empty list. Returns the address, and the request when it came.
fn listen() -> (String, std::thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let url = format!("http://{}", listener.local_addr().expect("it has an address"));
    let request = std::thread::spawn(move || {
        let (mut connection, _) = listener.accept().expect("it is called");
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            connection.read_exact(&mut byte).expect("the request has a head");
            request.push(byte[0]);
        }
        let body = r#"{"items": [], "next_cursor": null}"#;
        let length = body.len();
        let answer =
            format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}");
        connection.write_all(answer.as_bytes()).expect("the answer is sent");
        String::from_utf8(request).expect("a request is text").to_lowercase()
    });
    (url, request)
}

#[test]
fn profiles_are_set_listed_used_and_deleted() {
    let (_place, server, _) = serve();
    let cli = Cli::new("");
    let mut snapshot = Snapshot::new(&cli, "profiles");
    snapshot.show(&["profile"]);
    snapshot.run(&["profile", "set", "production"]);
    snapshot.run(&["profile", "set", "local", "--server", &server.url]);
    snapshot.run(&[
        "profile",
        "set",
        "production",
        "--server",
        "https://selvedge.invalid",
        "--key",
        KEY,
        "--namespace",
        "shop",
    ]);
    snapshot.show(&["profile", "list"]);
    // The first profile is used by itself.
    snapshot.run(&["list"]);
    snapshot.run(&["profile", "use", "production"]);
    snapshot.run(&["list", "--profile", "local"]);
    snapshot.run(&["list", "--profile", "none"]);
    snapshot.run(&["profile", "use", "none"]);
    snapshot.run(&["profile", "delete", "production"]);
    snapshot.run(&["profile", "delete", "production", "--yes"]);
    snapshot.run(&["profile"]);
    snapshot.check();
}

#[test]
fn only_the_owner_can_read_the_file() {
    let cli = Cli::new("");
    cli.succeed(&["profile", "set", "a", "--server", "http://127.0.0.1:1", "--key", KEY]);
    let file = cli.config().join("selvedge/config.toml");
    let mode =
        |file: &std::path::Path| std::fs::metadata(file).expect("it exists").permissions().mode() & 0o777;
    assert_eq!(mode(&file), 0o600);
    // A file that others could read gets its mode back.
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).expect("the mode is changed");
    cli.succeed(&["profile", "set", "b", "--server", "http://127.0.0.1:2"]);
    assert_eq!(mode(&file), 0o600);
    std::fs::write(&file, "profile = 7").expect("the file is written");
    let (code, line) = cli.fail(&["list"]);
    assert_eq!(code, 2);
    assert!(line.contains("config.toml"), "{line}");
}

#[test]
fn the_key_of_a_profile_is_sent_to_its_own_server_only() {
    let (own, own_request) = listen();
    let (other, other_request) = listen();
    let cli = Cli::new("");
    cli.succeed(&["profile", "set", "production", "--server", &own, "--key", KEY, "--namespace", "shop"]);
    cli.succeed(&["list"]);
    let request = own_request.join().expect("the server ends");
    assert!(request.contains(&format!("authorization: bearer {KEY}")), "{request}");
    assert!(request.contains("selvedge-namespace: shop"), "{request}");
    cli.succeed(&["list", "--profile", "production", "--server", &other]);
    let request = other_request.join().expect("the server ends");
    assert!(!request.contains(KEY) && !request.contains("selvedge-namespace"), "{request}");
}
