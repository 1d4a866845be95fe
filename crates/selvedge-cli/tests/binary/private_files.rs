//! The files of a SQLite store: only their owner reads them, and a file that lost its content is not taken for a new store.

use crate::support::{Directory, Place, Server, Sqlite, claim, command, get, submit};
use serde_json::json;
use std::fs::{Permissions, read_dir, set_permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output};

/// The signal that ends a process which writes beyond its limit on the size of files.
const SIGXFSZ: i32 = 25;

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).expect("the file exists").permissions().mode() & 0o777
}

/// Returns a command that runs the binary in a shell, after other commands.
fn after(commands: &str, arguments: &[&str]) -> Command {
    let mut shell = Command::new("sh");
    command().get_envs().for_each(|(name, _removed)| {
        shell.env_remove(name);
    });
    let script = format!("{commands} exec \"$0\" \"$@\"");
    shell.args(["-c", &script, env!("CARGO_BIN_EXE_selvedge")]).args(arguments);
    shell
}

fn run(mut command: Command) -> (Output, String) {
    let output = command.output().expect("the binary starts");
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    (output, log)
}

fn serve(place: &Sqlite) -> Command {
    let mut serve = command();
    serve.args(["serve", "--store", &place.store(), "--listen", "127.0.0.1:0"]);
    serve
}

#[test]
fn every_file_of_a_store_is_for_its_owner_alone_whatever_the_umask() {
    let place = Sqlite::new();
    let server = Server::spawn(after("umask 0;", &["serve", "--store", &place.store()]));
    submit(&server.url, json!({"kind": "k"}));
    let mut names = Vec::new();
    for file in read_dir(place.path("")).expect("the directory is read") {
        let path = file.expect("the directory is read").path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
        names.push(path.file_name().expect("it has a name").to_string_lossy().into_owned());
    }
    names.sort();
    assert_eq!(names, ["", "-lock", "-secret", "-shm", "-wal"].map(|end| format!("selvedge.db{end}")));
    drop(server);
    let other = Sqlite::new();
    let (migrated, log) = run(after("umask 0;", &["migrate", "--store", &other.store()]));
    assert!(migrated.status.success(), "{log}");
    assert_eq!(mode(&other.database()), 0o600);
}

#[test]
fn files_that_others_can_read_are_left_alone_and_named_with_the_command_that_helps() {
    let place = Sqlite::new();
    Server::start(&place).stop_and_read_log();
    let private = Server::start(&place).stop_and_read_log();
    assert!(!private.contains("chmod"), "{private}");
    let (database, secret) = (place.database(), place.path("selvedge.db-secret"));
    set_permissions(&database, Permissions::from_mode(0o644)).expect("the mode is set");
    set_permissions(&secret, Permissions::from_mode(0o640)).expect("the mode is set");
    let advice = format!("chmod 0600 {} ", database.display());
    let mut server = Server::start(&place);
    server.wait_for_log(&advice);
    assert_eq!((mode(&database), mode(&secret)), (0o644, 0o640));
    let mut doctor = command();
    doctor.args(["doctor", "--store", &place.store()]);
    let (output, _) = run(doctor);
    let found = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "a warning is no error: {found}");
    let line = found.lines().find(|line| line.contains("permissions")).expect("there is a finding");
    assert!(line.contains("warning"), "{found}");
    assert!(found.contains(&advice) && found.contains(&secret.display().to_string()), "{found}");
}

#[test]
fn a_file_that_lost_its_content_is_not_taken_for_a_new_store() {
    let place = Sqlite::new();
    let server = Server::start(&place);
    submit(&server.url, json!({"kind": "k"}));
    server.kill();
    std::fs::write(place.database(), "").expect("the file is truncated");
    let elsewhere = Sqlite::new();
    std::fs::write(elsewhere.database(), "").expect("the file is created");
    for place in [place, elsewhere] {
        for _ in 0..2 {
            let (output, log) = run(serve(&place));
            assert_eq!(output.status.code(), Some(1), "{log}");
            assert!(log.contains("is empty") && log.contains("or remove it to start a new store"), "{log}");
            assert_eq!(log.lines().count(), 1, "{log}");
        }
        let mut doctor = command();
        doctor.args(["doctor", "--store", &place.store()]);
        let (output, _) = run(doctor);
        let found = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.code() == Some(1) && found.contains("has no byte"), "{found}");
        std::fs::remove_file(place.database()).expect("the file is removed");
        Server::start(&place);
    }
}

#[test]
fn a_first_start_that_died_before_it_wrote_a_page_does_not_prevent_the_next_one() {
    // The first write beyond the limit kills the process, or fails if the signal is ignored, as on a full disk.
    for (ignore, killed) in [("", true), ("trap '' XFSZ;", false)] {
        let place = Sqlite::new();
        let commands = format!("{ignore} ulimit -c 0; prlimit --pid $$ --fsize=200;");
        let (output, log) =
            run(after(&commands, &["serve", "--store", &place.store(), "--listen", "127.0.0.1:0"]));
        assert_eq!(output.status.signal() == Some(SIGXFSZ), killed, "{log}");
        assert!(!output.status.success(), "{log}");
        let length = std::fs::metadata(place.database()).expect("the file was created").len();
        assert_eq!(length, 0, "{log}");
        let server = Server::start(&place);
        submit(&server.url, json!({"kind": "k"}));
        assert_eq!(claim(&server.url, "w", 1, 0).len(), 1);
        assert_eq!(get(&format!("{}/readyz", server.url)).0, 200);
    }
}

#[test]
fn a_secret_that_cannot_be_written_is_named_and_the_store_is_not_served_without_it() {
    let place = Sqlite::new();
    let directory = Directory::new();
    std::fs::create_dir(place.path("selvedge.db-secret")).expect("the directory is created");
    let mut serve = serve(&place);
    let (output, log) = run({
        serve.current_dir(directory.path());
        serve
    });
    assert_eq!(output.status.code(), Some(1), "{log}");
    assert!(log.contains("selvedge.db-secret") && log.contains("SELVEDGE_SECRET"), "{log}");
}
