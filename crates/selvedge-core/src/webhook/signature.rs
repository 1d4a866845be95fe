//! Signatures of deliveries, by [Standard Webhooks](https://www.standardwebhooks.com).
//!
//! The signature is HMAC-SHA-256 over `id.timestamp.body`, in base64, after `v1,`. While an old secret is still valid the
//! header has one signature for each secret, separated by spaces.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The beginning of the text of a secret.
pub const SECRET_PREFIX: &str = "whsec_";

/// Returns the text of a secret, as a receiver configures it.
pub fn secret_text(secret: &[u8; 32]) -> String {
    format!("{SECRET_PREFIX}{}", STANDARD.encode(secret))
}

/// Returns the signatures of a message, one for each secret. `seconds` is the time of the attempt, since the Unix epoch.
pub fn sign(secrets: &[[u8; 32]], id: &str, seconds: i64, body: &[u8]) -> String {
    let signature = |secret: &[u8; 32]| {
        let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("HMAC accepts keys of any length");
        mac.update(format!("{id}.{seconds}.").as_bytes());
        mac.update(body);
        format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
    };
    secrets.iter().map(signature).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed by the package `standardwebhooks` of PyPI, which is independent of this code.
    #[test]
    fn signatures_are_those_of_another_implementation() {
        let one: [u8; 32] = std::array::from_fn(|index| index as u8);
        let other = [0xff; 32];
        let body = br#"{"type":"execution.completed","data":{"name":"\u00e9"}}"#;
        assert_eq!(secret_text(&one), "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=");
        let signed = sign(&[one, other], "msg_1", 1_700_000_000, body);
        assert_eq!(
            signed,
            "v1,7a4SXqL8Vzem8Byo4qUj7qD5NDb+KdC3wbeUzRXzVJ8= v1,tgp9771hQMdaKBxCG5ipphmkdNASSHstrGf3rkiBGXg="
        );
        assert_eq!(sign(&[], "msg_1", 1, body), "");
    }
}
