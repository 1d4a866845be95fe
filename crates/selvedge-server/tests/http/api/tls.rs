//! TLS: both versions of HTTP, certificates that change under load, and clients that do not speak TLS or nothing at all.

use crate::support::{Server, within};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Full};
use hyper::client::conn::{http1, http2};
use hyper::{Request, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use selvedge_engine::Options;
use selvedge_memory::Clock;
use selvedge_server::{ConnectionLimits, Tls, TlsFiles};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// A directory with the files of a certificate, deleted at the end.
struct Files(PathBuf);

impl Files {
    fn new() -> Files {
        let directory = std::env::temp_dir().join(format!("selvedge-tls-{}", uuid::Uuid::new_v4()));
        std::fs::create_dir(&directory).expect("the directory is created");
        Files(directory)
    }

    fn paths(&self) -> TlsFiles {
        TlsFiles { certificate: self.0.join("server.crt"), key: self.0.join("server.key") }
    }

    /// Writes a new certificate and its key. Returns the certificate, which is its own root.
    fn renew(&self) -> CertificateDer<'static> {
        let new =
            rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate is made");
        let TlsFiles { certificate, key } = self.paths();
        std::fs::write(certificate, new.cert.pem()).expect("the certificate is written");
        std::fs::write(key, new.signing_key.serialize_pem()).expect("the key is written");
        new.cert.der().clone()
    }

    fn load(&self) -> Tls {
        Tls::load(self.paths()).expect("the certificate is valid")
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

async fn start(tls: Tls, connections: ConnectionLimits) -> Server {
    let serving =
        selvedge_server::Options { tls: Some(tls), connections, ..selvedge_server::Options::default() };
    let options = Options { reconcilers: false, ..Options::default() };
    Server::start_serving(options, Clock::system(), serving).await
}

/// Returns a connector that trusts these roots and offers one protocol.
fn connector(roots: &[CertificateDer<'static>], protocol: &str) -> TlsConnector {
    let mut trusted = RootCertStore::empty();
    for root in roots {
        trusted.add(root.clone()).expect("the root is valid");
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has the default versions")
        .with_root_certificates(trusted)
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.into()];
    Arc::new(config).into()
}

/// Opens a connection with a handshake of its own.
async fn connect(server: &Server, connector: &TlsConnector) -> std::io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(server.address).await?;
    let name = ServerName::try_from("localhost").expect("a valid name");
    connector.connect(name, stream).await
}

fn request() -> Request<Empty<Bytes>> {
    let uri = "https://localhost/healthz";
    Request::get(uri).header("host", "localhost").body(Empty::new()).expect("the request is valid")
}

async fn get_http1(stream: TlsStream<TcpStream>) -> StatusCode {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.expect("HTTP/1.1 begins");
    let connection = tokio::spawn(connection);
    let response = sender.send_request(request()).await.expect("the server responds");
    let status = response.status();
    response.into_body().collect().await.expect("the body is read");
    drop(sender);
    connection.await.expect("the connection does not panic").expect("the connection ends cleanly");
    status
}

async fn get_http2(stream: TlsStream<TcpStream>) -> StatusCode {
    let handshake = http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
    let (mut sender, connection) = handshake.await.expect("HTTP/2 begins");
    tokio::spawn(connection);
    sender.send_request(request()).await.expect("the server responds").status()
}

#[tokio::test]
async fn both_versions_of_http_are_served_over_tls() {
    let files = Files::new();
    let root = files.renew();
    let server = start(files.load(), ConnectionLimits::default()).await;
    let stream = within(connect(&server, &connector(std::slice::from_ref(&root), "http/1.1"))).await;
    let stream = stream.expect("the handshake succeeds");
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(b"http/1.1".as_slice()));
    assert_eq!(within(get_http1(stream)).await, 200);
    let stream = within(connect(&server, &connector(std::slice::from_ref(&root), "h2"))).await;
    let stream = stream.expect("the handshake succeeds");
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(b"h2".as_slice()));
    assert_eq!(within(get_http2(stream)).await, 200);
    let stranger = Files::new().renew();
    within(connect(&server, &connector(&[stranger], "h2"))).await.expect_err("the root is another one");
}

