//! The search for damaged pages when a file is opened.

use crate::connection::failure::failure;
use rusqlite::{Connection, ErrorCode};
use selvedge_store::Error;
use std::time::{Duration, Instant};

/// The longest time that the search takes. A large file is opened after it, checked in part.
pub const CHECK_LIMIT: Duration = Duration::from_secs(5);
/// The number of steps of SQLite's virtual machine, or of checked pages, between two looks at the time.
const STEPS: i32 = 1000;

/// The result of a search that found no damage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Searched {
    /// The whole file was searched.
    Sound,
    /// The search was stopped at its time limit.
    Stopped,
}

/// Refuses a file with damaged pages. Gives up after `limit`.
pub fn check(connection: &mut Connection, limit: Duration) -> Result<(), Error> {
    if search(connection, limit)? == Searched::Stopped {
        let seconds = limit.as_secs();
        tracing::warn!("the file is large: the search for damaged pages was stopped after {seconds} s");
    }
    Ok(())
}

/// Searches for damaged pages, for at most `limit`. A damaged page is an error.
pub fn search(connection: &mut Connection, limit: Duration) -> Result<Searched, Error> {
    let started = Instant::now();
    connection.progress_handler(STEPS, Some(move || started.elapsed() >= limit)).map_err(failure)?;
    let found = connection.query_row("pragma quick_check(1)", (), |row| row.get::<_, String>(0));
    connection.progress_handler(0, None::<fn() -> bool>).map_err(failure)?;
    match found.map_err(|error| (error.sqlite_error_code(), error)) {
        Ok(found) if found == "ok" => Ok(Searched::Sound),
        Ok(found) => Err(damaged(&found)),
        Err((Some(ErrorCode::OperationInterrupted), _)) => Ok(Searched::Stopped),
        Err((_, error)) => Err(failure(error)),
    }
}

/// Returns the error for a damaged file.
pub fn damaged(found: &str) -> Error {
    let found = found.lines().collect::<Vec<_>>().join(" ");
    Error::Failed(format!(
        "the file is damaged ({found}); restore it from a backup, or save what is readable with sqlite3's .recover into \
         another file"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_that_takes_too_long_is_given_up() {
        let mut connection = Connection::open_in_memory().expect("an in-memory database opens");
        let rows = "
            create table numbers (number integer not null);
            insert into numbers
            with recursive all_numbers (number) as (
              select 1 union all select number + 1 from all_numbers where number < 100000
            )
            select number from all_numbers;
        ";
        connection.execute_batch(rows).expect("the rows are inserted");
        check(&mut connection, Duration::ZERO).expect("the file is accepted");
        check(&mut connection, CHECK_LIMIT).expect("the file is sound");
        let count = connection.query_row("select sum(number) from numbers", (), |row| row.get::<_, i64>(0));
        assert_eq!(count.expect("later statements are not interrupted"), 5_000_050_000);
    }
}
