//! The check of the server's certificate: its root, its name, or nothing.
//!
//! A certificate that is itself among the roots is trusted as it is, as `psql` does with the certificate of a server that
//! has signed its own; its period of validity is not checked. Without any check the signature of the handshake is still verified: the connection then leads to the
//! owner of the certificate, whoever that is, and channel binding of the password stays sound.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use std::sync::Arc;

/// The name of the roots that this machine trusts.
pub const SYSTEM: &str = "system";

#[derive(Debug)]
pub struct Roots {
    store: RootCertStore,
    certificates: Vec<CertificateDer<'static>>,
}

impl Roots {
    /// Reads the roots from a file, or those of this machine if it is named `system`. The error says what to do.
    pub fn load(file: &str) -> Result<Roots, String> {
        let certificates = match file {
            SYSTEM => rustls_native_certs::load_native_certs().certs,
            file => {
                let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect);
                read.map_err(|error| {
                    format!("cannot read the root certificates in {file}: {error}; check sslrootcert")
                })?
            }
        };
        let mut store = RootCertStore::empty();
        // Machines have roots that the library cannot read; a certificate that needs one of them is refused.
        let (added, _unreadable) = store.add_parsable_certificates(certificates.iter().cloned());
        match added {
            0 => Err(format!("there is no root certificate in {file}; check sslrootcert")),
            _ => Ok(Roots { store, certificates }),
        }
    }
}

#[derive(Debug)]
pub enum Check {
    /// Any certificate is accepted.
    Nothing,
    /// The certificate has a trusted root.
    Root(Roots),
    /// The certificate has a trusted root and names the host.
    RootAndName(Roots),
}

#[derive(Debug)]
pub struct Verifier {
    pub check: Check,
    pub provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let (roots, with_name) = match &self.check {
            Check::Nothing => return Ok(ServerCertVerified::assertion()),
            Check::Root(roots) => (roots, false),
            Check::RootAndName(roots) => (roots, true),
        };
        let parsed = ParsedCertificate::try_from(certificate)?;
        if !roots.certificates.contains(certificate) {
            let algorithms = self.provider.signature_verification_algorithms.all;
            verify_server_cert_signed_by_trust_anchor(&parsed, &roots.store, intermediates, now, algorithms)?;
        }
        if with_name {
            verify_server_name(&parsed, name)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Returns advice on a handshake that failed, or nothing if there is none.
pub fn advice(error: &Error) -> Option<&'static str> {
    use CertificateError as Bad;
    let Error::InvalidCertificate(bad) = error else { return None };
    match bad {
        // The signature is wrong if a root has the name of the issuer and another key.
        Bad::UnknownIssuer | Bad::BadSignature => Some(
            "the issuer of the server's certificate is not trusted; add its root certificate to the file that sslrootcert \
             names",
        ),
        Bad::NotValidForName | Bad::NotValidForNameContext { .. } => Some(
            "the server's certificate does not name the host; connect with a name that it has (subject alternative names \
             count, the common name does not), or use sslmode=verify-ca",
        ),
        Bad::Expired | Bad::ExpiredContext { .. } | Bad::NotValidYet | Bad::NotValidYetContext { .. } => {
            Some("the server's certificate is not valid at this time; renew it, or correct the clock")
        }
        _ => None,
    }
}
