//! TLS of the binary: flags, the ready line, and `curl` as a client.

use crate::support::{Directory, Place, Server, Sqlite, command, get};
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

/// Runs the documented openssl command, changed by `change`, in a directory.
fn run_documented(directory: &Directory, change: impl Fn(String) -> String) {
    let page = include_str!("../../../../docs/operating.md");
    let line = page.lines().find(|line| line.starts_with("openssl req")).expect("the page has the command");
    let output =
        Command::new("sh").args(["-c", &change(line.to_owned())]).current_dir(directory.path()).output();
    let output = output.expect("openssl runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Starts a server with the certificate in a directory. Returns it and its port.
fn start(place: &Sqlite, directory: &Directory) -> (Server, String) {
    let mut serve = command();
    serve.args(["serve", "--store", &place.store(), "--tls-cert", "server.crt", "--tls-key", "server.key"]);
    serve.current_dir(directory.path());
    let server = Server::spawn(serve);
    let port = server.url.rsplit_once(':').expect("the URL has a port").1.to_owned();
    (server, port)
}

/// Runs `selvedge list`. Returns whether it succeeded, and standard error.
fn list(directory: &Directory, server: &str, ca_file: Option<&str>) -> (bool, String) {
    let mut list = command();
    list.args(["list", "--server", server]).current_dir(directory.path());
    list.env("XDG_CONFIG_HOME", directory.path());
    list.envs(ca_file.map(|file| ("SELVEDGE_CA_FILE", file)));
    let output = list.output().expect("the binary starts");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    for debug in ["Other(", "Error", "os error"] {
        assert!(!stderr.contains(debug), "{stderr}");
    }
    (output.status.success(), stderr)
}

#[test]
fn the_documented_certificate_works_with_the_own_command_line_and_errors_name_the_remedy() {
    let (directory, place) = (Directory::new(), Sqlite::new());
    run_documented(&directory, |line| line);
    let (server, port) = start(&place, &directory);
    for host in ["localhost", "127.0.0.1"] {
        let (succeeded, stderr) = list(&directory, &format!("https://{host}:{port}"), Some("server.crt"));
        assert!(succeeded, "{host}: {stderr}");
    }
    let refused = |url: &str, ca_file: Option<&str>, expected: [&str; 2]| {
        let (succeeded, stderr) = list(&directory, url, ca_file);
        assert!(!succeeded && stderr.lines().count() == 1, "{stderr}");
        assert!(expected.iter().all(|text| stderr.contains(text)), "{expected:?}: {stderr}");
    };
    let url = format!("https://localhost:{port}");
    refused(&url, None, ["not trusted here", "--ca-file or SELVEDGE_CA_FILE"]);
    let by_other_name = format!("https://[::ffff:127.0.0.1]:{port}");
    refused(&by_other_name, Some("server.crt"), ["does not name the host", "subject alternative names"]);
    drop(server);
    refused(&url, Some("server.crt"), ["the connection was refused", "selvedge dev"]);

    let plain = Server::start(&Sqlite::new());
    refused(&plain.url.replace("http://", "https://"), Some("server.crt"), ["does not speak TLS", "http://"]);
    assert_eq!(get(&format!("{}/healthz", plain.url)).0, 200);
}

#[test]
fn certificates_of_authorities_and_of_other_times_are_refused_with_sentences() {
    let cases = [
        (None, "is that of a certificate authority", "CA:FALSE"),
        (Some(2020), "has expired", "renew it"),
        (Some(2100), "is not valid yet", "the clock"),
    ];
    for (year, fault, remedy) in cases {
        let (directory, place) = (Directory::new(), Sqlite::new());
        match year {
            None => run_documented(&directory, |line| {
                line.replace("-addext basicConstraints=critical,CA:FALSE", "")
            }),
            Some(year) => write_certificate_of(&directory, year),
        }
        let (server, port) = start(&place, &directory);
        let (succeeded, stderr) = list(&directory, &format!("https://localhost:{port}"), Some("server.crt"));
        assert!(!succeeded && stderr.contains(fault) && stderr.contains(remedy), "{stderr}");
        drop(server);
    }
}

/// Writes a certificate for localhost that is valid on a day of this year.
fn write_certificate_of(directory: &Directory, year: i32) {
    let mut parameters = rcgen::CertificateParams::new(["localhost".to_owned()]).expect("a name");
    parameters.not_before = rcgen::date_time_ymd(year, 1, 1);
    parameters.not_after = rcgen::date_time_ymd(year, 1, 2);
    let key = rcgen::KeyPair::generate().expect("a key is made");
    let certificate = parameters.self_signed(&key).expect("a certificate is made");
    std::fs::write(directory.path().join("server.crt"), certificate.pem()).expect("the file is written");
    std::fs::write(directory.path().join("server.key"), key.serialize_pem()).expect("the file is written");
}
