//! Tokens of waitpoints: the holder of a token may deliver one signal, and nothing else.
//!
//! A token is `v1.<key id>.<waitpoint>.<expiry>.<source>.<mac>`. The MAC is HMAC-SHA-256 over a domain string and the
//! namespace, execution, waitpoint, source, key id and expiry, and the number of the issue from the second on. Each field
//! is preceded by its length, so no two lists of fields give the same bytes. The signing key is derived from the root secret and the key id. Only key ids are stored,
//! so a copy of the database cannot sign tokens if the root secret is kept elsewhere.

use crate::Timestamp;
use crate::waitpoint::Waitpoint;
use crate::web_session::SessionKey;
use crate::webhook::WebhookId;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use std::fmt;

/// The shortest root secret, in bytes.
pub const SECRET_MIN: usize = 16;
/// The length of a MAC, in bytes.
const MAC_BYTES: usize = 32;
/// Domain strings: they separate the uses of the root secret.
const TOKEN: &str = "selvedge waitpoint token v1";
const TOKEN_KEY: &str = "selvedge waitpoint token key v1";
const WEBHOOK_KEY: &str = "selvedge webhook secret v1";
const SESSION_KEY: &str = "selvedge web session key v2";
const FINGERPRINT: &str = "selvedge secret fingerprint v1";

/// The root secret, from which signing keys are derived. Its `Debug` form hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// The id of a signing key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TokenKeyId(pub i64);

impl fmt::Display for TokenKeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The stored part of a signing key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenKey {
    pub id: TokenKeyId,
    /// The fingerprint of the root secret from which it is derived.
    pub fingerprint: i64,
    /// The time of its creation.
    pub created_at: Timestamp,
    /// The time at which its tokens stop being accepted; none while it signs new tokens.
    pub retires_at: Option<Timestamp>,
}

impl TokenKey {
    /// Reports whether its tokens are accepted at `now`.
    pub fn verifies(&self, now: Timestamp) -> bool {
        self.retires_at.is_none_or(|at| at > now)
    }
}

/// Adds fields to a MAC, each preceded by its length.
fn add_fields<'a>(mac: &mut Hmac<Sha256>, fields: impl IntoIterator<Item = &'a [u8]>) {
    for field in fields {
        mac.update(&(field.len() as u64).to_le_bytes());
        mac.update(field);
    }
}

fn keyed(key: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("HMAC accepts keys of any length")
}

impl Secret {
    /// Creates a secret from at least [`SECRET_MIN`] bytes. The error describes the problem.
    pub fn new(bytes: Vec<u8>) -> Result<Secret, String> {
        if bytes.len() < SECRET_MIN {
            let length = bytes.len();
            return Err(format!("has {length} bytes; at least {SECRET_MIN} random bytes are needed"));
        }
        Ok(Secret(bytes))
    }

    fn derive(&self, purpose: &str, id: &[u8]) -> [u8; 32] {
        let mut mac = keyed(&self.0);
        add_fields(&mut mac, [purpose.as_bytes(), id]);
        mac.finalize().into_bytes().into()
    }

    /// Returns a fingerprint that identifies the secret without revealing it.
    pub fn fingerprint(&self) -> i64 {
        let derived = self.derive(FINGERPRINT, &[]);
        i64::from_le_bytes(derived[..8].try_into().expect("eight bytes"))
    }

    /// Returns the secret with which a key of a webhook signs.
    pub fn webhook_secret(&self, webhook: WebhookId, key: u32) -> [u8; 32] {
        let mut id = webhook.0.as_bytes().to_vec();
        id.extend(key.to_le_bytes());
        self.derive(WEBHOOK_KEY, &id)
    }

    /// Returns the key of sessions of the web pages, which also depends on a further secret; empty for none.
    pub fn session_key(&self, more: &[u8]) -> SessionKey {
        SessionKey::new(self.derive(SESSION_KEY, more))
    }

