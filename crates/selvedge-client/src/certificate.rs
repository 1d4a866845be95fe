//! The reasons why the certificate of a server is not accepted, and why no connection is made, for people.

use rustls::CertificateError as Bad;
use std::error::Error;
use std::fmt;
use std::io;

/// The reason why the certificate of a server is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CertificateFault {
    /// Its issuer is not among the trusted certificates: trust it, with `ca_file`.
    UnknownIssuer,
    /// It belongs to a certificate authority, and no server may use such a certificate: make one for the server.
    IsAuthority,
    /// Its time is over: renew it.
    Expired,
    /// Its time has not begun: correct the clock.
    NotYetValid,
    /// It does not name the host of the address: use a name that it has.
    WrongName,
    /// It was revoked by its issuer: replace it.
    Revoked,
    /// It cannot be read, or may not be used by a server: replace it.
    Unusable,
}

impl fmt::Display for CertificateFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CertificateFault::UnknownIssuer => "was issued by an authority that is not trusted here",
            CertificateFault::IsAuthority => {
                "is that of a certificate authority, which no server may use as its own"
            }
            CertificateFault::Expired => "has expired",
            CertificateFault::NotYetValid => "is not valid yet",
            CertificateFault::WrongName => "does not name the host of this address",
            CertificateFault::Revoked => "was revoked",
            CertificateFault::Unusable => "cannot be used",
        })
    }
}

impl CertificateFault {
    fn of(error: &Bad) -> CertificateFault {
        match error {
            // The signature is wrong if a trusted certificate has the name of the issuer and another key, and cannot be checked if
            // that is of another kind.
            Bad::UnknownIssuer
            | Bad::BadSignature
            | Bad::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => CertificateFault::UnknownIssuer,
            Bad::Expired | Bad::ExpiredContext { .. } => CertificateFault::Expired,
            Bad::NotValidYet | Bad::NotValidYetContext { .. } => CertificateFault::NotYetValid,
            Bad::NotValidForName | Bad::NotValidForNameContext { .. } => CertificateFault::WrongName,
            Bad::Revoked => CertificateFault::Revoked,
            Bad::Other(other) if is_authority(other) => CertificateFault::IsAuthority,
            _ => CertificateFault::Unusable,
        }
    }
}

/// Reports whether a certificate was refused because it belongs to an authority.
fn is_authority(error: &rustls::OtherError) -> bool {
    matches!(error.0.downcast_ref::<webpki::Error>(), Some(webpki::Error::CaUsedAsEndEntity))
}

/// The reason why no connection was made.
pub enum NoConnection {
    /// The certificate of the server is not accepted.
    Certificate(CertificateFault),
    /// Another reason, for people.
    Other(String),
}

impl NoConnection {
    /// Returns the reason in an error and its sources.
    pub fn of(error: &(dyn Error + 'static)) -> NoConnection {
        let mut innermost = error;
        loop {
            if let Some(tls) = innermost.downcast_ref::<rustls::Error>() {
                return NoConnection::of_tls(tls);
            }
            let io = innermost.downcast_ref::<io::Error>();
            if io.is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused) {
                return NoConnection::Other("the connection was refused".into());
            }
            // The source of an I/O error skips the error that it wraps.
            let wrapped =
                io.and_then(|error| error.get_ref()).map(|wrapped| wrapped as &(dyn Error + 'static));
            match wrapped.or_else(|| innermost.source()) {
                Some(further) => innermost = further,
                None => return NoConnection::Other(innermost.to_string()),
            }
        }
    }

    fn of_tls(error: &rustls::Error) -> NoConnection {
        match error {
            rustls::Error::InvalidCertificate(bad) => NoConnection::Certificate(CertificateFault::of(bad)),
            rustls::Error::InvalidMessage(_) => {
                NoConnection::Other("it does not speak TLS; its address may begin with http://".into())
            }
            other => NoConnection::Other(other.to_string()),
        }
    }
}
