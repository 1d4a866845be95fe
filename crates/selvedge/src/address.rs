//! Store addresses: parsed once, and displayed without passwords.

use crate::{Error, Store, sqlite};
use selvedge_memory::{Clock, MemoryStore};
use selvedge_postgres::diagnosis as postgres_diagnosis;
use selvedge_postgres::{PostgresStore, Settings as PostgresSettings};
use selvedge_store::{Finding, Migrated, SchemaVersion};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

/// The accepted forms of an address, for error messages.
const FORMS: &str = "sqlite:PATH, postgres://USER@HOST/DATABASE or memory:";

/// The address of a store: `sqlite:PATH`, `postgres://…` (or `postgresql://…`), or `memory:`.
///
/// `Display` and `Debug` mask the password:
///
/// ```
/// # use selvedge::Address;
/// let address: Address = "postgres://ada:secret@db/work".parse()?;
/// assert_eq!(address.to_string(), "postgres://ada:***@db/work");
/// # Ok::<_, selvedge::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub enum Address {
    /// In the memory of this process. All data is lost when the process exits.
    Memory,
    /// The SQLite file at this path. One process at a time can open it. Needs the feature `sqlite`, which is on by default.
    Sqlite(PathBuf),
    /// The PostgreSQL database at this URL, shared by any number of processes.
    Postgres(String),
}

impl FromStr for Address {
    type Err = Error;

    fn from_str(text: &str) -> Result<Address, Error> {
        let scheme = text.split(':').next().unwrap_or_default();
        match (scheme, text.split_once(':').map(|(_, rest)| rest)) {
            ("memory", Some("")) => Ok(Address::Memory),
            ("memory", Some(_)) => {
                Err(bad(format!("the memory store has no name; write memory: and not {}", masked(text))))
            }
            ("sqlite", Some(path)) => match path.strip_prefix("//").unwrap_or(path) {
                "" => Err(bad("the store address sqlite: names no file; write sqlite:PATH".into())),
                path => Ok(Address::Sqlite(path.into())),
            },
            ("postgres" | "postgresql", Some(rest)) if rest.starts_with("//") => {
                Ok(Address::Postgres(text.into()))
            }
            ("valkey", Some(_)) => Err(bad(format!("the Valkey store is not available yet; use {FORMS}"))),
            _ => Err(bad(format!("{:?} is not a store address; use {FORMS}", masked(text)))),
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

/// Masks the passwords in a URL. If the end of a password is ambiguous, masks too much rather than too little.
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

/// Tells a store the URL at which this process serves it.
type TellUrl = Box<dyn Fn(&str) + Send + Sync>;

/// An open store.
pub struct OpenStore {
    store: Arc<dyn Store>,
    tell_url: Option<TellUrl>,
}

impl OpenStore {
    fn new(store: Arc<dyn Store>) -> OpenStore {
        OpenStore { store, tell_url: None }
    }

    /// Returns a store that is told the URL at which this process serves it.
    #[cfg(feature = "sqlite")]
    pub(crate) fn told_its_url(
        store: Arc<dyn Store>,
        tell_url: impl Fn(&str) + Send + Sync + 'static,
    ) -> OpenStore {
        OpenStore { store, tell_url: Some(Box::new(tell_url)) }
    }

    /// Returns the store.
    pub fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    /// Sets the URL at which this process serves the store. A second process that tries to open the same SQLite file
    /// gets an error that names this URL.
    pub fn served_at(&self, url: &str) {
        if let Some(tell_url) = &self.tell_url {
            tell_url(url);
        }
    }
}

impl Address {
    /// Opens the store, and creates its schema if the store is empty.
    pub async fn open(&self) -> Result<OpenStore, Error> {
        self.open_with(PostgresSettings::default()).await
    }

    /// Opens a store in memory whose clock moves only when it is advanced, for tests.
    pub fn open_with_manual_clock(&self) -> Result<OpenStore, Error> {
        let Address::Memory = self else {
            return Err(bad("a manual clock needs the store memory:".into()));
        };
        let store = Arc::new(MemoryStore::with_clock(Clock::manual(Clock::system().now())));
        Ok(OpenStore::new(store))
    }

    /// Opens the store, with other settings if it is on Postgres.
    pub async fn open_with(&self, postgres: PostgresSettings) -> Result<OpenStore, Error> {
        Ok(match self {
            Address::Memory => OpenStore::new(Arc::new(MemoryStore::new())),
            Address::Sqlite(path) => sqlite::open(path).await?,
            Address::Postgres(url) => {
                OpenStore::new(Arc::new(PostgresStore::connect_with(url, postgres).await?))
            }
        })
    }
}

impl Address {
    /// Examines the store from outside, without opening it as a server does: reads only, and works beside running servers.
    pub async fn diagnose(&self) -> Vec<Finding> {
        match self {
            Address::Memory => {
                vec![Finding::ok("memory", "the store lives in the memory of its server, and nowhere else")]
            }
            Address::Sqlite(path) => sqlite::diagnose(path).await,
            Address::Postgres(url) => {
                postgres_diagnosis::diagnose(url, &PostgresSettings::default(), &Default::default()).await
            }
        }
    }

    /// Returns the version of the store's schema. Changes nothing.
    pub async fn schema_version(&self) -> Result<SchemaVersion, Error> {
        Ok(match self {
            Address::Memory => return Err(bad(NO_SCHEMA.into())),
            Address::Sqlite(path) => sqlite::schema_version(path).await?,
            Address::Postgres(url) => {
                postgres_diagnosis::schema_version(url, &PostgresSettings::default()).await?
            }
        })
    }

    /// Runs the migrations that the store's schema lacks, as opening it does.
    pub async fn migrate(&self) -> Result<Migrated, Error> {
        Ok(match self {
            Address::Memory => return Err(bad(NO_SCHEMA.into())),
            Address::Sqlite(path) => sqlite::migrate(path).await?,
            Address::Postgres(url) => selvedge_postgres::migrate(url, &PostgresSettings::default()).await?,
        })
    }
}

/// The refusal of a schema in memory.
const NO_SCHEMA: &str = "the memory store has no schema; name a store with --store or SELVEDGE_STORE";

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

    fn parse_error(text: &str) -> String {
        text.parse::<Address>().expect_err("the address is refused").to_string()
    }

    #[test]
    fn every_accepted_form_is_parsed() {
        let parse = |text: &str| text.parse::<Address>().expect("the address is accepted");
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
    fn any_other_address_is_refused_with_the_accepted_forms() {
        for text in ["", "selvedge.db", "mysql://h/db", "postgres:h", "sqlite"] {
            assert!(parse_error(text).contains(FORMS), "{text}: {}", parse_error(text));
        }
        assert!(parse_error("valkey://h").contains("not available yet"));
        assert!(parse_error("sqlite:").contains("sqlite:PATH"));
        assert!(parse_error("memory:here").contains("memory:"));
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
        assert_eq!(plain.parse::<Address>().expect("the address is accepted").to_string(), plain);
    }
}
