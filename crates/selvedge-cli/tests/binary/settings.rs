//! Settings: flags, variables and the settings file, their order, and the whole with its sources.

use crate::support::{Directory, command, get};
use crate::support::{Place, Server, Sqlite};
use std::path::Path;
use std::process::Command;

/// Runs a command in a directory. Returns its exit code, standard output and standard error.
fn run(mut command: Command, directory: &Path) -> (Option<i32>, String, String) {
    let output = command.current_dir(directory).output().expect("the binary starts");
    let text = |bytes| String::from_utf8(bytes).expect("output is text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// Returns `selvedge serve` with arguments.
fn serve(arguments: &[&str]) -> Command {
    let mut serve = command();
    serve.arg("serve").args(arguments);
    serve
}

/// Prints the settings.
fn print_config(mut serve: Command, directory: &Path) -> String {
    serve.arg("--print-config");
    let (code, stdout, stderr) = run(serve, directory);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    stdout
}

fn line<'a>(printed: &'a str, name: &str) -> &'a str {
    let prefix = format!("{name} = ");
    let mut lines = printed.lines().filter(|line| line.trim_start_matches("# ").starts_with(&prefix));
    lines.next().unwrap_or_else(|| panic!("{name} is not in:\n{printed}"))
}

#[test]
fn a_flag_comes_before_a_variable_a_variable_before_the_file_and_the_file_before_the_default() {
    let directory = Directory::new();
    let file = "listen = \"127.0.0.1:1\"\ngrace = \"2s\"\nlog-window = \"14d\"\nmax-connections = 7\npoll = true\n\
                log = \"warn\"\nreconciler-interval = [\"retention=5s\", \"lease_expiry=500ms\"]\n";
    std::fs::write(directory.path().join("settings.toml"), file).expect("the file is written");
    let mut serve = serve(&["--config", "settings.toml", "--listen", "127.0.0.1:3"]);
    serve.env("SELVEDGE_LISTEN", "127.0.0.1:2").env("SELVEDGE_GRACE", "20s");
    let printed = print_config(serve, directory.path());
    for (name, expected) in [
        ("listen", "listen = \"127.0.0.1:3\"  # flag --listen"),
        ("grace", "grace = \"20s\"  # environment SELVEDGE_GRACE"),
        ("log-window", "log-window = \"14d\"  # file settings.toml"),
        ("max-connections", "max-connections = 7  # file settings.toml"),
        ("poll", "poll = true  # file settings.toml"),
        ("log", "log = \"warn\"  # file settings.toml"),
        ("json", "json = false  # default"),
        ("head-time", "head-time = \"60s\"  # default"),
        (
            "reconciler-interval",
            "reconciler-interval = [\"retention=5s\", \"lease_expiry=500ms\"]  # file settings.toml",
        ),
    ] {
        assert_eq!(line(&printed, name), expected);
    }
    assert!(printed.contains("# tls-cert is not set"), "{printed}");
    // The output is a settings file with the same settings.
    std::fs::write(directory.path().join("printed.toml"), &printed).expect("the file is written");
    let again = print_config(self::serve(&["--config", "printed.toml"]), directory.path());
    let without_sources = |text: &str| {
        let lines = text.lines().map(|line| line.split("  # ").next().unwrap_or_default().to_owned());
        lines.collect::<Vec<String>>()
    };
    assert_eq!(without_sources(&again), without_sources(&printed));
}

#[test]
fn a_password_is_masked_in_the_printed_settings() {
    let directory = Directory::new();
    for store in ["postgres://ada:lovelace@db/work", "redis://ada:lovelace@db"] {
        let mut serve = serve(&[]);
        serve.env("SELVEDGE_STORE", store);
        let printed = print_config(serve, directory.path());
        assert!(!printed.contains("lovelace"), "{printed}");
        let line = line(&printed, "store");
        assert!(line.starts_with("# store = ") && line.ends_with("# environment SELVEDGE_STORE"), "{line}");
    }
    let printed = print_config(serve(&["--otlp-endpoint", "https://db/?key=lovelace"]), directory.path());
    assert_eq!(line(&printed, "otlp-endpoint"), "# otlp-endpoint = \"***\"  # flag --otlp-endpoint");
}

