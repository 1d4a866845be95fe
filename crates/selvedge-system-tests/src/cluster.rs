//! A Postgres server for one test, which the test can kill.
//!
//! Like `scripts/postgres`, it runs as another user if the test runs as root, because Postgres refuses to. The server
//! is a child in the test's process group, so ending the group ends it too.

use super::LONG;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// A server with its own data directory; both are deleted with this value.
pub struct Cluster {
    directory: PathBuf,
    binaries: PathBuf,
    port: u16,
    /// The user that owns the data, if the test runs as root.
    owner: Option<u32>,
    server: Mutex<Option<Child>>,
    /// Settings of the server, as `name=value`.
    settings: Vec<&'static str>,
    /// The file with the offset of the machine clock, if it is faked.
    clock: Option<PathBuf>,
}

impl Cluster {
    /// Creates the data directory and starts the server.
    pub fn start() -> Cluster {
        let cluster = Cluster::in_new_directory();
        run(cluster.tool("initdb").args(["-A", "trust", "-U", "postgres", "--no-locale", "-E", "UTF8"]));
        cluster.start_again();
        cluster
    }

    /// Starts a server with files in its data directory, and with settings.
    pub fn start_with(files: &[(&str, &str)], settings: &[&'static str]) -> Cluster {
        let mut cluster = Cluster::in_new_directory();
        run(cluster.tool("initdb").args(["-A", "trust", "-U", "postgres", "--no-locale", "-E", "UTF8"]));
        for (name, text) in files {
            cluster.write(&format!("data/{name}"), text);
        }
        cluster.settings = settings.to_vec();
        cluster.start_again();
        cluster
    }

    /// Starts a server whose machine clock is ahead by the seconds in the file `clock`, which starts with 0. Needs libfaketime.
    pub fn start_faked() -> Cluster {
        let mut cluster = Cluster::in_new_directory();
        run(cluster.tool("initdb").args(["-A", "trust", "-U", "postgres", "--no-locale", "-E", "UTF8"]));
        cluster.clock = Some(cluster.write("clock", "+0\n"));
        cluster.start_again();
        cluster
    }

    /// Writes a file that only the owner of the server can read. Returns its path.
    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.directory.join(name);
        std::fs::write(&path, text).expect("the file is written");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("the mode is set");
        if let Some(owner) = self.owner {
            std::os::unix::fs::chown(&path, Some(owner), None).expect("root can change the owner");
        }
        path
    }

    /// Starts a standby that follows this server.
    pub fn standby(&self) -> Cluster {
        let standby = Cluster::in_new_directory();
        let copy = ["-h", "127.0.0.1", "-U", "postgres", "-R", "-X", "stream", "-c", "fast"];
        run(standby.tool("pg_basebackup").args(copy).args(["-p", &self.port()]));
        standby.start_again();
        standby
    }

    /// Ends the recovery of a standby: from now on it accepts writes.
    pub fn promote(&self) {
        run(self.tool("pg_ctl").args(["promote", "-w", "-s"]));
    }

    fn in_new_directory() -> Cluster {
        let name = format!("selvedge-cluster.{}", uuid::Uuid::new_v4().simple());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir(&directory).expect("the directory is created");
        let free = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = free.local_addr().expect("the listener is bound").port();
        drop(free);
        let cluster = Cluster {
            directory,
            binaries: binaries(),
            port,
            owner: owner(),
            server: Mutex::default(),
            settings: Vec::new(),
            clock: None,
        };
        if let Some(owner) = cluster.owner {
            let chown = std::os::unix::fs::chown(&cluster.directory, Some(owner), None);
            chown.expect("root can change the owner");
        }
        cluster
    }

    /// Returns the address of a database.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://postgres@{}/{database}", self.address())
    }

    /// Returns the host and the port of the server.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Ends the server with SIGKILL. Its child processes notice and end.
    pub fn kill(&self) {
        let mut server = self.server.lock().expect("the mutex is not poisoned");
        let mut server = server.take().expect("the server runs");
        server.kill().expect("the server is killed");
        server.wait().expect("the server is a child of this process");
    }

    /// Starts the server and waits until it answers. It refuses to start while processes of the previous one remain.
    pub fn start_again(&self) {
        let deadline = Instant::now() + LONG;
        let mut server = self.serve();
        while !succeeds(
            self.plain_tool("pg_isready").args(["-q", "-h", "127.0.0.1"]).args(["-p", &self.port()]),
        ) {
            assert!(Instant::now() < deadline, "the server does not start");
            if server.try_wait().expect("the server is a child of this process").is_some() {
                server = self.serve();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        *self.server.lock().expect("the mutex is not poisoned") = Some(server);
    }

    fn serve(&self) -> Child {
        let sockets = format!("unix_socket_directories={}", self.directory.display());
        let mut command = self.tool("postgres");
        command.args(["-p", &self.port(), "-c", "listen_addresses=127.0.0.1", "-c", &sockets]);
        if let Some(clock) = &self.clock {
            command.env("LD_PRELOAD", faketime()).env("FAKETIME_TIMESTAMP_FILE", clock);
            command.env("FAKETIME_NO_CACHE", "1").env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        }
        command.args(self.settings.iter().flat_map(|setting| ["-c", setting]));
        silent(&mut command).spawn().expect("Postgres starts")
    }

    fn port(&self) -> String {
        self.port.to_string()
    }

    /// Returns the command of a Postgres tool that works on the data directory.
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

/// Returns the directory with the tools of the newest Postgres that Debian has installed. Empty if there is none: then
/// the tools are found in the path.
fn binaries() -> PathBuf {
    let version = |path: &PathBuf| path.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok());
    let installed = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let newest = installed.map(|entry| entry.path()).max_by_key(version);
    let tools = newest.map(|path| path.join("bin")).filter(|bin| bin.join("initdb").exists());
    tools.unwrap_or_default()
}

/// Returns the library that fakes the clock of a process. `scripts/test` installs it.
fn faketime() -> PathBuf {
    let folders = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let mut libraries = folders.map(|folder| folder.path().join("faketime/libfaketime.so.1"));
    libraries
        .find(|library| library.exists())
        .expect("libfaketime is installed: scripts/install-packages libfaketime")
}

/// Returns the user that runs Postgres, if the test runs as root.
pub fn owner() -> Option<u32> {
    let id = |user: &[&str]| {
        let output = Command::new("id").arg("-u").args(user).output().expect("`id` runs");
        String::from_utf8_lossy(&output.stdout).trim().parse::<u32>().ok()
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
    let status = silent(command).status();
    status.unwrap_or_else(|error| panic!("{command:?} does not run: {error}")).success()
}
