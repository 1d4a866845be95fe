//! Connection poolers, with the real PgBouncer: whole sessions work, sessions per transaction are refused in words.
//!
//! The tests need the program `pgbouncer` (`scripts/install-packages pgbouncer`), unless `SELVEDGE_TEST_SKIP_PGBOUNCER` is set.

use selvedge_postgres::PostgresStore;
use selvedge_postgres::diagnosis::{Limits, diagnose};
use selvedge_store::{Error, Level, Transactions};
use selvedge_system_tests::cluster::owner;
use selvedge_system_tests::{LONG, Sandbox};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tokio_postgres::Config;
use tokio_postgres::config::Host;

/// The variable that skips the tests on a machine without PgBouncer.
const SKIP: &str = "SELVEDGE_TEST_SKIP_PGBOUNCER";

/// A PgBouncer in front of the test's Postgres; it ends with this value.
struct Bouncer {
    process: Child,
    directory: PathBuf,
    port: u16,
}

impl Bouncer {
    /// Starts a pooler with these settings. Returns none if the tests are to be skipped.
    fn start(sandbox: &Sandbox, settings: &str) -> Option<Bouncer> {
        if std::env::var_os(SKIP).is_some() {
            return None;
        }
        let directory = std::env::temp_dir().join(format!("selvedge-pgbouncer.{}", sandbox.schema));
        std::fs::create_dir_all(&directory).expect("the directory is created");
        let free = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = free.local_addr().expect("the listener is bound").port();
        drop(free);
        let server: Config = sandbox.url("pgbouncer").parse().expect("the address is valid");
        let (host, server_port) = match (&server.get_hosts()[0], server.get_ports()[0]) {
            (Host::Tcp(host), port) => (host, port),
            (other, _) => panic!("{other:?} is not a host"),
        };
        let file = directory.join("pgbouncer.ini");
        let text = format!(
            "[databases]\n* = host={host} port={server_port} user=postgres\n\
             [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n\
             auth_type = any\nmax_client_conn = 100\ndefault_pool_size = 20\n{settings}\n"
        );
        std::fs::write(&file, text).expect("the configuration is written");
        let mut command = Command::new("pgbouncer");
        command.env("PATH", format!("{}:/usr/sbin", std::env::var("PATH").unwrap_or_default()));
        command.arg("-q").arg(&file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if let Some(owner) = owner() {
            command.uid(owner);
        }
        let process = command.spawn().unwrap_or_else(|error| {
            panic!(
                "pgbouncer does not run ({error}); run scripts/install-packages pgbouncer, or set {SKIP}=1"
            )
        });
        let bouncer = Bouncer { process, directory, port };
        let deadline = Instant::now() + LONG;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < deadline, "pgbouncer does not start");
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(bouncer)
    }

    fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }
}

impl Drop for Bouncer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

#[tokio::test]
async fn a_pooler_in_transaction_mode_is_refused_with_the_remedy() {
    for settings in [
        "pool_mode = transaction",
        "pool_mode = statement",
        // The pooler accepts the setting that reveals it, and forgets it.
        "pool_mode = transaction\nignore_startup_parameters = options",
        "pool_mode = transaction\nserver_round_robin = 1",
    ] {
        let sandbox = Sandbox::new();
        let Some(bouncer) = Bouncer::start(&sandbox, settings) else { return };
        match PostgresStore::connect_with(&bouncer.url(), sandbox.settings()).await.err() {
            Some(Error::BadAddress(text)) => {
                assert!(text.contains("pool_mode = session") && text.contains("directly"), "{text}");
            }
            other => panic!("{settings}: {other:?}"),
        }
        let findings = diagnose(&bouncer.url(), &sandbox.settings(), &Limits::default()).await;
        let finding = findings.first().filter(|finding| finding.check == "pooler");
        assert_eq!(finding.map(|finding| finding.level), Some(Level::Error), "{settings}: {findings:?}");
        let plain = sandbox.plain().await;
        let text = "select count(*) from pg_namespace where nspname = $1";
        assert_eq!(plain.number(text, &[&sandbox.schema]).await, 0, "nothing was created: {settings}");
    }
}

#[tokio::test]
async fn a_pooler_in_session_mode_is_accepted() {
    for settings in ["pool_mode = session", "pool_mode = session\nignore_startup_parameters = options"] {
        let sandbox = Sandbox::new();
        let Some(bouncer) = Bouncer::start(&sandbox, settings) else { return };
        let store = PostgresStore::connect_with(&bouncer.url(), sandbox.settings()).await;
        let store = store.unwrap_or_else(|error| panic!("{settings}: {error}"));
        store.ping().await.expect("the store answers");
        store.close().await;
    }
}