#[test]
fn a_settings_file_that_cannot_be_used_is_refused_in_one_line_that_says_what_to_do() {
    let directory = Directory::new();
    for (file, expected) in [
        ("lisen = \"127.0.0.1:0\"", "sets lisen, which is no setting; did you mean listen?"),
        ("store_address = \"memory:\"", "did you mean store?"),
        ("log-window = \"a week\"", "--log-window or SELVEDGE_LOG_WINDOW is \"a week\""),
        ("max-connections = -1", "--max-connections"),
        ("poll = \"maybe\"", "true or false"),
        ("a = 1\nb = = 2", "line 2 of the settings file"),
        ("listen = { ip = \"127.0.0.1\" }", "sets listen to something"),
        ("reconciler-interval = [\"leases=1s\"]", "lease_expiry"),
    ] {
        std::fs::write(directory.path().join("settings.toml"), file).expect("the file is written");
        let (code, stdout, stderr) = run(serve(&["--config", "settings.toml"]), directory.path());
        assert_eq!((code, stdout.as_str()), (Some(2), ""), "{file}: {stderr}");
        assert!(stderr.contains(expected) && stderr.contains("settings.toml"), "{file}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{file}: {stderr}");
    }
    let (code, _, stderr) = run(serve(&["--config", "missing.toml"]), directory.path());
    assert!(code == Some(1) && stderr.contains("missing.toml"), "{stderr}");
}

#[test]
fn a_server_obeys_its_settings_file() {
    let (directory, place) = (Directory::new(), Sqlite::new());
    let file = directory.path().join("settings.toml");
    let text = format!("store = {:?}\njson = true\nreconciler-namespace = \"default\"\n", place.store());
    std::fs::write(&file, text).expect("the file is written");
    let mut serve = command();
    serve.arg("serve").env("SELVEDGE_CONFIG", &file);
    let server = Server::spawn(serve);
    assert!(server.ready_line.starts_with('{'), "{}", server.ready_line);
    assert!(server.ready_line.contains(&place.store()), "{}", server.ready_line);
    assert_eq!(get(&format!("{}/healthz", server.url)).0, 200);
    let unknown = self::serve(&[
        "--store",
        "sqlite:a.db",
        "--listen",
        "127.0.0.1:0",
        "--reconciler-namespace",
        "nowhere",
    ]);
    let (code, _, stderr) = run(unknown, directory.path());
    assert!(code == Some(2) && stderr.contains("\"nowhere\", which does not exist"), "{stderr}");
    let log = std::fs::metadata(directory.path().join("a.db-wal"));
    assert!(log.map_or(0, |log| log.len()) == 0, "the store was closed");
}

#[test]
fn the_page_of_settings_shows_the_source_of_each_value_and_no_secret() {
    let (directory, place) = (Directory::new(), Sqlite::new());
    let file = directory.path().join("settings.toml");
    std::fs::write(&file, "log-window = \"14d\"\n").expect("the file is written");
    let mut serve =
        self::serve(&["--store", &place.store(), "--otlp-endpoint", "http://127.0.0.1:9/?key=lovelace"]);
    serve.env("SELVEDGE_CONFIG", &file).env("SELVEDGE_GRACE", "3s");
    let server = Server::spawn(serve);
    let page = Command::new("curl")
        .args(["--silent", "--fail", &format!("{}/settings?show=configuration", server.url)])
        .output()
        .expect("curl runs");
    let page = String::from_utf8(page.stdout).expect("a page is text");
    for text in
        ["flag --store", "environment SELVEDGE_GRACE", "&quot;14d&quot;", "settings.toml", "not set", "***"]
    {
        assert!(page.contains(text), "{text}: {page}");
    }
    assert!(!page.contains("lovelace"), "{page}");
}
