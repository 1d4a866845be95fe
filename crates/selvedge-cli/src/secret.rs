//! The root of the keys that the tokens of waitpoints are signed with: from the environment, from a file, or, where neither
//! is given, from the store.
//!
//! It is no flag, because everybody on a machine may see the flags of its processes, and it is never printed.

use crate::failure::Failure;
use selvedge::core::token::Secret;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The variable that holds it.
pub const VARIABLE: &str = "SELVEDGE_SECRET";
/// The variable that names its file.
pub const FILE_VARIABLE: &str = "SELVEDGE_SECRET_FILE";
/// More bytes than any secret has.
const FILE_LIMIT: u64 = 64 * 1024;
/// How to make one.
const MAKE: &str = "make one with: openssl rand -base64 32";

/// A secret, or none where the store keeps one, and where it comes from, for the log.
#[derive(Debug, PartialEq)]
pub struct Chosen {
    /// The secret.
    pub secret: Option<Secret>,
    /// In words.
    pub source: String,
}

/// The secret that the environment or this file gives.
pub async fn choose(file: Option<PathBuf>) -> Result<Chosen, Failure> {
    let variable = std::env::var_os(VARIABLE);
    // A file may be a pipe that nobody has written to yet; meanwhile a signal must get through.
    let chosen = tokio::task::spawn_blocking(move || of(variable, file.as_deref())).await;
    chosen.unwrap_or_else(|error| Err(Failure::Failed(format!("the secret was not read: {error}"))))
}

fn of(variable: Option<OsString>, file: Option<&Path>) -> Result<Chosen, Failure> {
    let (bytes, from) = match (variable, file) {
        (Some(_), Some(_)) => {
            return Err(Failure::Usage(format!(
                "{VARIABLE} and {FILE_VARIABLE} (or --secret-file) are both given; keep one of them"
            )));
        }
        (Some(text), None) => (text.into_encoded_bytes(), VARIABLE.to_owned()),
        (None, Some(path)) => (read(path)?, format!("the secret file {}", path.display())),
        (None, None) => {
            let source = format!(
                "tokens of waitpoints are signed under a secret that the store keeps; set {VARIABLE} or {FILE_VARIABLE} \
                 to keep it outside of the store"
            );
            return Ok(Chosen { secret: None, source });
        }
    };
    let secret = Secret::new(without_line_end(bytes));
    let secret = secret.map_err(|wrong| Failure::Usage(format!("{from} {wrong}; {MAKE}")))?;
    let source = format!("tokens of waitpoints are signed under the secret of {from}");
    Ok(Chosen { secret: Some(secret), source })
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let shown = path.display();
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(FILE_LIMIT + 1).read_to_end(&mut bytes));
    read.map_err(|error| {
        Failure::Failed(format!("cannot read the secret file {shown}: {error}; check --secret-file"))
    })?;
    if bytes.len() as u64 > FILE_LIMIT {
        let detail = format!("the secret file {shown} is larger than {FILE_LIMIT} bytes, so it is no secret");
        return Err(Failure::Usage(format!("{detail}; {MAKE}")));
    }
    Ok(bytes)
}

/// The bytes without the line end that editors and shells leave behind them.
fn without_line_end(mut bytes: Vec<u8>) -> Vec<u8> {
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
        Secret::new(text.into()).expect("is long enough")
    }

    #[test]
    fn a_secret_is_the_same_with_and_without_a_line_end() {
        for end in ["", "\n", "\r\n"] {
            let chosen = of(Some(format!("{TEXT}{end}").into()), None).expect("is a secret");
            assert_eq!(chosen.secret, Some(secret(TEXT)));
            assert!(chosen.source.contains(VARIABLE) && !chosen.source.contains(TEXT), "{}", chosen.source);
        }
        let chosen = of(Some(format!("{TEXT}\n\n").into()), None).expect("is a secret");
        assert_eq!(
            chosen.secret,
            Some(secret(&format!("{TEXT}\n"))),
            "one line end, and nothing of the secret"
        );
    }

    #[test]
    fn a_secret_that_is_short_or_given_twice_is_refused_and_not_shown() {
        for (variable, file) in
            [(Some("0123456789abcde\n"), None), (Some(""), None), (Some(TEXT), Some("file"))]
        {
            match of(variable.map(OsString::from), file.map(Path::new)) {
                Err(Failure::Usage(message)) => {
                    assert!(message.contains(VARIABLE) && !message.contains("abcde"), "{message}");
                }
                other => panic!("{variable:?}: {other:?}"),
            }
        }
    }

    #[test]
    fn without_one_the_store_keeps_one() {
        let chosen = of(None, None).expect("that is allowed");
        assert_eq!(chosen.secret, None);
        assert!(chosen.source.contains("the store keeps") && chosen.source.contains(FILE_VARIABLE));
    }
}
