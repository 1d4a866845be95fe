//! An error is one line on standard error that says what to do, with an exit code that says what kind it is.

use crate::cli::{Cli, serve};
use crate::support::{Directory, Server, Sqlite, command};
use std::process::{Command, Stdio};

const UNKNOWN: &str = "0197f3c8-2b1e-7c4e-9d0a-1f2e3d4c5b6a";

/// Asserts the exit code of a command that fails, and that its line contains these texts.
fn check(cli: &Cli, arguments: &[&str], code: i32, texts: &[&str]) {
    let (found, line) = cli.fail(arguments);
    assert_eq!(found, code, "{arguments:?}: {line}");
    texts.iter().for_each(|text| assert!(line.contains(text), "{arguments:?}: {text:?} is not in {line:?}"));
}

#[test]
fn a_server_that_does_not_run_is_named_with_the_ways_to_reach_one() {
    // The port is free again when the server has exited.
    let url = serve().1.url.clone();
    let cli = Cli::new(&url);
    let commands: [&[&str]; 8] = [
        &["list"],
        &["submit", "echo"],
        &["wait", UNKNOWN],
        &["watch", UNKNOWN],
        &["events", "--follow"],
        &["logs", UNKNOWN, "--follow"],
        &["list", "--watch"],
        &["cancel", "--all", "--yes"],
    ];
    for arguments in commands {
        check(&cli, arguments, 1, &[&url, "selvedge dev", "--server", "SELVEDGE_SERVER"]);
    }
    assert!(cli.succeed(&["version"]).contains("none answers"));
}

#[test]
fn an_address_that_is_none_is_refused_with_an_example() {
    for address in ["localhost", "ftp://localhost", "http://"] {
        check(&Cli::new(address), &["list"], 2, &["http://127.0.0.1:7878", "--server"]);
    }
}

#[test]
fn another_kind_of_server_is_recognised() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let url = format!("http://{}", listener.local_addr().expect("it has an address"));
    let other = std::thread::spawn(move || {
        use std::io::{Read, Write};
        let (mut connection, _) = listener.accept().expect("it is called");
        let _ = connection.read(&mut [0; 4096]);
        let answer = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello";
        connection.write_all(answer.as_bytes()).expect("the answer is sent");
    });
    check(&Cli::new(&url), &["list"], 1, &["is not one of a Selvedge server", "check --server"]);
    other.join().expect("the other server ends");
}

#[test]
fn a_missing_key_and_a_wrong_key_are_told_apart_from_one_without_permission() {
    let place = Sqlite::new();
    let mut serve = command();
    serve.args(["serve", "--store", &format!("sqlite:{}", place.database().display())]);
    serve.env("SELVEDGE_ADMIN_KEY", "admin-key-0123456789abcdef");
    let server = Server::spawn(serve);
    let cli = Cli::new(&server.url);
    check(&cli, &["list"], 4, &["SELVEDGE_KEY", "--key"]);
    check(&cli, &["list", "--key", "slv_wrong"], 4, &["SELVEDGE_KEY"]);
    let admin = "admin-key-0123456789abcdef";
    let reader = cli.succeed(&["keys", "create", "r", "--role", "reader", "--key", admin]);
    cli.succeed(&["list", "--key", &reader]);
    check(&cli, &["submit", "echo", "--key", &reader], 4, &["submit"]);
}

#[test]
fn what_does_not_exist_is_named() {
    let (_place, _server, cli) = serve();
    for verb in ["get", "wait", "watch", "explain"] {
        check(&cli, &[verb, UNKNOWN], 3, &["no execution and no flow", UNKNOWN, "selvedge list"]);
        check(&cli, &[verb, "nope"], 3, &["no execution and no flow", "nope"]);
    }
    for arguments in [
        &["logs", UNKNOWN][..],
        &["logs", UNKNOWN, "--follow"],
        &["cancel", UNKNOWN],
        &["signal", UNKNOWN, "go"],
        &["flow", "get", UNKNOWN],
        &["flow", "watch", UNKNOWN],
        &["flow", "cancel", UNKNOWN],
        &["bulk-jobs", "watch", UNKNOWN],
        &["approvals", "answer", UNKNOWN],
    ] {
        check(&cli, arguments, 3, &[UNKNOWN]);
    }
    check(&cli, &["schedules", "run", "none"], 3, &["there is no schedule none"]);
    check(&cli, &["webhooks", "pause", "none"], 3, &["none"]);
}

