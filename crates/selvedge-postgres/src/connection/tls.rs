//! TLS of connections to Postgres, by rustls.

use super::certificates::{Check, Verifier, advice};
use rustls::ClientConfig;
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use sha2::{Digest, Sha256, Sha384, Sha512};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::{fmt, io};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::Socket;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream as RustlsStream;

/// The name of Postgres in the negotiation of protocols, which a server needs if TLS begins without a request for it.
const PROTOCOL: &[u8] = b"postgresql";

/// Creates the TLS of connections.
#[derive(Clone)]
pub struct Tls(Arc<ClientConfig>);

impl Tls {
    /// Returns the TLS with a check of certificates.
    pub fn new(check: Check) -> Result<Tls, rustls::Error> {
        let provider = Arc::new(ring::default_provider());
        let verifier = Verifier { check, provider: provider.clone() };
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        Ok(Tls(Arc::new(config)))
    }
}

impl MakeTlsConnect<Socket> for Tls {
    type Stream = TlsStream;
    type TlsConnect = Handshake;
    type Error = HandshakeError;

    fn make_tls_connect(&mut self, host: &str) -> Result<Handshake, HandshakeError> {
        // A socket file has no name, and no TLS.
        let host = if host.is_empty() { "localhost" } else { host };
        let name = ServerName::try_from(host.to_owned()).map_err(|_| HandshakeError {
            cause: io::Error::new(io::ErrorKind::InvalidInput, format!("{host:?} is not the name of a host")),
        })?;
        Ok(Handshake { connector: self.0.clone().into(), name })
    }
}

pub struct Handshake {
    connector: TlsConnector,
    name: ServerName<'static>,
}

impl TlsConnect<Socket> for Handshake {
    type Stream = TlsStream;
    type Error = HandshakeError;
    type Future = Pin<Box<dyn Future<Output = Result<TlsStream, HandshakeError>> + Send>>;

    fn connect(self, stream: Socket) -> Self::Future {
        Box::pin(async move {
            let shaken = self.connector.connect(self.name, stream).await;
            shaken.map(TlsStream).map_err(|cause| HandshakeError { cause })
        })
    }
}

/// A handshake that failed. The text says what to do, if that is known.
#[derive(Debug)]
pub struct HandshakeError {
    cause: io::Error,
}

impl fmt::Display for HandshakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.cause)?;
        let tls = self.cause.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
        match tls.and_then(advice) {
            Some(advice) => write!(f, "; {advice}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for HandshakeError {}

pub struct TlsStream(RustlsStream<Socket>);

impl tokio_postgres::tls::TlsStream for TlsStream {
    /// Returns the digest of the server's certificate, to which the authentication with a password is bound.
    fn channel_binding(&self) -> ChannelBinding {
        let certificates = self.0.get_ref().1.peer_certificates();
        let digest = certificates.and_then(|certificates| end_point(certificates.first()?));
        digest.map_or_else(ChannelBinding::none, ChannelBinding::tls_server_end_point)
    }
}

/// Returns the digest of a certificate by RFC 5929: with the hash function of its signature, or SHA-256 instead of MD5 and
/// SHA-1. None for a signature without a hash function, such as Ed25519.
fn end_point(certificate: &[u8]) -> Option<Vec<u8>> {
    // Certificate: sequence of the signed part, the algorithm (a sequence that begins with its identifier) and the signature.
    let (body, _) = der_element(certificate)?;
    let (_signed, rest) = der_element(body)?;
    let (algorithm, _) = der_element(rest)?;
    let (identifier, _) = der_element(algorithm)?;
    match identifier {
        // rsaEncryption with MD5 (4), SHA-1 (5), SHA-256 (11), SHA-384 (12), SHA-512 (13).
        [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 4 | 5 | 11]
        // ECDSA with SHA-1 and SHA-256.
        | [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 1]
        | [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 2] => Some(Sha256::digest(certificate).to_vec()),
        [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 12]
        | [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 3] => Some(Sha384::digest(certificate).to_vec()),
        [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 13]
        | [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 4] => Some(Sha512::digest(certificate).to_vec()),
        _ => None,
    }
}

/// Returns the content of the first element of DER, and the elements after it.
fn der_element(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&first, rest) = bytes.get(1..)?.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        // The number of bytes of the length.
        0x81..=0x84 => {
            let (length, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (length.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    rest.split_at_checked(length)
}

impl AsyncRead for TlsStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for TlsStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_digested_with_the_hash_function_of_its_signature() {
        for (algorithm, bytes) in [
            (&rcgen::PKCS_ECDSA_P256_SHA256, Some(32)),
            (&rcgen::PKCS_ECDSA_P384_SHA384, Some(48)),
            (&rcgen::PKCS_ED25519, None),
        ] {
            let key = rcgen::KeyPair::generate_for(algorithm).expect("a key is made");
            let certificate = rcgen::CertificateParams::new(["db".to_owned()])
                .and_then(|parameters| parameters.self_signed(&key))
                .expect("a certificate is made");
            assert_eq!(end_point(certificate.der()).map(|digest| digest.len()), bytes, "{algorithm:?}");
        }
        assert_eq!(end_point(&[]), None);
        assert_eq!(end_point(&[0x30, 0x84, 0xff, 0xff, 0xff, 0xff]), None);
    }
}