    fn mac(&self, waitpoint: &Waitpoint) -> Hmac<Sha256> {
        let mut mac = keyed(&self.derive(TOKEN_KEY, &waitpoint.key.0.to_le_bytes()));
        let expiry = waitpoint.expires_at.map_or(0, Timestamp::micros);
        add_fields(
            &mut mac,
            [
                TOKEN.as_bytes(),
                &waitpoint.namespace.0.to_le_bytes(),
                waitpoint.execution.0.as_bytes(),
                waitpoint.id.0.as_bytes(),
                waitpoint.source.as_bytes(),
                &waitpoint.key.0.to_le_bytes(),
                &expiry.to_le_bytes(),
            ],
        );
        if waitpoint.issue > 0 {
            add_fields(&mut mac, [&waitpoint.issue.to_le_bytes()[..]]);
        }
        mac
    }

    /// Returns the token of a waitpoint.
    pub fn sign(&self, waitpoint: &Waitpoint) -> String {
        let mac = self.mac(waitpoint).finalize().into_bytes();
        render(waitpoint, &mac)
    }

    /// Reports whether this is the token of the waitpoint. Its readable fields must match the waitpoint exactly, too.
    pub fn verify(&self, waitpoint: &Waitpoint, token: &str) -> bool {
        let Some(mac) = token.rsplit('.').next().and_then(|text| URL_SAFE_NO_PAD.decode(text).ok()) else {
            return false;
        };
        // The library compares MACs in constant time. The other fields are not secret.
        self.mac(waitpoint).verify_slice(&mac).is_ok() && render(waitpoint, &mac) == token
    }
}

/// Reports whether a text has the form of a token. Only [`Secret::verify`] tells whether it is valid.
pub fn is_well_formed(token: &str) -> bool {
    let parts: Vec<&str> = token.split('.').collect();
    let [version, key, id, expiry, source, mac] = parts[..] else { return false };
    let decodes = |text: &str| URL_SAFE_NO_PAD.decode(text).ok();
    let is_hex =
        |text: &str, digits| text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    version == "v1"
        && is_hex(key, 16)
        && is_hex(id, 32)
        && expiry.parse::<i64>().is_ok()
        && decodes(source).is_some()
        && decodes(mac).is_some_and(|mac| mac.len() == MAC_BYTES)
}

