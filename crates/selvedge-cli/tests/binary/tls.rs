//! TLS of the binary: flags, the ready line, and `curl` as a client.

use crate::support::{Directory, Place, Server, Sqlite, command};
use std::process::Command;

#[test]
fn a_server_with_a_certificate_serves_both_versions_of_http_over_tls() {
    let (directory, place) = (Directory::new(), Sqlite::new());
    let path = |name: &str| directory.path().join(name).display().to_string();
    let new = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate is made");
    std::fs::write(path("server.crt"), new.cert.pem()).expect("the certificate is written");
    std::fs::write(path("server.key"), new.signing_key.serialize_pem()).expect("the key is written");
    let mut serve = command();
    serve.args(["serve", "--store", &place.store()]);
    serve.args(["--tls-cert", &path("server.crt"), "--tls-key", &path("server.key")]);
    let server = Server::spawn(serve);
    assert!(server.url.starts_with("https://127.0.0.1:"), "{}", server.ready_line);
    for (version, expected) in [("--http1.1", "1.1 200"), ("--http2", "2 200")] {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--max-time", "90", version, "--cacert", &path("server.crt")]);
        curl.args(["--output", "/dev/null", "--write-out", "%{http_version} %{http_code}"]);
        let output = curl.arg(format!("{}/readyz", server.url)).output().expect("curl runs");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{errors}");
    }
    let log = server.stop_and_read_log();
    assert!(log.contains("stopped"), "{log}");
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
