//! A Postgres of a test's own, which it may kill.
//!
//! As `scripts/postgres` does, it drops to another user where the test runs as root, because Postgres refuses to be. The
//! server is a child in the test's own group of processes: whoever ends that ends it too.

use super::LONG;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// A server with data of its own; both are gone when it is dropped.
pub struct Cluster {
    directory: PathBuf,
    binaries: PathBuf,
    port: u16,
    /// Who owns the data, where the test runs as root.
    owner: Option<u32>,
    server: Mutex<Option<Child>>,
}

impl Cluster {
    /// Makes the data, and starts the server.
    pub fn start() -> Cluster {
        let name = format!("selvedge-cluster.{}", uuid::Uuid::new_v4().simple());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir(&directory).expect("a directory can be made");
        let free = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = free.local_addr().expect("it is bound").port();
        drop(free);
        let cluster =
            Cluster { directory, binaries: binaries(), port, owner: owner(), server: Mutex::default() };
        if let Some(owner) = cluster.owner {
            std::os::unix::fs::chown(&cluster.directory, Some(owner), None).expect("root may give it away");
        }
        run(cluster.tool("initdb").args(["-A", "trust", "-U", "postgres", "--no-locale", "-E", "UTF8"]));
        cluster.start_again();
        cluster
    }

    /// The address of a database.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    /// Ends the server with SIGKILL; its children notice and end.
    pub fn kill(&self) {
        let mut server = self.server.lock().expect("nobody panics with it");
        let mut server = server.take().expect("it runs");
        server.kill().expect("it can be killed");
        server.wait().expect("it is a child of ours");
    }

    /// Starts the server, and waits until it answers. It refuses to start while something is left of the one before.
    pub fn start_again(&self) {
        let deadline = Instant::now() + LONG;
        let mut server = self.serve();
        while !succeeds(
            self.plain_tool("pg_isready").args(["-q", "-h", "127.0.0.1"]).args(["-p", &self.port()]),
        ) {
            assert!(Instant::now() < deadline, "the server does not start");
            if server.try_wait().expect("it is a child of ours").is_some() {
                server = self.serve();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        *self.server.lock().expect("nobody panics with it") = Some(server);
    }

    fn serve(&self) -> Child {
        let sockets = format!("unix_socket_directories={}", self.directory.display());
        let mut command = self.tool("postgres");
        command.args(["-p", &self.port(), "-c", "listen_addresses=127.0.0.1", "-c", &sockets]);
        silent(&mut command).spawn().expect("Postgres can be started")
    }

    fn port(&self) -> String {
        self.port.to_string()
    }

    /// A tool of Postgres on its data.
    fn tool(&self, name: &str) -> Command {
        let mut command = self.plain_tool(name);
        command.arg("-D").arg(self.directory.join("data"));
        command
    }

    fn plain_tool(&self, name: &str) -> Command {
        let mut command = Command::new(self.binaries.join(name));
        if let Some(owner) = self.owner {
            command.uid(owner);
        }
        command.current_dir(&self.directory);
        command
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        succeeds(self.tool("pg_ctl").args(["stop", "-m", "immediate", "-s"]));
        if let Ok(Some(mut server)) = self.server.lock().map(|mut server| server.take()) {
            let _ = server.kill();
            let _ = server.wait();
        }
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Where the tools of the newest Postgres are; those in the path where it is not installed as Debian does.
fn binaries() -> PathBuf {
    let version = |path: &PathBuf| path.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok());
    let installed = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let newest = installed.map(|entry| entry.path()).max_by_key(version);
    let tools = newest.map(|path| path.join("bin")).filter(|bin| bin.join("initdb").exists());
    tools.unwrap_or_default()
}

/// Who may run Postgres, where the test runs as root.
fn owner() -> Option<u32> {
    let id = |user: &[&str]| {
        let said = Command::new("id").arg("-u").args(user).output().expect("`id` runs");
        String::from_utf8_lossy(&said.stdout).trim().parse::<u32>().ok()
    };
    if id(&[]) == Some(0) { id(&["postgres"]).or_else(|| id(&["nobody"])) } else { None }
}

fn silent(command: &mut Command) -> &mut Command {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null())
}

fn run(command: &mut Command) {
    assert!(succeeds(command), "{command:?} fails");
}

fn succeeds(command: &mut Command) -> bool {
    let ended = silent(command).status();
    ended.unwrap_or_else(|error| panic!("{command:?} does not run: {error}")).success()
}