fn render(waitpoint: &Waitpoint, mac: &[u8]) -> String {
    format!(
        "v1.{}.{}.{}.{}.{}",
        waitpoint.key,
        waitpoint.id.0.simple(),
        waitpoint.expires_at.map_or(0, Timestamp::micros),
        URL_SAFE_NO_PAD.encode(waitpoint.source.as_bytes()),
        URL_SAFE_NO_PAD.encode(mac)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::waitpoint::{WaitpointId, WaitpointState};
    use crate::{ExecutionId, Name, NamespaceId};
    use uuid::Uuid;

    fn secret(byte: u8) -> Secret {
        Secret::new(vec![byte; 32]).expect("is long enough")
    }

    fn waitpoint() -> Waitpoint {
        Waitpoint {
            id: WaitpointId(Uuid::from_u128(0x0190_aaaa_bbbb_cccc_dddd_eeee_ffff_0001)),
            namespace: NamespaceId(7),
            execution: ExecutionId(Uuid::from_u128(2)),
            number: 1,
            name: Name::trusted("approval"),
            source: Name::trusted("ann"),
            key: TokenKeyId(0x0a0b_0c0d),
            created_at: Timestamp::from_millis(5),
            expires_at: Some(Timestamp::from_millis(99)),
            state: WaitpointState::Open,
            signals: Some(vec![Name::trusted("approval")]),
            prompt: None,
            issue: 0,
        }
    }

    #[test]
    fn the_code_of_a_session_is_accepted_for_its_own_text_and_secrets() {
        let key = |byte, more: &str| secret(byte).session_key(more.as_bytes());
        let code = key(1, "a key").sign("a session");
        assert!(key(1, "a key").verifies("a session", &code));
        assert!(!key(1, "a key").verifies("another session", &code));
        assert!(!key(2, "a key").verifies("a session", &code) && !key(1, "").verifies("a session", &code));
        assert!(!key(1, "a key").verifies("a session", "") && !key(1, "a key").verifies("a session", "*"));
    }

    #[test]
    fn a_token_is_accepted_for_its_own_waitpoint() {
        let token = secret(1).sign(&waitpoint());
        assert!(token.starts_with("v1.000000000a0b0c0d.0190aaaabbbbccccddddeeeeffff0001.99000.YW5u."));
        assert!(secret(1).verify(&waitpoint(), &token));
    }

    #[test]
    fn every_token_is_well_formed_and_other_text_is_not() {
        for waitpoint in [waitpoint(), Waitpoint { expires_at: None, issue: 3, ..waitpoint() }] {
            let token = secret(1).sign(&waitpoint);
            assert!(is_well_formed(&token), "{token}");
            for wrong in ["", "t", "v1.....", &token[1..], &token[..token.len() - 1], &format!("{token}.")] {
                assert!(!is_well_formed(wrong), "{wrong}");
            }
        }
    }

    #[test]
    fn a_token_with_any_altered_byte_is_refused() {
        let token = secret(1).sign(&waitpoint());
        for position in 0..token.len() {
            for byte in 0x20..0x7f_u8 {
                let mut bytes = token.clone().into_bytes();
                if bytes[position] == byte {
                    continue;
                }
                bytes[position] = byte;
                let altered = String::from_utf8(bytes).expect("is text");
                assert!(!secret(1).verify(&waitpoint(), &altered), "{altered}");
            }
            let shorter = [&token[..position], &token[position + 1..]].concat();
            assert!(!secret(1).verify(&waitpoint(), &shorter), "{shorter}");
            let longer = [&token[..position], "A", &token[position..]].concat();
            assert!(!secret(1).verify(&waitpoint(), &longer), "{longer}");
        }
        assert!(!secret(1).verify(&waitpoint(), &format!("{token}A")));
        assert!(!secret(1).verify(&waitpoint(), ""));
    }

    #[test]
    fn a_token_is_refused_for_a_waitpoint_that_differs_in_one_field() {
        let token = secret(1).sign(&waitpoint());
        let others = [
            Waitpoint { namespace: NamespaceId(8), ..waitpoint() },
            Waitpoint { execution: ExecutionId(Uuid::from_u128(3)), ..waitpoint() },
            Waitpoint { id: WaitpointId(Uuid::from_u128(4)), ..waitpoint() },
            Waitpoint { source: Name::trusted("bob"), ..waitpoint() },
            Waitpoint { key: TokenKeyId(1), ..waitpoint() },
            Waitpoint { expires_at: Some(Timestamp::from_millis(100)), ..waitpoint() },
            Waitpoint { expires_at: None, ..waitpoint() },
            Waitpoint { issue: 1, ..waitpoint() },
        ];
        for other in others {
            assert!(!secret(1).verify(&other, &token), "{other:?}");
            let mac = token.rsplit('.').next().expect("has a MAC");
            let relabelled = render(&other, &URL_SAFE_NO_PAD.decode(mac).expect("is base64"));
            assert!(!secret(1).verify(&other, &relabelled), "{other:?}");
        }
    }

    #[test]
    fn a_token_of_another_secret_is_refused() {
        assert!(!secret(1).verify(&waitpoint(), &secret(2).sign(&waitpoint())));
        assert_ne!(secret(1).fingerprint(), secret(2).fingerprint());
    }

    #[test]
    fn a_secret_is_hidden_in_debug_output_and_never_short() {
        assert_eq!(format!("{:?}", secret(1)), "Secret(..)");
        assert!(Secret::new(vec![0; SECRET_MIN - 1]).is_err());
    }
}
