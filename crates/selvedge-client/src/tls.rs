//! The connections of a client, with or without TLS.

use crate::Error;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Returns a connector. `roots` is a PEM file with the certificates that are trusted; none: those of this machine.
pub fn connector(
    is_tls: bool,
    roots: Option<&Path>,
    connect_timeout: Duration,
) -> Result<HttpsConnector<HttpConnector>, Error> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(connect_timeout));
    tcp.set_keepalive(Some(Duration::from_secs(10)));
    // The roots of a machine take milliseconds to read; a client of a plain address does without.
    let store = match is_tls {
        true => trusted(roots)?,
        false => RootCertStore::empty(),
    };
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::Tls(error.to_string()))?
        .with_root_certificates(store)
        .with_no_client_auth();
    let builder = HttpsConnectorBuilder::new().with_tls_config(config).https_or_http();
    Ok(builder.enable_http1().enable_http2().wrap_connector(tcp))
}

fn trusted(roots: Option<&Path>) -> Result<RootCertStore, Error> {
    let certificates = match roots {
        None => rustls_native_certs::load_native_certs().certs,
        Some(file) => {
            let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect);
            read.map_err(|error| {
                Error::Tls(format!("the certificates in {} cannot be read: {error}", file.display()))
            })?
        }
    };
    let mut store = RootCertStore::empty();
    // Machines have roots that the library cannot read; a certificate that needs one of them is refused.
    let (added, _unreadable) = store.add_parsable_certificates(certificates);
    match added {
        0 => {
            let place = roots.map_or("this machine".into(), |file| file.display().to_string());
            Err(Error::Tls(format!("{place} has no root certificates; name a PEM file that has some")))
        }
        _ => Ok(store),
    }
}
