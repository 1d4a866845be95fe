//! The address of a collector, and the connection to it, with or without TLS.
//!
//! There is at most one connection. It is opened by the first request and stays open; after an error the next request opens
//! another one. Addresses may contain secrets, so errors do not repeat them.

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Request, Response, Uri, header};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// The longest response that is read to its end, so that its connection can be used again.
const RESPONSE_BYTES: usize = 64 * 1024;

/// The address of a collector.
pub struct Endpoint {
    host: String,
    port: u16,
    /// The value of the `host` header.
    authority: String,
    path: String,
    tls: Option<TlsConnector>,
}

impl Endpoint {
    /// Parses an `http://` or `https://` address. `roots` is a PEM file with the certificates that are trusted; none: those
    /// of this machine. The error says what to do.
    pub fn parse(text: &str, roots: Option<&str>) -> Result<Endpoint, String> {
        let uri: Uri = text.parse().map_err(|_| "is not an address".to_owned())?;
        let (tls, port) = match uri.scheme_str() {
            Some("http") => (None, 80),
            Some("https") => (Some(connector(roots)?), 443),
            _ => return Err("does not begin with http:// or https://".into()),
        };
        let authority = uri.authority().filter(|authority| !authority.host().is_empty());
        let authority = authority.ok_or("names no host")?;
        if authority.as_str().contains('@') {
            return Err("contains a user; set OTEL_EXPORTER_OTLP_HEADERS=authorization=… instead".into());
        }
        Ok(Endpoint {
            host: authority.host().trim_matches(['[', ']']).to_owned(),
            port: authority.port_u16().unwrap_or(port),
            authority: authority.to_string(),
            path: uri.path_and_query().map_or("/", |path| path.as_str()).to_owned(),
            tls,
        })
    }

    /// Opens a connection.
    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, String> {
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await;
        let stream = stream.map_err(|error| format!("cannot connect: {error}"))?;
        let _ = stream.set_nodelay(true);
        let Some(tls) = &self.tls else { return begin(stream).await };
        let name = ServerName::try_from(self.host.clone());
        let name = name.map_err(|_| "the host has no valid name".to_owned())?;
        let stream = tls.connect(name, stream).await;
        begin(stream.map_err(|error| format!("the TLS handshake failed: {error}"))?).await
    }
}

/// Begins HTTP/1.1 on a connection.
async fn begin<S>(stream: S) -> Result<SendRequest<Full<Bytes>>, String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    // Ends with its sender. Its errors are those of the requests.
    tokio::spawn(connection);
    Ok(sender)
}

/// Returns the TLS of connections.
fn connector(roots: Option<&str>) -> Result<TlsConnector, String> {
    let certificates = match roots {
        None => rustls_native_certs::load_native_certs().certs,
        Some(file) => {
            let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect);
            read.map_err(|error| format!("needs the certificates in {file}, which cannot be read: {error}"))?
        }
    };
    let mut store = RootCertStore::empty();
    // Machines have roots that the library cannot read; a certificate that needs one of them is refused.
    let (added, _unreadable) = store.add_parsable_certificates(certificates);
    if added == 0 {
        let place = roots.unwrap_or("this machine");
        return Err(format!(
            "needs root certificates, and {place} has none; name a file with OTEL_EXPORTER_OTLP_CERTIFICATE"
        ));
    }
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("cannot be used: {error}"))?
        .with_root_certificates(store)
        .with_no_client_auth();
    Ok(Arc::new(config).into())
}

/// A collector and the connection to it.
pub struct Client {
    endpoint: Endpoint,
    headers: Vec<(String, String)>,
    connection: Option<SendRequest<Full<Bytes>>>,
}

impl Client {
    /// Returns a client that sends these headers with every request.
    pub fn new(endpoint: Endpoint, headers: Vec<(String, String)>) -> Client {
        Client { endpoint, headers, connection: None }
    }

    /// Sends a JSON document. The call may be dropped at any time.
    pub async fn post(&mut self, document: Bytes) -> Result<(), String> {
        let idle = match self.connection.take() {
            Some(mut connection) => connection.ready().await.is_ok().then_some(connection),
            None => None,
        };
        let is_reused = idle.is_some();
        let mut connection = match idle {
            Some(connection) => connection,
            None => self.endpoint.connect().await?,
        };
        let response = match connection.send_request(self.request(document.clone())?).await {
            // The collector has closed the idle connection meanwhile. Spans have ids, so a repeat is harmless.
            Err(_closed) if is_reused => {
                connection = self.endpoint.connect().await?;
                connection.send_request(self.request(document)?).await
            }
            response => response,
        };
        let response = response.map_err(|error| error.to_string())?;
        let status = response.status();
        self.connection = read_to_end(response).await.then_some(connection);
        match status.is_success() {
            true => Ok(()),
            false => Err(format!("the collector answered {status}")),
        }
    }

    fn request(&self, document: Bytes) -> Result<Request<Full<Bytes>>, String> {
        let Endpoint { authority, path, .. } = &self.endpoint;
        let mut request = Request::post(path)
            .header(header::HOST, authority)
            .header(header::CONTENT_TYPE, "application/json");
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        request.body(Full::new(document)).map_err(|error| error.to_string())
    }
}

/// Reads a response. Reports whether the connection can be used again.
async fn read_to_end(response: Response<Incoming>) -> bool {
    Limited::new(response.into_body(), RESPONSE_BYTES).collect().await.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_scheme_and_a_host_and_no_user() {
        let parsed =
            Endpoint::parse("http://127.0.0.1:4318/v1/traces?a=b", None).expect("the address is valid");
        assert_eq!((parsed.host.as_str(), parsed.port, parsed.tls.is_none()), ("127.0.0.1", 4318, true));
        assert_eq!((parsed.authority.as_str(), parsed.path.as_str()), ("127.0.0.1:4318", "/v1/traces?a=b"));
        let parsed = Endpoint::parse("http://[::1]", None).expect("the address is valid");
        assert_eq!((parsed.host.as_str(), parsed.port, parsed.path.as_str()), ("::1", 80, "/"));
        for text in ["ftp://collector", "127.0.0.1:4318", "http://", "", "http://ada:lovelace@collector"] {
            let refused = Endpoint::parse(text, None).err().expect(text);
            assert!(!refused.contains("lovelace"), "{refused}");
        }
        let refused = Endpoint::parse("https://collector", Some("/does/not/exist")).err();
        assert!(refused.is_some_and(|text| text.contains("/does/not/exist")));
    }
}
