//! Identities. Ids of executions, flows and leases are UUIDs; what the engine interns has a small number.

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

uuid_id!(
    /// Names one execution.
    ExecutionId
);
uuid_id!(
    /// Names one flow; a lone execution is its own flow and lends it its id.
    FlowId
);
uuid_id!(
    /// Names one lease. Random, so that even a database restored from an older copy cannot hand out the same one again.
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
    /// An interned namespace (tenant).
    NamespaceId(i32)
);
number_id!(
    /// An interned claim class: (namespace, lane, kind, capability set).
    ClassId(i32)
);
number_id!(
    /// A session: the pair (instance, time to live) in a namespace.
    SessionId(i64)
);

impl SessionId {
    /// The id of the session of `instance` with this time to live: a digest of the three, so that two servers that
    /// register the same session at the same moment write the same row.
    pub fn of(namespace: NamespaceId, instance: &str, ttl_ms: i64) -> Self {
        let mut hasher = Xxh3::new();
        hasher.update(&namespace.0.to_le_bytes());
        hasher.update(&ttl_ms.to_le_bytes());
        hasher.update(instance.as_bytes());
        SessionId(hasher.digest() as i64)
    }
}

impl ExecutionId {
    /// The partition of a flow's rows: a flow and all its members share it.
    pub fn partition(self) -> i16 {
        (xxhash_rust::xxh3::xxh3_64(self.0.as_bytes()) % 256) as i16
    }
}
