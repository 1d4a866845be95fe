//! Tokens of waitpoints: an outside party that has one may deliver one signal, and nothing else.
//!
//! A token is `v1.<key id>.<waitpoint>.<expiry>.<source>.<mac>`. The code at its end is HMAC-SHA-256 over a domain and the
//! namespace, execution, waitpoint, source, key id and expiry, each with its length before it, so that no two lists of
//! fields give the same bytes. The key of a token is derived from the root secret with its key id. Only key ids are stored,
//! so a copy of the database signs nothing where the root secret is kept outside of it.

use crate::Timestamp;
use crate::waitpoint::Waitpoint;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use std::fmt;

/// The shortest root secret, in bytes.
pub const SECRET_MIN: usize = 16;
/// What the codes of tokens are made for; the domain keeps them apart from all others.
const TOKEN: &str = "selvedge waitpoint token v1";
const TOKEN_KEY: &str = "selvedge waitpoint token key v1";
const FINGERPRINT: &str = "selvedge secret fingerprint v1";

/// The root secret, from which the keys of tokens are derived. Never shown, not even by `{:?}`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Names a key that tokens are signed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TokenKeyId(pub i64);

impl fmt::Display for TokenKeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A key that tokens are signed with: what is stored of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenKey {
    /// Its id.
    pub id: TokenKeyId,
    /// Which root secret it is derived from.
    pub fingerprint: i64,
    /// Since when.
    pub created_at: Timestamp,
    /// When its tokens stop being accepted; none while it signs.
    pub retires_at: Option<Timestamp>,
}

impl TokenKey {
    /// Whether tokens that are signed with it are accepted at `now`.
    pub fn verifies(&self, now: Timestamp) -> bool {
        self.retires_at.is_none_or(|at| at > now)
    }
}

/// Adds fields to a code, each with its length before it.
fn fields<'a>(mac: &mut Hmac<Sha256>, fields: impl IntoIterator<Item = &'a [u8]>) {
    for field in fields {
        mac.update(&(field.len() as u64).to_le_bytes());
        mac.update(field);
    }
}

fn keyed(key: &[u8]) -> Hmac<Sha256> {
    Hmac::new_from_slice(key).expect("a key of any length is a key")
}

impl Secret {
    /// A secret of these bytes; says what is wrong with them.
    pub fn new(bytes: Vec<u8>) -> Result<Secret, String> {
        if bytes.len() < SECRET_MIN {
            let length = bytes.len();
            return Err(format!("is {length} bytes long; at least {SECRET_MIN} random bytes are needed"));
        }
        Ok(Secret(bytes))
    }

    fn derive(&self, purpose: &str, id: &[u8]) -> [u8; 32] {
        let mut mac = keyed(&self.0);
        fields(&mut mac, [purpose.as_bytes(), id]);
        mac.finalize().into_bytes().into()
    }

    /// By what a secret is known without being shown.
    pub fn fingerprint(&self) -> i64 {
        let derived = self.derive(FINGERPRINT, &[]);
        i64::from_le_bytes(derived[..8].try_into().unwrap_or_default())
    }

    fn code(&self, waitpoint: &Waitpoint) -> Hmac<Sha256> {
        let mut mac = keyed(&self.derive(TOKEN_KEY, &waitpoint.key.0.to_le_bytes()));
        let expiry = waitpoint.expires_at.map_or(0, Timestamp::micros);
        fields(
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
        mac
    }

    /// The token of a waitpoint.
    pub fn sign(&self, waitpoint: &Waitpoint) -> String {
        let code = self.code(waitpoint).finalize().into_bytes();
        render(waitpoint, &code)
    }

    /// Whether this is the token of a waitpoint. What it says of itself must be what the waitpoint is, to the letter.
    pub fn verify(&self, waitpoint: &Waitpoint, token: &str) -> bool {
        let Some(code) = token.rsplit('.').next().and_then(|text| URL_SAFE_NO_PAD.decode(text).ok()) else {
            return false;
        };
        // Compared in constant time by the library; the text around the code is no secret.
        self.code(waitpoint).verify_slice(&code).is_ok() && render(waitpoint, &code) == token
    }
}

fn render(waitpoint: &Waitpoint, code: &[u8]) -> String {
    format!(
        "v1.{}.{}.{}.{}.{}",
        waitpoint.key,
        waitpoint.id.0.simple(),
        waitpoint.expires_at.map_or(0, Timestamp::micros),
        URL_SAFE_NO_PAD.encode(waitpoint.source.as_bytes()),
        URL_SAFE_NO_PAD.encode(code)
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
        }
    }

    #[test]
    fn a_token_is_accepted_for_its_own_waitpoint() {
        let token = secret(1).sign(&waitpoint());
        assert!(token.starts_with("v1.000000000a0b0c0d.0190aaaabbbbccccddddeeeeffff0001.99000.YW5u."));
        assert!(secret(1).verify(&waitpoint(), &token));
    }

    #[test]
    fn a_token_that_is_altered_in_any_byte_is_refused() {
        let token = secret(1).sign(&waitpoint());
        for place in 0..token.len() {
            for byte in 0x20..0x7f_u8 {
                let mut bytes = token.clone().into_bytes();
                if bytes[place] == byte {
                    continue;
                }
                bytes[place] = byte;
                let altered = String::from_utf8(bytes).expect("is text");
                assert!(!secret(1).verify(&waitpoint(), &altered), "{altered}");
            }
            let shorter = [&token[..place], &token[place + 1..]].concat();
            assert!(!secret(1).verify(&waitpoint(), &shorter), "{shorter}");
            let longer = [&token[..place], "A", &token[place..]].concat();
            assert!(!secret(1).verify(&waitpoint(), &longer), "{longer}");
        }
        assert!(!secret(1).verify(&waitpoint(), &format!("{token}A")));
        assert!(!secret(1).verify(&waitpoint(), ""));
    }

    #[test]
    fn a_token_is_refused_where_one_of_its_fields_is_another() {
        let token = secret(1).sign(&waitpoint());
        let others = [
            Waitpoint { namespace: NamespaceId(8), ..waitpoint() },
            Waitpoint { execution: ExecutionId(Uuid::from_u128(3)), ..waitpoint() },
            Waitpoint { id: WaitpointId(Uuid::from_u128(4)), ..waitpoint() },
            Waitpoint { source: Name::trusted("bob"), ..waitpoint() },
            Waitpoint { key: TokenKeyId(1), ..waitpoint() },
            Waitpoint { expires_at: Some(Timestamp::from_millis(100)), ..waitpoint() },
            Waitpoint { expires_at: None, ..waitpoint() },
        ];
        for other in others {
            assert!(!secret(1).verify(&other, &token), "{other:?}");
            let code = token.rsplit('.').next().expect("has a code");
            let relabelled = render(&other, &URL_SAFE_NO_PAD.decode(code).expect("is base64"));
            assert!(!secret(1).verify(&other, &relabelled), "{other:?}");
        }
    }

    #[test]
    fn a_token_of_another_secret_is_refused() {
        assert!(!secret(1).verify(&waitpoint(), &secret(2).sign(&waitpoint())));
        assert_ne!(secret(1).fingerprint(), secret(2).fingerprint());
    }

    #[test]
    fn a_secret_is_never_shown_and_never_short() {
        assert_eq!(format!("{:?}", secret(1)), "Secret(..)");
        assert!(Secret::new(vec![0; SECRET_MIN - 1]).is_err());
    }
}
