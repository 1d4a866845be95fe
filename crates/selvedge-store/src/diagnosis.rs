//! The result of examining a store from outside: findings, and the version of its schema.
//!
//! A store crate examines its store without opening it as a server does: it reads only, waits for no lock, and works beside
//! running servers. Whatever cannot be examined becomes a finding, never an error.

use std::fmt;

/// The importance of a finding, from harmless to serious.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Nothing to do.
    Ok,
    /// Worth knowing.
    Notice,
    /// Likely to cause trouble: plan a remedy.
    Warning,
    /// Work is lost, refused or stuck: act.
    Error,
}

impl Level {
    /// Returns the word for the level.
    pub fn as_str(self) -> &'static str {
        match self {
            Level::Ok => "ok",
            Level::Notice => "notice",
            Level::Warning => "warning",
            Level::Error => "error",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The stable name of the check, such as `schema`.
    pub check: &'static str,
    pub level: Level,
    /// The state that the check found, as a sentence without a full stop.
    pub message: String,
    /// A command or a setting that helps. None if there is nothing to do.
    pub remedy: Option<String>,
}

impl Finding {
    /// Returns a finding without a remedy: all is well.
    pub fn ok(check: &'static str, message: impl Into<String>) -> Finding {
        Finding { check, level: Level::Ok, message: message.into(), remedy: None }
    }

    /// Returns a finding with a remedy.
    pub fn new(
        check: &'static str,
        level: Level,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Finding {
        Finding { check, level, message: message.into(), remedy: Some(remedy.into()) }
    }

    /// Returns the finding about the root secret, given whether the store contains it, and whether it has API keys.
    pub fn secret(is_in_store: bool, has_api_keys: bool) -> Finding {
        if !is_in_store {
            return Finding::ok("secret", "the store does not contain the root secret of tokens");
        }
        let level = if has_api_keys { Level::Warning } else { Level::Notice };
        let message = "the store contains the root secret: whoever reads a copy of it can sign tokens of waitpoints and webhooks";
        let remedy = "move the secret to a file and name it with SELVEDGE_SECRET_FILE; docs/operating.md, \"The root secret\", has \
                      the commands";
        Finding::new("secret", level, message, remedy)
    }

    /// Returns the finding of a check that failed itself.
    pub fn unknown(check: &'static str, error: impl fmt::Display) -> Finding {
        let message = format!("this could not be checked: {error}");
        Finding { check, level: Level::Notice, message, remedy: None }
    }
}

/// The version of a schema, against the versions that this program knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchemaVersion {
    /// The version of the store's schema; 0 if there is none.
    pub found: i32,
    /// The oldest program that can use the schema, named by the newest version that it knows.
    pub minimum_reader: i32,
    /// The newest version that this program knows.
    pub known: i32,
}

impl SchemaVersion {
    /// Reports whether migrations of this program have not run yet.
    pub fn needs_migration(self) -> bool {
        self.found < self.known
    }

    /// Reports whether this program is too old for the schema.
    pub fn is_too_new(self) -> bool {
        self.minimum_reader > self.known
    }

    /// Returns the finding about the schema.
    pub fn finding(self) -> Finding {
        let SchemaVersion { found, minimum_reader, known } = self;
        if self.is_too_new() {
            let message = format!(
                "the schema has version {found} and needs a program that knows {minimum_reader}; this one knows {known}"
            );
            return Finding::new("schema", Level::Error, message, "upgrade this program");
        }
        if self.needs_migration() {
            let state = match found {
                0 => "the store has no schema".to_owned(),
                found => format!("the schema has version {found}"),
            };
            let message = format!("{state}; this program brings it to {known}");
            return Finding::new(
                "schema",
                Level::Warning,
                message,
                "run selvedge migrate, or start a server of this version",
            );
        }
        if found > known {
            let message = format!("the schema has version {found}, which is newer than {known} but readable");
            return Finding::new("schema", Level::Notice, message, "upgrade this program when convenient");
        }
        Finding::ok("schema", format!("the schema has version {found}, the newest that this program knows"))
    }
}

/// The versions before and after a migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Migrated {
    /// The version before; 0 if there was no schema.
    pub from: i32,
    /// The version after.
    pub to: i32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_level_of_a_schema_follows_from_its_version() {
        let level = |found, minimum_reader| SchemaVersion { found, minimum_reader, known: 5 }.finding().level;
        assert_eq!(level(0, 0), Level::Warning);
        assert_eq!(level(4, 2), Level::Warning);
        assert_eq!(level(5, 2), Level::Ok);
        assert_eq!(level(6, 5), Level::Notice);
        assert_eq!(level(7, 6), Level::Error);
    }
}
