//! Lists of what is numbered in an execution: its signals, steps and waitpoints, oldest first. A cursor is the number of
//! the last one seen.

use crate::filter::invalid_cursor;
use crate::json;
use crate::problem::Problem;
use crate::query::Query;
use axum::response::Response;

/// Which part of such a list is asked for.
pub struct Numbered {
    /// After which number.
    pub after: u32,
    limit: u32,
}

impl Numbered {
    /// Reads `limit` and `cursor`, and nothing else.
    pub fn read(mut query: Query) -> Result<Self, Problem> {
        let limit = query.limit()?;
        let cursor = query.text("cursor")?;
        query.finish()?;
        let after = cursor.map(|cursor| cursor.parse().map_err(|_| invalid_cursor())).transpose()?;
        Ok(Numbered { after: after.unwrap_or(0), limit })
    }

    /// How many to ask the engine for: one more than the page shows, to know whether there are more.
    pub fn wanted(&self) -> u32 {
        self.limit + 1
    }

    /// The page of these.
    pub fn page<T>(
        self,
        mut items: Vec<T>,
        number: impl Fn(&T) -> u32,
        write: fn(&mut Vec<u8>, &T),
    ) -> Response {
        let more = items.len() > self.limit as usize;
        items.truncate(self.limit as usize);
        let last = items.last().filter(|_| more).map(|item| number(item).to_string());
        json::page(&items, last, write)
    }
}
