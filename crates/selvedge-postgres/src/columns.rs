//! The columns of rows. A kind lists its columns once; the select list of its statements, the types of their array
//! parameters, the reading of a row and the writing of rows are derived from that list.

use bytes::{Bytes, BytesMut};
use selvedge_core::Timestamp;
use selvedge_core::rows::Payload;
use std::error::Error as StdError;
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};
use uuid::Uuid;

/// Microseconds from the Unix epoch to 2000-01-01, the epoch of Postgres.
const POSTGRES_EPOCH_US: i64 = 946_684_800_000_000;

/// The first and the end of the times that a `timestamptz` holds beside its infinities, in microseconds since its epoch.
const POSTGRES_TIMES: std::ops::Range<i64> = -211_813_488_000_000_000..9_223_371_331_200_000_000;

/// Later than every stored time: the year 10000.
pub const END_OF_TIME: Micros = Micros(253_402_300_800_000_000);

/// A `timestamptz`, in microseconds since the Unix epoch. A time out of the range of Postgres is written as infinity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Micros(pub i64);

impl From<Timestamp> for Micros {
    fn from(time: Timestamp) -> Self {
        Micros(time.micros())
    }
}

impl ToSql for Micros {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn StdError + Sync + Send>> {
        let micros = self.0.saturating_sub(POSTGRES_EPOCH_US);
        let infinity = if micros < 0 { i64::MIN } else { i64::MAX };
        (if POSTGRES_TIMES.contains(&micros) { micros } else { infinity }).to_sql(ty, out)
    }

    accepts!(TIMESTAMPTZ);
    to_sql_checked!();
}

impl<'a> FromSql<'a> for Micros {
    fn from_sql(ty: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn StdError + Sync + Send>> {
        Ok(Micros(i64::from_sql(ty, raw)?.saturating_add(POSTGRES_EPOCH_US)))
    }

    accepts!(TIMESTAMPTZ);
}

impl Micros {
    /// Converts to core's type.
    pub fn time(self) -> Timestamp {
        Timestamp::from_micros(self.0)
    }
}

/// The SQL type of a column.
pub trait SqlType {
    const NAME: &'static str;
}

macro_rules! sql_types {
    ($($type:ty => $name:literal),*) => {
        $(impl SqlType for $type {
            const NAME: &'static str = $name;
        })*
    };
}

sql_types! {
    bool => "boolean", i16 => "smallint", i32 => "integer", i64 => "bigint", Uuid => "uuid", Micros => "timestamptz",
    &str => "text", String => "text", &[u8] => "bytea", Vec<u8> => "bytea", Vec<&str> => "text[]"
}

impl<T: SqlType> SqlType for Option<T> {
    const NAME: &'static str = T::NAME;
}

/// Lists the columns of a row in their order, for `kind::list()` (the select list), `kind::types(1)` (the array parameters of
/// a statement that takes them, from a number on), `kind::arrays(rows)` (their values) and `kind::AT` (their positions). A
/// column that is only read has no type and no value; a text is the expression that reads it.
macro_rules! columns {
    ($name:ident<$life:lifetime> of $row:ident: $of:ty { $($column:ident: $type:ty = $value:expr,)* }) => {
        #[allow(clippy::extra_unused_lifetimes, dead_code, unused_imports)]
        pub mod $name {
            use super::*;
            use $crate::columns::SqlType;

            $crate::columns::columns!(@positions $($column)*);

            const NAMES: &[&str] = &[$(stringify!($column)),*];

            pub fn types<$life>(first: usize) -> String {
                let types = [$(<$type as SqlType>::NAME),*].into_iter().zip(first..);
                types.map(|(name, number)| format!("${number}::{name}[]")).collect::<Vec<String>>().join(", ")
            }

            pub fn arrays<$life>(
                rows: impl IntoIterator<Item = $of>,
            ) -> $crate::connection::pipeline::Parameters<$life> {
                let rows = rows.into_iter();
                $(let mut $column: Vec<$type> = Vec::with_capacity(rows.size_hint().0);)*
                for $row in rows {
                    $($column.push($value);)*
                }
                vec![$(Box::new($column)),*]
            }

            /// Returns the columns of one row.
            pub fn values<$life>($row: $of) -> $crate::connection::pipeline::Parameters<$life> {
                vec![$({
                    let value: $type = $value;
                    Box::new(value)
                }),*]
            }
        }
    };
    ($name:ident { $($column:ident $(= $text:literal)?,)* }) => {
        #[allow(dead_code)]
        pub mod $name {
            $crate::columns::columns!(@positions $($column)*);

            const NAMES: &[&str] = &[$($crate::columns::columns!(@name $column $($text)?)),*];
        }
    };
    (@positions $($column:ident)*) => {
        pub struct At {
            $(pub $column: usize,)*
        }

        #[allow(non_camel_case_types)]
        enum Position {
            $($column,)*
        }

        pub const AT: At = At { $($column: Position::$column as usize,)* };

        pub const COUNT: usize = NAMES.len();

        pub fn list() -> String {
            NAMES.join(", ")
        }

        pub fn list_of(table: &str) -> String {
            NAMES.iter().map(|name| format!("{table}.{name}")).collect::<Vec<String>>().join(", ")
        }
    };
    (@name $column:ident) => {
        stringify!($column)
    };
    (@name $column:ident $text:literal) => {
        $text
    };
}
pub(crate) use columns;

/// Returns an array of values that outlive the rows.
pub fn array<R, T>(rows: &[R], value: impl Fn(&R) -> T) -> Box<dyn ToSql + Sync + Send>
where
    T: ToSql + Sync + Send + 'static,
{
    Box::new(rows.iter().map(value).collect::<Vec<T>>())
}

/// Returns an array of values that may borrow from the rows.
pub fn column<'a, R, T>(rows: &'a [R], value: impl Fn(&'a R) -> T) -> Box<dyn ToSql + Sync + Send + 'a>
where
    T: ToSql + Sync + Send + 'a,
{
    Box::new(rows.iter().map(value).collect::<Vec<T>>())
}

/// Reads a column. The error says why it is unreadable.
pub fn get<'a, T: FromSql<'a>>(row: &'a Row, index: usize) -> Result<T, String> {
    row.try_get(index).map_err(|error| error.to_string())
}

/// Reads a payload.
pub fn payload(row: &Row, index: usize) -> Bytes {
    Bytes::copy_from_slice(row.get::<_, &[u8]>(index))
}

/// Reads a payload that may be null.
pub fn some_payload(row: &Row, index: usize) -> Option<Bytes> {
    row.get::<_, Option<&[u8]>>(index).map(Bytes::copy_from_slice)
}

/// Reads the size of a payload, and behind it the payload, which is null if it is too large.
pub fn sized_payload(row: &Row, index: usize) -> Payload {
    match some_payload(row, index + 1) {
        Some(payload) => Payload::Whole(payload),
        None => Payload::Size(row.get::<_, i32>(index) as usize),
    }
}
