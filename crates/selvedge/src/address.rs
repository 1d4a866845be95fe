//! Where a store is: the words that name one, parsed once, and shown without passwords.

use crate::{Error, Store};
use selvedge_memory::MemoryStore;
use selvedge_postgres::PostgresStore;
use selvedge_sqlite::SqliteStore;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

/// What an address may be, for messages.
const FORMS: &str = "sqlite:PATH, postgres://USER@HOST/DATABASE or memory:";

/// The address of a store: `sqlite:PATH`, `postgres://…` (or `postgresql://…`), or `memory:`.
///
/// It is shown with the password masked:
///
/// ```
/// # use selvedge::Address;
/// let address: Address = "postgres://ada:secret@db/work".parse()?;
/// assert_eq!(address.to_string(), "postgres://ada:***@db/work");
/// # Ok::<_, selvedge::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub enum Address {
    /// In this process; nothing survives it.
    Memory,
    /// In this file, for one process at a time.
    Sqlite(PathBuf),
    /// In this database, for any number of processes.
    Postgres(String),
}

impl FromStr for Address {
    type Err = Error;

    fn from_str(text: &str) -> Result<Address, Error> {
        let scheme = text.split(':').next().unwrap_or_default();
        match (scheme, text.split_once(':').map(|(_, rest)| rest)) {
            ("memory", Some("")) => Ok(Address::Memory),
            ("memory", Some(_)) => {
                Err(bad(format!("the store in memory has no name; write memory: and not {}", masked(text))))
            }
            ("sqlite", Some(path)) => match path.strip_prefix("//").unwrap_or(path) {
                "" => Err(bad("the store's address sqlite: names no file; write sqlite:PATH".into())),
                path => Ok(Address::Sqlite(path.into())),
            },
            ("postgres" | "postgresql", Some(rest)) if rest.starts_with("//") => {
                Ok(Address::Postgres(text.into()))
            }
            ("valkey", Some(_)) => Err(bad(format!("a store in Valkey is not available yet; use {FORMS}"))),
            _ => Err(bad(format!("{:?} is not the address of a store; use {FORMS}", masked(text)))),
        }
    }
}

fn bad(detail: String) -> Error {
    selvedge_store::Error::BadAddress(detail).into()
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Memory => f.write_str("memory:"),
            Address::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            Address::Postgres(url) => f.write_str(&masked(url)),
        }
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({self})")
    }
}

/// A URL without its passwords. Where it is unclear what belongs to one, too much is masked rather than too little.
fn masked(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.into();
    };
    let rest = match (rest.find(':'), rest.rfind('@')) {
        (Some(colon), Some(at)) if colon < at => format!("{}:***{}", &rest[..colon], &rest[at..]),
        _ => rest.into(),
    };
    let parts: Vec<String> = rest
        .split_inclusive(['?', '&'])
        .map(|part| match part.split_once("password=") {
            Some((name, value)) => {
                let end = value.rfind('&').map_or("", |at| &value[at..]);
                format!("{name}password=***{end}")
            }
            None => part.into(),
        })
        .collect();
    format!("{scheme}://{}", parts.concat())
}

/// An open store.
pub struct Opened {
    store: Arc<dyn Store>,
    file: Option<Arc<SqliteStore>>,
}

impl Opened {
    /// The store.
    pub fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    /// Says at which URL this process serves the store, for the message that a second opener of the same file gets.
    pub fn served_at(&self, url: &str) {
        if let Some(file) = &self.file {
            file.set_address(url);
        }
    }
}

impl Address {
    /// Opens the store; an empty one is made ready for use.
    pub async fn open(&self) -> Result<Opened, Error> {
        let mut file = None;
        let store: Arc<dyn Store> = match self {
            Address::Memory => Arc::new(MemoryStore::new()),
            Address::Sqlite(path) => {
                let opened = Arc::new(SqliteStore::open(path).await?);
                file = Some(opened.clone());
                opened
            }
            Address::Postgres(url) => Arc::new(PostgresStore::connect(url).await?),
        };
        Ok(Opened { store, file })
    }
}

/// Opens the store at this address.
///
/// ```
/// # #[tokio::main]
/// # async fn main() -> Result<(), selvedge::Error> {
/// let store = selvedge::open("memory:").await?;
/// assert_eq!(store.describe().name, "memory");
/// # Ok(())
/// # }
/// ```
pub async fn open(address: &str) -> Result<Arc<dyn Store>, Error> {
    Ok(address.parse::<Address>()?.open().await?.store())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        text.parse::<Address>().expect_err("is refused").to_string()
    }

    #[test]
    fn every_accepted_form_is_understood() {
        let parse = |text: &str| text.parse::<Address>().expect("is accepted");
        assert_eq!(parse("memory:"), Address::Memory);
        assert_eq!(parse("sqlite:work/a.db"), Address::Sqlite("work/a.db".into()));
        assert_eq!(parse("sqlite:/tmp/a.db"), Address::Sqlite("/tmp/a.db".into()));
        assert_eq!(parse("sqlite:///tmp/a.db"), Address::Sqlite("/tmp/a.db".into()));
        assert_eq!(parse("sqlite://a.db"), Address::Sqlite("a.db".into()));
        for url in ["postgres://h/db", "postgresql://u:p@h/db"] {
            assert_eq!(parse(url), Address::Postgres(url.into()));
        }
    }

    #[test]
    fn anything_else_is_refused_with_the_accepted_forms() {
        for text in ["", "selvedge.db", "mysql://h/db", "postgres:h", "sqlite"] {
            assert!(refused(text).contains(FORMS), "{text}: {}", refused(text));
        }
        assert!(refused("valkey://h").contains("not available yet"));
        assert!(refused("sqlite:").contains("sqlite:PATH"));
        assert!(refused("memory:here").contains("memory:"));
    }

    #[test]
    fn a_password_is_never_shown() {
        let shown = |text: &str| match text.parse::<Address>() {
            Ok(address) => format!("{address} {address:?}"),
            Err(error) => error.to_string(),
        };
        for text in [
            "postgres://ada:secret@db/work",
            "postgresql://ada:sec/ret?secret@db",
            "postgres://db/work?user=ada&password=secret",
            "postgres://db/work?sslpassword=secret&x=1",
            "postgres://ada:x@db/work?user=a@b&password=secret&x=1",
            "postgres://ada:a@secret?secret@db/work",
            "valkey://:secret@db",
            "redis://ada:secret@db",
        ] {
            assert!(!shown(text).contains("secret"), "{}", shown(text));
        }
        let plain = "postgres://ada@db:5432/work?sslmode=require";
        assert_eq!(plain.parse::<Address>().expect("is accepted").to_string(), plain);
    }
}
