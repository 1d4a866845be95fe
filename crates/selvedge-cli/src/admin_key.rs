//! The administrator's key, which turns API keys on: from the environment or from a file.
//!
//! It cannot be given as a flag, because every user of a machine can see the flags of its processes. It is never printed.

use crate::failure::Failure;
use crate::secret::{read_file, without_line_end};
use selvedge_server::AdminKey;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The environment variable with the key itself.
pub const VARIABLE: &str = "SELVEDGE_ADMIN_KEY";
/// The environment variable with the path of the key's file.
pub const FILE_VARIABLE: &str = "SELVEDGE_ADMIN_KEY_FILE";

/// Reads the key from the environment or from `file`. None if neither is given.
pub async fn choose(file: Option<PathBuf>) -> Result<Option<AdminKey>, Failure> {
    let variable = std::env::var_os(VARIABLE);
    // The file may be a pipe that has not been written to yet. Reading it must not keep signals from being handled.
    let chosen = tokio::task::spawn_blocking(move || choose_blocking(variable, file.as_deref())).await;
    chosen
        .unwrap_or_else(|error| Err(Failure::Failed(format!("cannot read the administrator's key: {error}"))))
}

fn choose_blocking(variable: Option<OsString>, file: Option<&Path>) -> Result<Option<AdminKey>, Failure> {
    let (bytes, from) = match (variable, file) {
        (Some(_), Some(_)) => {
            return Err(Failure::Usage(format!(
                "{VARIABLE} and {FILE_VARIABLE} (or --admin-key-file) are both given; keep only one of them"
            )));
        }
        (Some(text), None) => (text.into_encoded_bytes(), VARIABLE.to_owned()),
        (None, Some(path)) => {
            let bytes = read_file(path, "the file of the administrator's key", "--admin-key-file")?;
            (bytes, format!("the administrator's key in {}", path.display()))
        }
        (None, None) => return Ok(None),
    };
    let text = String::from_utf8(without_line_end(bytes));
    let key = text.map_err(|_| "is not text".to_owned()).and_then(|text| AdminKey::new(&text));
    let create = "create one with: openssl rand -hex 32";
    key.map(Some).map_err(|error| Failure::Usage(format!("{from} {error}; {create}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_is_short_or_given_twice_is_refused_and_not_shown() {
        let text = "0123456789abcdef";
        assert!(choose_blocking(None, None).expect("the key is optional").is_none());
        assert!(choose_blocking(Some(format!("{text}\n").into()), None).expect("a valid key").is_some());
        for (variable, file) in
            [(Some("0123456789abcde\n"), None), (Some(""), None), (Some(text), Some("file"))]
        {
            match choose_blocking(variable.map(OsString::from), file.map(Path::new)) {
                Err(Failure::Usage(message)) => {
                    assert!(message.contains(VARIABLE) && !message.contains("abcde"), "{message}");
                }
                other => panic!("{variable:?}: {other:?}"),
            }
        }
    }
}
