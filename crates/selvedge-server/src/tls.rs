//! TLS of the server's own connections: the certificate and its key, which are read again when their files change.
//!
//! A handshake uses the certificate that was current when it began; open connections keep theirs. Files that cannot be used
//! leave the previous certificate in place, and one line in the log says why. Certificate and key are usually replaced one
//! after the other: in between they do not match, so the pair is loaded at the check after the second one.

use crate::shutdown::ShutdownWatch;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use std::{fmt, io};
use tokio_rustls::TlsAcceptor;

/// The protocols that the server offers, the preferred one first.
const PROTOCOLS: [&[u8]; 2] = [HTTP2, b"http/1.1"];
/// The name of HTTP/2 in the negotiation of protocols.
pub const HTTP2: &[u8] = b"h2";

/// The files with the certificate of a server and its key, in PEM form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The file with the certificate, followed by the intermediate certificates of its issuer.
    pub certificate: PathBuf,
    /// The file with the private key of the certificate.
    pub key: PathBuf,
}

/// The reason why a certificate and its key cannot be used. The text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file could not be read.
    #[error("cannot read {}: {error}; check its path and its permissions", path.display())]
    Unreadable {
        /// The path of the file.
        path: PathBuf,
        /// The error of the operating system.
        error: io::Error,
    },
    /// A file does not contain what it should.
    #[error("{} contains no {what} in PEM form{detail}", path.display())]
    Malformed {
        /// The path of the file.
        path: PathBuf,
        /// The expected content of the file.
        what: &'static str,
        /// The error of the parser, or nothing.
        detail: String,
    },
    /// The certificate and the key cannot be used together.
    #[error(
        "the certificate {} cannot be used with the key {}: {error}; check that they belong together",
        files.certificate.display(), files.key.display()
    )]
    Unusable {
        files: TlsFiles,
        /// The error of the library.
        error: rustls::Error,
    },
}

/// The certificate of a server. Clones share it.
#[derive(Clone)]
pub struct Tls {
    files: TlsFiles,
    current: Arc<RwLock<Arc<ServerConfig>>>,
    /// The contents of the files when they were last read.
    read: Arc<RwLock<Contents>>,
}

/// The contents of the two files.
#[derive(Default, PartialEq, Eq)]
struct Contents {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl Tls {
    /// Reads the certificate and its key.
    pub fn load(files: TlsFiles) -> Result<Tls, TlsError> {
        let contents = Contents::read(&files)?;
        let config = contents.config(&files)?;
        Ok(Tls {
            files,
            current: Arc::new(RwLock::new(Arc::new(config))),
            read: Arc::new(RwLock::new(contents)),
        })
    }

    /// Returns the acceptor of a new connection.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone().into()
    }

    /// Reads the files again if they have changed. Returns true if there is a new certificate. After an error the previous
    /// one stays, and the same contents are not tried again.
    pub fn reload(&self) -> Result<bool, TlsError> {
        let contents = Contents::read(&self.files)?;
        let mut read = self.read.write().unwrap_or_else(PoisonError::into_inner);
        if contents == *read {
            return Ok(false);
        }
        let config = contents.config(&self.files);
        *read = contents;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(config?);
        Ok(true)
    }
}

/// Checks the files of a certificate at an interval until the shutdown begins.
pub async fn follow(tls: Option<Tls>, interval: Duration, shutdown: ShutdownWatch) {
    let Some(tls) = tls else { return };
    let mut last_error = String::new();
    while shutdown.race(tokio::time::sleep(interval)).await.is_some() {
        let checked = tls.clone();
        // Files may lie on a slow disk.
        let Ok(reloaded) = tokio::task::spawn_blocking(move || checked.reload()).await else { continue };
        match reloaded {
            // Also after an error: a file that could not be read, and is the same again.
            Ok(false) => last_error.clear(),
            Ok(true) => {
                last_error.clear();
                tracing::info!(certificate = %tls.files.certificate.display(), "the certificate was reloaded");
            }
            Err(error) => {
                let error = error.to_string();
                if error != last_error {
                    tracing::error!("the certificate was not reloaded, the previous one stays: {error}");
                }
                last_error = error;
            }
        }
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tls").field(&self.files).finish()
    }
}

impl Contents {
    fn read(files: &TlsFiles) -> Result<Contents, TlsError> {
        let read = |path: &Path| {
            std::fs::read(path).map_err(|error| TlsError::Unreadable { path: path.to_owned(), error })
        };
        Ok(Contents { certificate: read(&files.certificate)?, key: read(&files.key)? })
    }

    fn config(&self, files: &TlsFiles) -> Result<ServerConfig, TlsError> {
        let malformed = |path: &Path, what, error: Option<pem::Error>| {
            let detail = error.map_or_else(String::new, |error| format!(" ({error})"));
            TlsError::Malformed { path: path.to_owned(), what, detail }
        };
        let certificates: Vec<_> = CertificateDer::pem_slice_iter(&self.certificate)
            .collect::<Result<_, _>>()
            .map_err(|error| malformed(&files.certificate, "certificate", Some(error)))?;
        if certificates.is_empty() {
            return Err(malformed(&files.certificate, "certificate", None));
        }
        let key = PrivateKeyDer::from_pem_slice(&self.key)
            .map_err(|error| malformed(&files.key, "private key", Some(error)))?;
        let unusable = |error| TlsError::Unusable { files: files.clone(), error };
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(unusable)?
            .with_no_client_auth()
            .with_single_cert(certificates, key)
            .map_err(unusable)?;
        config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
        Ok(config)
    }
}
