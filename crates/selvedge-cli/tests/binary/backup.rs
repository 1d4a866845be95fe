//! Backups taken while a server works, as docs/operating.md describes them: restored, the work continues.

use crate::support::{
    Place, Postgres, Server, Sqlite, claim, complete, on_each_store, result, state, submit, text,
};
use rusqlite::Connection;
use serde_json::json;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

on_each_store!(a_restored_backup_continues_the_work);

/// A store that can be backed up and restored.
trait Backup: Place {
    /// Takes a backup while a server uses the store.
    fn back_up(&self);
    /// Replaces the store by the backup. Returns the place of the restored store.
    fn restore(&self) -> impl Place;
}

impl Backup for Sqlite {
    fn back_up(&self) {
        let other = Connection::open(self.database()).expect("the file opens");
        let backup = self.path("backup.db").display().to_string();
        other.execute("vacuum into ?1", [backup]).expect("the backup is taken");
    }

    fn restore(&self) -> impl Place {
        let restored = Sqlite::new();
        std::fs::copy(self.path("backup.db"), restored.database()).expect("the file is copied");
        restored
    }
}

impl Backup for Postgres {
    fn back_up(&self) {
        run("pg_dump", &["--format=custom", "--file", &self.backup(), "--dbname", &self.store()]);
    }

    fn restore(&self) -> impl Place {
        let restored = Postgres::new();
        run("pg_restore", &["--exit-on-error", "--dbname", &restored.store(), &self.backup()]);
        std::fs::remove_file(self.backup()).expect("the backup is deleted");
        restored
    }
}

fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().expect("the program starts");
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
}

fn a_restored_backup_continues_the_work(place: &impl Backup) {
    let server = Server::start(place);
    let url = &server.url;
    let ended = submit(url, json!({"kind": "k", "input": 1}));
    let first = claim(url, "w-1", 1, 0).remove(0);
    complete(url, "w-1", &first, json!("before"));
    let active = submit(url, json!({"kind": "k", "input": 2}));
    let lease = claim(url, "w-1", 1, 0).remove(0);
    let waiting: Vec<String> = (0..20).map(|n| submit(url, json!({"kind": "k", "input": n}))).collect();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                submit(url, json!({"kind": "beside", "lane": "beside"}));
            }
        });
        place.back_up();
        done.store(true, Ordering::Relaxed);
    });
    server.kill();

    let restored = place.restore();
    let server = Server::start(&restored);
    let url = &server.url;
    assert_eq!(result(url, &ended).1["result"], "before");
    assert_eq!(state(url, &active), "active");
    let completed = complete(url, "w-1", &lease, json!("after"));
    assert_eq!(completed["ok"], true, "the lease is still valid: {completed}");
    let claimed = claim(url, "w-2", 100, 0);
    let claimed: Vec<String> = claimed.iter().map(|claim| text(&claim["execution"]["id"])).collect();
    assert_eq!(claimed, waiting);
    submit(url, json!({"kind": "k"}));
}