#[tokio::test]
async fn a_certificate_is_replaced_under_load_without_a_failed_request() {
    let files = Files::new();
    let old = files.renew();
    let tls = files.load();
    let server = Arc::new(start(tls.clone(), ConnectionLimits::default()).await);
    // The new certificate is made elsewhere first, so that clients can trust both before the server changes.
    let prepared = Files::new();
    let new = prepared.renew();
    let roots = [old.clone(), new.clone()];
    let (stop, served) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let clients: Vec<_> = (0..4)
        .map(|index| {
            let (server, stop, served) = (server.clone(), stop.clone(), served.clone());
            let protocol = if index % 2 == 0 { "http/1.1" } else { "h2" };
            let connector = connector(&roots, protocol);
            tokio::spawn(async move {
                while !stop.load(Ordering::SeqCst) {
                    let stream = connect(&server, &connector).await.expect("every handshake succeeds");
                    let status = match protocol {
                        "h2" => get_http2(stream).await,
                        _ => get_http1(stream).await,
                    };
                    assert_eq!(status, 200);
                    served.fetch_add(1, Ordering::SeqCst);
                }
            })
        })
        .collect();
    let presented = async || {
        let stream = connect(&server, &connector(&roots, "h2")).await.expect("the handshake succeeds");
        let certificates = stream.get_ref().1.peer_certificates().expect("the server has a certificate");
        certificates[0].clone().into_owned()
    };
    assert_eq!(within(presented()).await, old);
    // Requests go on after each change.
    let go_on = async || {
        let before = served.load(Ordering::SeqCst);
        while served.load(Ordering::SeqCst) < before + 20 {
            tokio::task::yield_now().await;
        }
    };
    // First the certificate alone, with which the old key cannot be used.
    std::fs::copy(prepared.paths().certificate, files.paths().certificate)
        .expect("the certificate is copied");
    tls.reload().expect_err("half a pair is not used");
    within(go_on()).await;
    assert_eq!(within(presented()).await, old);
    std::fs::copy(prepared.paths().key, files.paths().key).expect("the key is copied");
    assert!(tls.reload().expect("the pair is used"));
    within(go_on()).await;
    assert_eq!(within(presented()).await, new);
    // A broken file keeps the certificate that works.
    std::fs::write(files.paths().certificate, "not a certificate").expect("the file is written");
    tls.reload().expect_err("the file is broken");
    within(go_on()).await;
    assert_eq!(within(presented()).await, new);
    stop.store(true, Ordering::SeqCst);
    for client in clients {
        within(client).await.expect("no request failed");
    }
}

#[tokio::test]
async fn a_certificate_whose_files_change_is_reloaded_by_the_server() {
    let files = Files::new();
    let old = files.renew();
    let serving = selvedge_server::Options {
        tls: Some(files.load()),
        tls_reload: Duration::from_millis(20),
        ..selvedge_server::Options::default()
    };
    let options = Options { reconcilers: false, ..Options::default() };
    let server = Server::start_serving(options, Clock::system(), serving).await;
    let old = connector(&[old], "h2");
    within(connect(&server, &old)).await.expect("the old certificate is trusted");
    let new = connector(&[files.renew()], "h2");
    within(async { while connect(&server, &new).await.is_err() {} }).await;
}

#[tokio::test]
async fn http2_connections_without_a_preface_or_a_request_are_closed() {
    let files = Files::new();
    let connector = connector(&[files.renew()], "h2");
    let limits = ConnectionLimits { head_time: Duration::from_millis(200), ..ConnectionLimits::default() };
    let server = start(files.load(), limits).await;
    let mut silent = within(connect(&server, &connector)).await.expect("the handshake succeeds");
    let mut received = Vec::new();
    // Closed with or without the alert of TLS.
    let _ = within(silent.read_to_end(&mut received)).await;
    let stream = within(connect(&server, &connector)).await.expect("the handshake succeeds");
    let handshake = http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
    let (mut sender, connection) = within(handshake).await.expect("HTTP/2 begins");
    let connection = tokio::spawn(connection);
    // A request may take longer than the limit.
    let body = r#"{"worker": "w", "lanes": ["default"], "max": 1, "wait_ms": 1000}"#;
    let claim = Request::post("https://localhost/v1/workers/i/claim").header("host", "localhost");
    let claim = claim.body(Full::<Bytes>::from(body)).expect("the request is valid");
    let claimed = within(sender.send_request(claim)).await.expect("the server responds");
    assert_eq!(claimed.status(), 200);
    within(claimed.into_body().collect()).await.expect("the body is read");
    let ended = within(connection).await.expect("the connection does not panic");
    ended.expect("the connection is closed gracefully");
    drop(sender);
}

