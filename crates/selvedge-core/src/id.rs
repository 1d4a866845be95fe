//! Ids. Executions, flows and leases have UUIDs; interned things have small numbers.

use serde::{Deserialize, Serialize};
use std::fmt;
use uuid::Uuid;
use xxhash_rust::xxh3::Xxh3;

macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

uuid_id!(ExecutionId);
uuid_id!(
    /// The id of a flow. An execution that was submitted alone is a flow of its own, with the same id.
    FlowId
);
uuid_id!(
    /// The id of a lease. Random, so that even a database restored from a backup never issues the same id again.
    LeaseId
);

macro_rules! number_id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number_id!(
    /// The id of a namespace (tenant).
    NamespaceId(i32)
);
number_id!(
    /// The id of an interned claim class: (namespace, lane, kind, capability set).
    ClassId(i32)
);
number_id!(
    /// The id of a session: an (instance, time to live) pair of a namespace.
    SessionId(i64)
);

impl SessionId {
    /// Returns the id of the session of `instance` with this time to live. It is a digest of the three, so that two
    /// servers that register the same session at the same time write the same row.
    pub fn of(namespace: NamespaceId, instance: &str, ttl_ms: i64) -> Self {
        let mut hasher = Xxh3::new();
        hasher.update(&namespace.0.to_le_bytes());
        hasher.update(&ttl_ms.to_le_bytes());
        hasher.update(instance.as_bytes());
        SessionId(hasher.digest() as i64)
    }
}

impl ExecutionId {
    /// Returns the partition, 0 to 255, of the flow with this id. All members of a flow are in the flow's partition.
    pub fn partition(self) -> i16 {
        (xxhash_rust::xxh3::xxh3_64(self.0.as_bytes()) % 256) as i16
    }
}
