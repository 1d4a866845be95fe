//! TLS of the binary: flags, the ready line, and `curl` as a client.

use crate::support::{Directory, Place, Server, Sqlite, command};
use std::io::Read;
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

/// Writes a certificate for 127.0.0.1 and its key. Returns their paths.
fn write_certificate(directory: &Directory) -> [String; 2] {
    let new = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate is made");
    let contents = [("server.crt", new.cert.pem()), ("server.key", new.signing_key.serialize_pem())];
    contents.map(|(name, content)| {
        let path = directory.path().join(name);
        std::fs::write(&path, content).expect("the file is written");
        path.display().to_string()
    })
}

#[test]
fn a_server_with_a_certificate_serves_both_versions_of_http_over_tls() {
    let (directory, place) = (Directory::new(), Sqlite::new());
    let [certificate, key] = write_certificate(&directory);
    let mut serve = command();
    serve.args(["serve", "--store", &place.store(), "--tls-cert", &certificate, "--tls-key", &key]);
    let server = Server::spawn(serve);
    assert!(server.url.starts_with("https://127.0.0.1:"), "{}", server.ready_line);
    for (version, expected) in [("--http1.1", "1.1 200"), ("--http2", "2 200")] {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--max-time", "90", version, "--cacert", &certificate]);
        curl.args(["--output", "/dev/null", "--write-out", "%{http_version} %{http_code}"]);
        let output = curl.arg(format!("{}/readyz", server.url)).output().expect("curl runs");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{errors}");
    }
    let log = server.stop_and_read_log();
    assert!(log.contains("stopped"), "{log}");
}

#[test]
fn a_connection_without_a_file_descriptor_is_closed_without_plain_text() {
    let (directory, place) = (Directory::new(), Sqlite::new());
    let [certificate, key] = write_certificate(&directory);
    let serve = command();
    let mut limited = Command::new("sh");
    limited.args(["-c", r#"ulimit -n 64; exec "$0" "$@""#]).arg(serve.get_program());
    for (variable, _removed) in serve.get_envs() {
        limited.env_remove(variable);
    }
    limited.args(["serve", "--store", &place.store(), "--handshake-time", "2s"]);
    limited.args(["--tls-cert", &certificate, "--tls-key", &key]);
    let server = Server::spawn(limited);
    let address = server.url.strip_prefix("https://").expect("the URL has TLS");
    let open = |_| TcpStream::connect(address).expect("the operating system accepts");
    let streams: Vec<TcpStream> = (0..80).map(open).collect();
    for mut stream in streams {
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("the timeout is set");
        let mut received = Vec::new();
        stream.read_to_end(&mut received).expect("the connection is closed");
        assert_eq!(String::from_utf8_lossy(&received), "");
    }
    let log = server.stop_and_read_log();
    assert!(log.contains("cannot accept connections"), "{log}");
}

#[test]
fn a_certificate_that_cannot_be_used_is_named_at_the_start() {
    let directory = Directory::new();
    let mut serve = command();
    serve.args(["serve", "--store", "memory:", "--listen", "127.0.0.1:0"]);
    serve.args(["--tls-cert", "no.crt", "--tls-key", "no.key"]).current_dir(directory.path());
    let output = serve.output().expect("the binary starts");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("no.crt") && stderr.contains("check its path"), "{stderr}");
}
