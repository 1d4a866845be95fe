//! Defines statements and columns, and runs statements. A statement is a file `sql/<noun>/<verb>.sql`.
//!
//! A file is a template. `{fixed}`, `{flow}`, `{gate}` and the like stand for lists of columns that several statements
//! share, which the kinds define; `{waiting}`, `{flow_running}`, `{gate_budget}` and the like for the stored codes of states
//! and kinds. Codes are filled in as literals and not passed as parameters: only a literal lets the planner prove that the
//! predicate of a partial index holds.
//!
//! No statement locks rows: one thread writes, and readers see snapshots.

use crate::connection::failure::is_not_understood;
use crate::kinds::KINDS;
use crate::row;
use rusqlite::{Connection, OptionalExtension, Params, Row, ToSql, params_from_iter};
use selvedge_core::class::UNPOOLED;
use selvedge_core::execution::AGEING_MS;
use selvedge_core::flow::FlowState;
use selvedge_core::gate::GateKind;
use selvedge_core::state::StateName;
use selvedge_store::columns::COUNTED;
use selvedge_store::{COUNT_SCAN_MAX, FlowDue};
use std::sync::LazyLock;
use uuid::Uuid;

static PLACEHOLDERS: LazyLock<Vec<(String, String)>> = LazyLock::new(|| {
    let mut placeholders = Vec::new();
    let mut add = |name: &str, text: &str| placeholders.push((format!("{{{name}}}"), text.to_owned()));
    for (name, list) in KINDS.iter().flat_map(|kind| kind.columns) {
        add(name, list);
    }
    // The weight of one level of priority, in microseconds.
    add("ageing", &(AGEING_MS * 1000).to_string());
    add("counts", &COUNTED.map(|(column, _)| column).join(", "));
    add("count_scan", &COUNT_SCAN_MAX.to_string());
    add("unpooled", &UNPOOLED.to_string());
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
    for kind in GateKind::ALL {
        add(&format!("gate_{}", kind.as_str()), &kind.code().to_string());
    }
    placeholders
});

/// Replaces every placeholder of a template.
pub fn fill(template: &str) -> String {
    PLACEHOLDERS.iter().fold(template.to_owned(), |text, (name, value)| text.replace(name, value))
}

pub(crate) struct Statement {
    #[cfg(test)]
    pub constant: &'static str,
    /// The path of its file: `noun/verb`.
    pub file: &'static str,
    pub text: &'static LazyLock<String>,
}