#[tokio::test]
async fn a_shutdown_does_not_wait_for_handshakes() {
    let files = Files::new();
    let connector = connector(&[files.renew()], "http/1.1");
    let serving = selvedge_server::Options {
        tls: Some(files.load()),
        grace: Duration::from_secs(3600),
        connections: ConnectionLimits {
            handshake_time: Duration::from_secs(3600),
            ..ConnectionLimits::default()
        },
        ..selvedge_server::Options::default()
    };
    let options = Options { reconcilers: false, ..Options::default() };
    let mut server = Server::start_serving(options, Clock::system(), serving).await;
    let mut streams = Vec::new();
    for bytes in [&b""[..], &[22, 3, 1, 2]] {
        let mut stream = TcpStream::connect(server.address).await.expect("the server accepts");
        stream.write_all(bytes).await.expect("the bytes are sent");
        streams.push(stream);
    }
    // Accepted after the others.
    let stream = within(connect(&server, &connector)).await.expect("the handshake succeeds");
    assert_eq!(within(get_http1(stream)).await, 200);
    server.stop().await;
}

#[tokio::test]
async fn plain_http_on_a_tls_port_is_answered_in_words() {
    let files = Files::new();
    files.renew();
    let server = start(files.load(), ConnectionLimits::default()).await;
    let mut stream = TcpStream::connect(server.address).await.expect("the server accepts");
    let plain = "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";
    stream.write_all(plain.as_bytes()).await.expect("the request is sent");
    let mut answer = String::new();
    within(stream.read_to_string(&mut answer)).await.expect("the answer is text");
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    assert!(answer.contains(r#""code":"tls_required""#) && answer.contains("https://"), "{answer}");
}

#[tokio::test]
async fn a_handshake_that_is_silent_slow_or_broken_is_closed_in_time() {
    let files = Files::new();
    let root = files.renew();
    let limits = ConnectionLimits {
        handshake_time: Duration::from_millis(200),
        connections: 3,
        ..ConnectionLimits::default()
    };
    let server = start(files.load(), limits).await;
    // Nothing, the beginning of a handshake, and bytes that are no handshake.
    let mut streams = Vec::new();
    for bytes in [&b""[..], &[22, 3, 1, 2], &[0, 1, 2, 3, 4, 5, 6, 7]] {
        let mut stream = TcpStream::connect(server.address).await.expect("the server accepts");
        stream.write_all(bytes).await.expect("the bytes are sent");
        streams.push(stream);
    }
    for mut stream in streams {
        let mut rest = Vec::new();
        // A connection with unread bytes is reset.
        let _ = within(stream.read_to_end(&mut rest)).await;
    }
    // All places are free again.
    let connector = connector(&[root], "http/1.1");
    let stream = within(async {
        loop {
            if let Ok(stream) = connect(&server, &connector).await {
                return stream;
            }
        }
    })
    .await;
    assert_eq!(within(get_http1(stream)).await, 200);
}

#[tokio::test]
async fn unusable_files_are_refused_in_words() {
    let files = Files::new();
    let refused = |files: &Files| Tls::load(files.paths()).expect_err("the files are unusable").to_string();
    assert!(refused(&files).contains("server.crt") && refused(&files).contains("check its path"));
    files.renew();
    std::fs::write(files.paths().key, "no key").expect("the file is written");
    assert!(refused(&files).contains("private key in PEM form"), "{}", refused(&files));
    std::fs::copy(files.paths().key, files.paths().certificate).expect("the file is copied");
    assert!(refused(&files).contains("certificate in PEM form"), "{}", refused(&files));
    files.renew();
    let other = Files::new();
    other.renew();
    std::fs::copy(other.paths().key, files.paths().key).expect("the file is copied");
    assert!(refused(&files).contains("belong together"), "{}", refused(&files));
}