#[test]
fn values_that_are_malformed_are_refused_with_the_right_form() {
    let (place, _server, cli) = serve();
    check(&cli, &["submit", "echo", "Ada"], 2, &["the input is not JSON", r#"'"Ada"'"#]);
    check(&cli, &["submit", "echo", "{a: 1}"], 2, &["the input is not JSON"]);
    check(&cli, &["submit", "echo", "@/no/such/file"], 1, &["cannot read /no/such/file"]);
    check(&cli, &["submit", "echo", "--fields", "[]"], 2, &["--fields is not a JSON object"]);
    check(&cli, &["signal", UNKNOWN, "go", "Ada"], 2, &["the payload is not JSON"]);
    check(&cli, &["list", "--state", "none"], 1, &["invalid_field", "waiting"]);
    check(&cli, &["reschedule", UNKNOWN], 2, &["--now", "--delay", "--until"]);
    check(&cli, &["tag", UNKNOWN], 2, &["--set", "--remove"]);
    check(&cli, &["quotas", "set", "q"], 2, &["--rate 60/1m"]);
    let file = place.path("flow.yaml");
    let flow = |text: &str| {
        std::fs::write(&file, text).expect("the file is written");
        cli.fail(&["flow", "run", file.to_str().expect("the path is text")])
    };
    assert!(flow("nodes: [").1.contains("is not YAML"));
    assert!(flow("{\"nodes\": [").1.contains("is not JSON"));
    assert!(flow("- a").1.contains("name, nodes, edges, groups"));
    assert!(flow("nodes: [{name: a, kind: \"${kind}\"}]").1.contains("--set kind=VALUE"));
    assert!(flow("nodes: [{name: a, kind: k, colour: red}]").1.contains("unknown_field"));
    assert!(flow("nodes: [{name: a, kind: k}]\nedges: [{from: a, to: b}]").1.contains("unknown_node"));
    // Errors of the command line itself are clap's: what is wrong, the usage, and where to find help.
    let ended = cli.run(&["list", "--submitted-after", "yesterday"]);
    assert_eq!(ended.code, 2);
    assert!(ended.stderr.contains("such as 2h"), "{}", ended.stderr);
    let ended = cli.run(&["cancl"]);
    assert_eq!(ended.code, 2);
    assert!(ended.stderr.contains("cancel"), "{}", ended.stderr);
}

#[test]
fn a_reader_that_closes_the_pipe_ends_the_command_silently() {
    let (_place, _server, cli) = serve();
    for _ in 0..3 {
        cli.succeed(&["submit", "k"]);
    }
    let binary = env!("CARGO_BIN_EXE_selvedge");
    for verb in ["list", "list --json", "events --json", "completions bash"] {
        let script = format!("set -o pipefail; {binary} {verb} | head -1");
        let mut bash = Command::new("bash");
        cli.prepare(&mut bash);
        let output = bash.args(["-c", &script]).stdin(Stdio::null()).output().expect("bash starts");
        assert_eq!(output.status.code(), Some(0), "{verb}: {output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 1, "{verb}: {output:?}");
        assert!(output.stderr.is_empty(), "{verb}: {output:?}");
    }
}

#[test]
fn a_benchmark_that_is_not_installed_says_how_to_get_it() {
    let place = Directory::new();
    let alone = place.path().join("selvedge");
    std::fs::copy(env!("CARGO_BIN_EXE_selvedge"), &alone).expect("the program is copied");
    let run = || Command::new(&alone).args(["bench", "queue", "--json"]).env("PATH", "").output();
    let output = run().expect("the program starts");
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("cargo install --path crates/selvedge-bench"), "{message}");

    // The program beside this one gets the words as they are, and its output and exit code are those of the command.
    std::os::unix::fs::symlink("/bin/echo", place.path().join("selvedge-bench")).expect("the link is made");
    let output = run().expect("the program starts");
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), b"queue --json\n".as_slice()));
}