/// Defines the statements of a file as constants, and their list `STATEMENTS`.
macro_rules! statements {
    ($($name:ident = $file:literal;)*) => {
        $(
            #[doc = concat!("`sql/", $file, ".sql`")]
            pub static $name: std::sync::LazyLock<String> = std::sync::LazyLock::new(|| {
                $crate::sql::fill(include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/sql/", $file, ".sql")))
            });
        )*

        pub static STATEMENTS: &[$crate::sql::Statement] = &[$($crate::sql::Statement {
            #[cfg(test)]
            constant: stringify!($name),
            file: $file,
            text: &$name,
        }),*];
    };
}
pub(crate) use statements;

/// Defines the columns of a row, in the order of the statements, with the values that are written: a module with
///
/// - `LIST`: the columns as statements list them;
/// - `AT`: the place of each column in that list, for reading;
/// - `COUNT`: the number of the columns, which is the place of the first one behind them;
/// - `with` and `write`: run a statement with the values of a row;
/// - `read`, if the columns are fields of a struct named with `as`: reads them; the other fields have their defaults.
macro_rules! columns {
    (
        $name:ident of $row:ident: $type:ty $(as $read:ident)?
        { $first:ident = $value:expr $(, $column:ident = $more:expr)* $(,)? }
    ) => {
        // Some rows are written by one statement only, and in some nothing follows the columns.
        #[allow(dead_code, unused_imports)]
        pub mod $name {
            use super::*;
            use rusqlite::{Connection, ToSql};

            pub const LIST: &str = concat!(stringify!($first) $(, ", ", stringify!($column))*);

            pub struct Places {
                pub $first: usize,
                $(pub $column: usize,)*
            }

            pub const COUNT: usize = [stringify!($first) $(, stringify!($column))*].len();

            #[allow(unused_assignments)]
            pub const AT: Places = {
                let mut places = Places { $first: 0, $($column: 0),* };
                let mut place = 0;
                $(
                    place += 1;
                    places.$column = place;
                )*
                places
            };

            /// Passes the values of the columns of a row to a function.
            pub fn with<T>(
                $row: $type,
                run: impl FnOnce(&[&dyn ToSql]) -> rusqlite::Result<T>,
            ) -> rusqlite::Result<T> {
                run(&[&$value $(, &$more)*])
            }

            /// Runs a statement with the columns of a row, followed by more parameters. Returns the number of changed rows.
            pub fn write(
                connection: &Connection,
                statement: &str,
                row: $type,
                more: &[&dyn ToSql],
            ) -> rusqlite::Result<u64> {
                with(row, |values| $crate::sql::execute(connection, statement, $crate::sql::joined(&[values, more])))
            }

            $crate::sql::columns!(@read $($read)?: $first $($column)*);
        }
    };
    (@read : $($column:ident)*) => {};
    (@read $read:ident: $($column:ident)*) => {
        #[allow(clippy::needless_update)]
        pub fn read(found: &rusqlite::Row<'_>, from: usize) -> rusqlite::Result<$read> {
            Ok($read { $($column: $crate::sql::Column::read(found, from + AT.$column)?,)* ..$read::default() })
        }
    };
}
pub(crate) use columns;

/// A value that is read from a column as it is.
pub trait Column: Sized {
    fn read(found: &Row<'_>, place: usize) -> rusqlite::Result<Self>;
}

macro_rules! plain_columns {
    ($($type:ty),*) => {
        $(impl Column for $type {
            fn read(found: &Row<'_>, place: usize) -> rusqlite::Result<Self> {
                found.get(place)
            }
        })*
    };
}

plain_columns!(i16, i32, i64, String, Vec<u8>, Option<i16>, Option<i64>, Option<String>, Option<Vec<u8>>);

impl Column for Uuid {
    fn read(found: &Row<'_>, place: usize) -> rusqlite::Result<Self> {
        row::uuid(found, place)
    }
}

impl Column for Option<Uuid> {
    fn read(found: &Row<'_>, place: usize) -> rusqlite::Result<Self> {
        row::optional_uuid(found, place)
    }
}

/// Every statement, by the path of its file.
pub fn texts() -> Vec<(&'static str, &'static str)> {
    all().map(|statement| (statement.file, statement.text.as_str())).collect()
}

fn all() -> impl Iterator<Item = &'static Statement> {
    let of_kinds = KINDS.iter().flat_map(|kind| kind.statements);
    of_kinds.chain(crate::clock::STATEMENTS).chain(crate::connection::schema::STATEMENTS)
}

/// Returns all rows of a statement.
pub fn rows<T>(
    connection: &Connection,
    statement: &str,
    parameters: impl Params,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    connection.prepare_cached(statement)?.query_map(parameters, read)?.collect()
}

/// Returns the first `limit` rows of a statement. Unreadable ones are left out and replaced by the next ones: they must
/// not stop the others.
pub fn readable_rows<T>(
    connection: &Connection,
    statement: &str,
    parameters: impl Params,
    limit: u32,
    read: impl Fn(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    let mut statement = connection.prepare_cached(statement)?;
    let mut found = statement.query(parameters)?;
    let mut rows = Vec::new();
    while rows.len() < limit as usize {
        let Some(row) = found.next()? else { break };
        match read(row) {
            Ok(row) => rows.push(row),
            Err(error) if is_not_understood(&error) => tracing::error!(%error, "left out of a list"),
            Err(error) => return Err(error),
        }
    }
    Ok(rows)
}

/// Returns the row of a statement, if there is one.
pub fn row<T>(
    connection: &Connection,
    statement: &str,
    parameters: impl Params,
    read: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Option<T>> {
    connection.prepare_cached(statement)?.query_row(parameters, read).optional()
}

/// Returns the parameters of these lists, one list behind the other.
pub fn joined<'a>(lists: &'a [&'a [&'a dyn ToSql]]) -> impl Params {
    params_from_iter(lists.iter().flat_map(|list| list.iter()))
}

/// Runs a statement. Returns the number of changed rows.
pub fn execute(connection: &Connection, statement: &str, parameters: impl Params) -> rusqlite::Result<u64> {
    connection.prepare_cached(statement)?.execute(parameters).map(|changed| changed as u64)
}

pub fn count(connection: &Connection, statement: &str, parameters: impl Params) -> rusqlite::Result<u64> {
    let count: i64 = connection.prepare_cached(statement)?.query_row(parameters, |found| found.get(0))?;
    Ok(count as u64)
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_statement_names_its_constant() {
        for statement in super::all() {
            assert_eq!(statement.constant.to_lowercase(), statement.file.replace('/', "_"));
        }
    }
}
