//! The key of sessions of the web pages: it authenticates the text of a session, and hides the digest of an API key in it.

use crate::api_key::KeyDigest;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt;
use uuid::Uuid;

/// Domain strings: they separate the uses of the key.
const CODE: &[u8] = b"code";
const MASK: &[u8] = b"mask";

/// A key of sessions. Its `Debug` form hides it.
#[derive(Clone)]
pub struct SessionKey([u8; 32]);

impl fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionKey(..)")
    }
}

impl SessionKey {
    pub(crate) fn new(key: [u8; 32]) -> SessionKey {
        SessionKey(key)
    }

    /// Returns the code that authenticates the text of a session.
    pub fn sign(&self, text: &str) -> String {
        URL_SAFE_NO_PAD.encode(self.mac(CODE, text.as_bytes()).finalize().into_bytes())
    }

    /// Reports whether this is the code of the text of a session, in constant time.
    pub fn verifies(&self, text: &str, code: &str) -> bool {
        let code = URL_SAFE_NO_PAD.decode(code);
        code.is_ok_and(|code| self.mac(CODE, text.as_bytes()).verify_slice(&code).is_ok())
    }

    /// Hides the digest of an API key, or shows it again. The number must be a random one for each digest that is hidden.
    pub fn mask(&self, number: Uuid, digest: KeyDigest) -> KeyDigest {
        let mask: [u8; 32] = self.mac(MASK, number.as_bytes()).finalize().into_bytes().into();
        KeyDigest(std::array::from_fn(|index| digest.0[index] ^ mask[index]))
    }

    fn mac(&self, purpose: &[u8], text: &[u8]) -> Hmac<Sha256> {
        let mut mac = Hmac::new_from_slice(&self.0).expect("HMAC accepts keys of any length");
        mac.update(purpose);
        mac.update(text);
        mac
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hidden_digest_is_shown_by_the_same_key_and_number_only() {
        let (key, other) = (SessionKey::new([1; 32]), SessionKey::new([2; 32]));
        let (number, digest) = (Uuid::from_u128(7), KeyDigest::of("a key"));
        let hidden = key.mask(number, digest);
        assert_ne!(hidden, digest);
        assert_eq!(key.mask(number, hidden), digest);
        assert_ne!(other.mask(number, hidden), digest);
        assert_ne!(key.mask(Uuid::from_u128(8), hidden), digest);
    }
}
