//! Values of the HTTP API as serde reads and writes them: times, JSON that keeps its bytes, and objects that keep their order.

use bytes::Bytes;
use selvedge_api::times;
use selvedge_core::Timestamp;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

/// Returns JSON text as a value that serde writes byte for byte. Fails if it is not JSON.
pub fn raw(json: &[u8]) -> serde_json::Result<&RawValue> {
    serde_json::from_slice(json)
}

/// Returns the bytes of a value that was read.
pub fn bytes(raw: Box<RawValue>) -> Bytes {
    Bytes::from(String::from(Box::<str>::from(raw)))
}

/// Writes a value that always serialises.
pub fn to_raw(value: &impl Serialize) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).expect("the value serialises")
}

/// Reads a time.
pub fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
    let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
    times::parse(&text).ok_or_else(|| D::Error::custom(format!("{text:?} is not a time")))
}

/// Reads a time or null.
pub fn optional_time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    let text = Option::<std::borrow::Cow<str>>::deserialize(deserializer)?;
    let parse = |text: std::borrow::Cow<'_, str>| {
        times::parse(&text).ok_or_else(|| D::Error::custom(format!("{text:?} is not a time")))
    };
    text.map(parse).transpose()
}

/// Reads a duration in milliseconds.
pub fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    u64::deserialize(deserializer).map(Duration::from_millis)
}

/// Reads a duration in milliseconds, or null.
pub fn optional_duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    Ok(Option::<u64>::deserialize(deserializer)?.map(Duration::from_millis))
}

/// Reads JSON of any kind, null included, and keeps its bytes.
pub fn any_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Bytes>, D::Error> {
    Box::<RawValue>::deserialize(deserializer).map(|raw| Some(bytes(raw)))
}

/// Reads JSON and keeps its bytes; null is none.
pub fn optional_json<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Bytes>, D::Error> {
    Ok(Option::<Box<RawValue>>::deserialize(deserializer)?.map(bytes))
}

/// An object whose entries keep their order.
#[derive(Clone, Debug)]
pub struct Entries<T>(pub Vec<(String, T)>);

impl<T> Default for Entries<T> {
    fn default() -> Self {
        Entries(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Entries<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Reader<T> {
            type Value = Entries<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries<T>, A::Error> {
                let mut entries = Vec::with_capacity(map.size_hint().unwrap_or(0));
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }
        deserializer.deserialize_map(Reader(PhantomData))
    }
}
