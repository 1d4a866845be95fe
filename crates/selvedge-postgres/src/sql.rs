//! Statements and columns. A statement is a file `sql/<noun>/<verb>.sql`; the modules that send it define it. A kind lists its
//! columns once; the select list of its statements, the types of their array parameters, the reading of a row and the writing
//! of rows are derived from that list.
//!
//! A file is a template. `{columns}`, `{flow}`, `{gate}` and the like stand for lists of columns that several
//! statements share, as their module says; `{waiting}`, `{flow_running}`, `{gate_budget}` and the like for the stored
//! codes of states and kinds. Codes are filled in as literals and not passed as parameters: only a literal lets the
//! planner prove that the predicate of a partial index holds.

use crate::{settled, store_clock};
use bytes::{Bytes, BytesMut};
use selvedge_core::Timestamp;
use selvedge_core::flow::FlowState;
use selvedge_core::gate::GateKind;
use selvedge_core::rows::Payload;
use selvedge_core::state::StateName;
use selvedge_core::webhook::DeliveryState;
use selvedge_store::FlowDue;
use std::error::Error as StdError;
use std::ops::Deref;
use std::sync::{LazyLock, OnceLock};
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};
use uuid::Uuid;

/// The placeholders that all modules share, with their texts: the time, the writers, and the codes.
static SHARED: LazyLock<Vec<(String, String)>> = LazyLock::new(|| {
    let mut placeholders = Vec::new();
    let mut add = |name: &str, text: &str| placeholders.push((format!("{{{name}}}"), text.to_owned()));
    for (name, text) in store_clock::PLACEHOLDERS.into_iter().chain(settled::PLACEHOLDERS) {
        add(name, text);
    }
    for state in StateName::ALL {
        add(state.as_str(), &state.code().to_string());
    }
    for state in FlowState::ALL {
        add(&format!("flow_{}", state.as_str()), &state.code().to_string());
    }
    for due in FlowDue::ALL {
        let name = match due {
            FlowDue::Settle => "flow_settle",
            FlowDue::Delete => "flow_delete",
        };
        add(name, &due.code().to_string());
    }
    for state in DeliveryState::ALL {
        add(&format!("delivery_{}", state.as_str()), &state.code().to_string());
    }
    for kind in GateKind::ALL {
        add(&format!("gate_{}", kind.as_str()), &kind.code().to_string());
    }
    placeholders
});

/// A statement: a file of `sql/`, whose placeholders are replaced at first use.
pub struct Statement {
    #[cfg(test)]
    pub name: &'static str,
    /// The path of the file: `noun/verb`.
    #[cfg(any(test, feature = "testing"))]
    pub path: &'static str,
    pub template: &'static str,
    /// The placeholders of the module that defines the statement, in the order in which they are replaced.
    pub placeholders: fn() -> Vec<(&'static str, String)>,
    /// The text with all placeholders replaced.
    pub text: OnceLock<String>,
}

impl Deref for Statement {
    type Target = str;

    fn deref(&self) -> &str {
        self.text.get_or_init(|| {
            let own = (self.placeholders)().into_iter();
            let own = own.map(|(name, value)| (format!("{{{name}}}"), value));
            let replace = |text: String, (name, value): &(String, String)| text.replace(name, value);
            let text = own.fold(self.template.to_owned(), |text, placeholder| replace(text, &placeholder));
            SHARED.iter().fold(text, replace)
        })
    }
}

/// Defines the statements of a module, with the placeholders that stand for its columns and limits.
macro_rules! statements {
    ($($name:ident = $path:literal;)*) => {
        $crate::sql::statements! { with {} $($name = $path;)* }
    };
    (with { $($key:ident: $value:expr,)* } $($name:ident = $path:literal;)*) => {
        fn placeholders() -> Vec<(&'static str, String)> {
            vec![$((stringify!($key), $value.to_string())),*]
        }

        $(
            #[doc = concat!("`sql/", $path, ".sql`")]
            pub static $name: $crate::sql::Statement = $crate::sql::Statement {
                #[cfg(test)]
                name: stringify!($name),
                #[cfg(any(test, feature = "testing"))]
                path: $path,
                template: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/sql/", $path, ".sql")),
                placeholders,
                text: std::sync::OnceLock::new(),
            };
        )*

        #[cfg(any(test, feature = "testing"))]
        pub static STATEMENTS: &[&$crate::sql::Statement] = &[$(&$name),*];
    };
}
pub(crate) use statements;

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
    pub fn time(self) -> Timestamp {
        Timestamp::from_micros(self.0)
    }
}

