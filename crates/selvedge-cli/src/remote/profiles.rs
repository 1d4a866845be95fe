//! The profiles of a user: named servers with their keys, in `~/.config/selvedge/config.toml`.
//!
//! ```toml
//! profile = "production"
//!
//! [profiles.production]
//! server = "https://selvedge.example.org"
//! key = "slv_…"
//! ```

use crate::failure::Failure;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

/// The content of the file.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Profiles {
    /// The profile that is used if none is named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// The profiles by name.
    #[serde(default)]
    pub profiles: BTreeMap<String, ServerProfile>,
}

/// A named server.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ServerProfile {
    /// The address of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The API key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The namespace, for a key of several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// A PEM file with the certificates to trust.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
}

impl Profiles {
    /// Returns the path of the file: in `$XDG_CONFIG_HOME`, or in `~/.config`. None without a home directory.
    pub fn path() -> Option<PathBuf> {
        let variable =
            |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let directory = variable("XDG_CONFIG_HOME").or_else(|| Some(variable("HOME")?.join(".config")))?;
        Some(directory.join("selvedge/config.toml"))
    }

    /// Reads the file. Without one there are no profiles.
    pub fn load() -> Result<Profiles, Failure> {
        let Some(path) = Profiles::path() else { return Ok(Profiles::default()) };
        match std::fs::read_to_string(&path) {
            Ok(text) => toml::from_str(&text).map_err(|error| {
                let detail = error.message();
                Failure::Usage(format!("the profiles in {} cannot be read: {detail}", path.display()))
            }),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Profiles::default()),
            Err(error) => Err(Failure::Failed(format!("cannot read {}: {error}", path.display()))),
        }
    }

    /// Writes the file, which only its owner can read: it may contain keys. Replaces it as a whole.
    pub fn save(&self) -> Result<PathBuf, Failure> {
        let path = Profiles::path().ok_or_else(|| {
            Failure::Failed("there is no home directory; set HOME or XDG_CONFIG_HOME".into())
        })?;
        let unwritable =
            |error: std::io::Error| Failure::Failed(format!("cannot write {}: {error}", path.display()));
        let text = toml::to_string(self)
            .map_err(|error| Failure::Failed(format!("the profiles cannot be written: {error}")))?;
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory).map_err(unwritable)?;
        }
        let temporary = path.with_extension("toml.new");
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&temporary)
            .map_err(unwritable)?;
        file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(unwritable)?;
        std::fs::rename(&temporary, &path).map_err(unwritable)?;
        Ok(path)
    }

    /// Returns the profile of this name, the chosen one if there is no name, or an empty one if none is chosen.
    pub fn choose(&self, name: Option<&str>) -> Result<ServerProfile, Failure> {
        let Some(name) = name.or(self.profile.as_deref()) else { return Ok(ServerProfile::default()) };
        self.profiles.get(name).cloned().ok_or_else(|| self.unknown(name))
    }

    /// Returns the failure for a profile that does not exist.
    pub fn unknown(&self, name: &str) -> Failure {
        let known: Vec<&str> = self.profiles.keys().map(String::as_str).collect();
        let known = if known.is_empty() {
            "there are none".into()
        } else {
            format!("there are {}", known.join(", "))
        };
        Failure::Usage(format!(
            "there is no profile {name:?}: {known}; add one with `selvedge profile set {name} --server URL`"
        ))
    }
}
