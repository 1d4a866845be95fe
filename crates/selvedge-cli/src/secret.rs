//! The root secret, from which the keys that sign waitpoint tokens are derived: from the environment, from a file, or else the
//! one that the store keeps, in a file beside it or in itself.
//!
//! It cannot be given as a flag, because every user of a machine can see the flags of its processes. It is never
//! printed.

use crate::failure::Failure;
use selvedge_core::token::Secret;
use selvedge_store::SecretPlace;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The environment variable with the secret itself.
pub const VARIABLE: &str = "SELVEDGE_SECRET";
/// The environment variable with the path of the secret file.
pub const FILE_VARIABLE: &str = "SELVEDGE_SECRET_FILE";
/// The largest secret file, in bytes.
const FILE_LIMIT: u64 = 64 * 1024;
/// Advice on how to create a secret.
const CREATE: &str = "create one with: openssl rand -base64 32";

/// The root secret and its source.
#[derive(Debug, PartialEq)]
pub struct ChosenSecret {
    /// The secret; none if the store keeps it.
    pub secret: Option<Secret>,
    /// A sentence for the log that names the source; none if the store keeps the secret.
    pub source: Option<String>,
}

/// Reads the secret from the environment or from `file`.
pub async fn choose(file: Option<PathBuf>) -> Result<ChosenSecret, Failure> {
    let variable = std::env::var_os(VARIABLE);
    // The file may be a pipe that has not been written to yet. Reading it must not keep signals from being handled.
    let chosen = tokio::task::spawn_blocking(move || choose_blocking(variable, file.as_deref())).await;
    chosen.unwrap_or_else(|error| Err(Failure::Failed(format!("cannot read the secret: {error}"))))
}

fn choose_blocking(variable: Option<OsString>, file: Option<&Path>) -> Result<ChosenSecret, Failure> {
    let (bytes, from) = match (variable, file) {
        (Some(_), Some(_)) => {
            return Err(Failure::Usage(format!(
                "{VARIABLE} and {FILE_VARIABLE} (or --secret-file) are both given; keep only one of them"
            )));
        }
        (Some(text), None) => (text.into_encoded_bytes(), VARIABLE.to_owned()),
        (None, Some(path)) => (
            read_file(path, "the secret file", "--secret-file")?,
            format!("the secret file {}", path.display()),
        ),
        (None, None) => return Ok(ChosenSecret { secret: None, source: None }),
    };
    let secret = Secret::new(without_line_end(bytes));
    let secret = secret.map_err(|error| Failure::Usage(format!("{from} {error}; {CREATE}")))?;
    let source = format!("waitpoint tokens are signed with the secret from {from}");
    Ok(ChosenSecret { secret: Some(secret), source: Some(source) })
}

/// Writes to the log where a secret is that was not chosen. With API keys, one in the store is a danger.
pub fn log_place(place: &SecretPlace, has_keys: bool) {
    match place {
        SecretPlace::Memory => {}
        SecretPlace::File(path) => tracing::info!(
            "waitpoint tokens are signed with the secret in {}; back it up with the store",
            path.display()
        ),
        SecretPlace::Store if has_keys => tracing::warn!(
            "the store contains the secret that signs waitpoint tokens: whoever reads a copy of it can sign them, too. Move the \
             secret out of the store; selvedge doctor --store says how"
        ),
        SecretPlace::Store => tracing::info!(
            "waitpoint tokens are signed with a secret that the store keeps; set {VARIABLE} or {FILE_VARIABLE} to keep it \
             outside the store"
        ),
    }
}

/// Reads a file with a secret. `what` and `flag` name it in errors.
pub fn read_file(path: &Path, what: &str, flag: &str) -> Result<Vec<u8>, Failure> {
    let shown = path.display();
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(FILE_LIMIT + 1).read_to_end(&mut bytes));
    read.map_err(|error| Failure::Failed(format!("cannot read {what} {shown}: {error}; check {flag}")))?;
    if bytes.len() as u64 > FILE_LIMIT {
        let detail = format!("{what} {shown} is larger than {FILE_LIMIT} bytes");
        return Err(Failure::Usage(format!("{detail}; {CREATE}")));
    }
    Ok(bytes)
}

/// Removes one line end, which editors and shells append.
pub fn without_line_end(mut bytes: Vec<u8>) -> Vec<u8> {
    if bytes.ends_with(b"\n") {
        bytes.pop();
        if bytes.ends_with(b"\r") {
            bytes.pop();
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "0123456789abcdef";

    fn secret(text: &str) -> Secret {
        Secret::new(text.into()).expect("the secret is long enough")
    }

    #[test]
    fn a_secret_is_the_same_with_and_without_a_line_end() {
        for end in ["", "\n", "\r\n"] {
            let chosen = choose_blocking(Some(format!("{TEXT}{end}").into()), None).expect("a valid secret");
            assert_eq!(chosen.secret, Some(secret(TEXT)));
            assert!(chosen.source.is_some_and(|source| source.contains(VARIABLE) && !source.contains(TEXT)));
        }
        let chosen = choose_blocking(Some(format!("{TEXT}\n\n").into()), None).expect("a valid secret");
        assert_eq!(chosen.secret, Some(secret(&format!("{TEXT}\n"))), "only one line end is removed");
    }

    #[test]
    fn a_secret_that_is_short_or_given_twice_is_refused_and_not_shown() {
        for (variable, file) in
            [(Some("0123456789abcde\n"), None), (Some(""), None), (Some(TEXT), Some("file"))]
        {
            match choose_blocking(variable.map(OsString::from), file.map(Path::new)) {
                Err(Failure::Usage(message)) => {
                    assert!(message.contains(VARIABLE) && !message.contains("abcde"), "{message}");
                }
                other => panic!("{variable:?}: {other:?}"),
            }
        }
    }

    #[test]
    fn without_a_secret_the_store_keeps_one() {
        let chosen = choose_blocking(None, None).expect("the secret is optional");
        assert_eq!(chosen, ChosenSecret { secret: None, source: None });
    }
}
