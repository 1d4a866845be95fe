//! The SQLite store; or, in a program without the feature `sqlite`, the refusal of its addresses.
//!
//! Cargo allows one version of the SQLite library in a program. The feature lets a program leave it out, which already has
//! another one.

#[cfg(not(feature = "sqlite"))]
pub use absent::{diagnose, migrate, open, schema_version};
#[cfg(feature = "sqlite")]
pub use present::{diagnose, migrate, open, schema_version};

#[cfg(feature = "sqlite")]
mod present {
    use crate::address::OpenStore;
    use selvedge_sqlite::{SqliteStore, diagnosis};
    use selvedge_store::{Error, Finding, Migrated, SchemaVersion};
    use std::path::Path;
    use std::sync::Arc;

    pub async fn open(path: &Path) -> Result<OpenStore, Error> {
        let store = Arc::new(SqliteStore::open(path).await?);
        let served = store.clone();
        Ok(OpenStore::told_its_url(store, move |url| served.set_address(url)))
    }

    pub async fn diagnose(path: &Path) -> Vec<Finding> {
        diagnosis::diagnose(path, &Default::default()).await
    }

    pub async fn schema_version(path: &Path) -> Result<SchemaVersion, Error> {
        diagnosis::schema_version(path).await
    }

    pub async fn migrate(path: &Path) -> Result<Migrated, Error> {
        selvedge_sqlite::migrate(path).await
    }
}

#[cfg(not(feature = "sqlite"))]
mod absent {
    use crate::address::OpenStore;
    use selvedge_store::{Error, Finding, Migrated, SchemaVersion};
    use std::path::Path;

    const ABSENT: &str =
        "this program was built without the SQLite store; enable the feature sqlite of the crate selvedge";

    fn refused<T>() -> Result<T, Error> {
        Err(Error::BadAddress(ABSENT.into()))
    }

    pub async fn open(_path: &Path) -> Result<OpenStore, Error> {
        refused()
    }

    pub async fn diagnose(_path: &Path) -> Vec<Finding> {
        vec![Finding::unknown("sqlite", ABSENT)]
    }

    pub async fn schema_version(_path: &Path) -> Result<SchemaVersion, Error> {
        refused()
    }

    pub async fn migrate(_path: &Path) -> Result<Migrated, Error> {
        refused()
    }
}