/// The value of a column as the store's structs have it: times in microseconds, everything else as it is read.
pub trait Plain<T> {
    fn plain(self) -> T;
}

impl<T> Plain<T> for T {
    fn plain(self) -> T {
        self
    }
}

impl Plain<i64> for Micros {
    fn plain(self) -> i64 {
        self.0
    }
}

impl Plain<Option<i64>> for Option<Micros> {
    fn plain(self) -> Option<i64> {
        self.map(|time| time.0)
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
/// column that is only read has no type and no value; a text is the expression that reads it. If the columns are fields of a
/// struct named with `as`, `kind::read` reads them, and the other fields have their defaults.
macro_rules! columns {
    (
        $name:ident<$life:lifetime> of $row:ident: $of:ty $(as $read:ident)?
        { $($column:ident: $type:ty = $value:expr,)* }
    ) => {
        #[allow(clippy::extra_unused_lifetimes, dead_code, unused_imports)]
        pub mod $name {
            use super::*;
            use $crate::sql::SqlType;

            $crate::sql::columns!(@positions $($column)*);

            const NAMES: &[&str] = &[$(stringify!($column)),*];

            pub fn types<$life>(first: usize) -> String {
                let types = [$(<$type as SqlType>::NAME),*].into_iter().zip(first..);
                types.map(|(name, number)| format!("${number}::{name}[]")).collect::<Vec<String>>().join(", ")
            }

            pub fn arrays<$life>(
                rows: impl IntoIterator<Item = $of>,
            ) -> $crate::connection::Parameters<$life> {
                let rows = rows.into_iter();
                $(let mut $column: Vec<$type> = Vec::with_capacity(rows.size_hint().0);)*
                for $row in rows {
                    $($column.push($value);)*
                }
                vec![$(Box::new($column)),*]
            }

            /// Returns the columns of one row.
            pub fn values<$life>($row: $of) -> $crate::connection::Parameters<$life> {
                vec![$({
                    let value: $type = $value;
                    Box::new(value)
                }),*]
            }

            $crate::sql::columns!(@read $($read)?: $($column: $type,)*);
        }
    };
    (@read : $($column:ident: $type:ty,)*) => {};
    (@read $read:ident: $($column:ident: $type:ty,)*) => {
        #[allow(clippy::needless_update)]
        pub fn read(row: &Row, from: usize) -> Result<$read, String> {
            Ok($read {
                $($column: $crate::sql::Plain::plain($crate::sql::get::<$type>(row, from + AT.$column)?),)*
                ..$read::default()
            })
        }
    };
    ($name:ident { $($column:ident $(= $text:literal)?,)* }) => {
        #[allow(dead_code)]
        pub mod $name {
            $crate::sql::columns!(@positions $($column)*);

            const NAMES: &[&str] = &[$($crate::sql::columns!(@name $column $($text)?)),*];
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

pub fn payload(row: &Row, index: usize) -> Bytes {
    Bytes::copy_from_slice(row.get::<_, &[u8]>(index))
}

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

#[cfg(test)]
mod tests {
    use crate::kinds::statements;

    #[test]
    fn every_statement_names_its_constant() {
        for statement in statements() {
            let (constant, path) = (statement.name.to_lowercase(), statement.path.replace('/', "_"));
            let verb = statement.path.rsplit('/').next().unwrap_or_default();
            assert!(path.ends_with(&constant) && constant.ends_with(verb), "{constant} of {path}");
        }
    }
}
