//! The pages of lists, and their cursors. A cursor names the last item of a page; the next page begins after it. It holds only
//! characters that are safe in an address.

use crate::description::Description;
use crate::operation::{Parameter, PathPart};
use crate::parameters::Parameters;
use crate::schema::Schema;
use crate::shape::Shape;
use crate::{Answer, Code, Rejection};

/// The detail of the problem of a cursor that no server issued.
pub const INVALID_CURSOR: &str = "the cursor is malformed; use a cursor from an earlier reply, unchanged";

/// The page of a list that a request asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct Paging<C = NameCursor> {
    /// The most items of the page. Default: 50.
    pub limit: Option<u32>,
    /// The place after which the page begins. Default: the first page.
    pub after: Option<C>,
}

impl<C> Default for Paging<C> {
    fn default() -> Self {
        Paging { limit: None, after: None }
    }
}

impl<C> Paging<C> {
    /// Returns the most items of the page.
    pub fn limit(&self) -> u32 {
        self.limit.unwrap_or(crate::parameters::LIMIT_DEFAULT)
    }
}

/// A place in a list.
pub trait Cursor: Sized {
    /// Parses a cursor; the error is the detail of a problem.
    fn parse(text: &str) -> Result<Self, &'static str>;
    fn text(&self) -> String;
}

/// A place in a list ordered by name: the name in hexadecimal.
#[derive(Clone, Debug, PartialEq)]
pub struct NameCursor(pub String);

impl Cursor for NameCursor {
    fn parse(text: &str) -> Result<Self, &'static str> {
        let byte = |pair: &[u8]| {
            let text = std::str::from_utf8(pair).ok().filter(|text| text.len() == 2)?;
            u8::from_str_radix(text, 16).ok()
        };
        let bytes: Option<Vec<u8>> = text.as_bytes().chunks(2).map(byte).collect();
        bytes.and_then(|bytes| String::from_utf8(bytes).ok()).map(NameCursor).ok_or(INVALID_CURSOR)
    }

    fn text(&self) -> String {
        self.0.bytes().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// A place in a list of things with ids of their own, newest first: the id as text, in hexadecimal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IdCursor<T>(pub T);

impl<T: PathPart> Cursor for IdCursor<T> {
    fn parse(text: &str) -> Result<Self, &'static str> {
        let NameCursor(id) = NameCursor::parse(text)?;
        T::read(&id).map(IdCursor).map_err(|_| "the cursor is not from this list")
    }

    fn text(&self) -> String {
        NameCursor(self.0.text()).text()
    }
}

impl<C: Cursor> Parameter for Paging<C> {
    fn describe(
        description: Description,
        _name: &'static str,
        _about: &str,
        _schema: Option<Schema>,
    ) -> Description {
        description.paged()
    }

    fn take(parameters: &mut Parameters, _name: &'static str) -> Result<Self, Rejection> {
        let limit = parameters.limit()?;
        let cursor = parameters.text("cursor")?;
        let invalid = |detail: &str| Rejection::Problem(Code::InvalidCursor, detail.into());
        let after = cursor.map(|text| C::parse(&text).map_err(invalid)).transpose()?;
        Ok(Paging { limit: Some(limit), after })
    }

    fn put(&self, _name: &str, query: &mut Vec<(String, String)>) {
        query.extend(self.limit.map(|limit| ("limit".to_owned(), limit.to_string())));
        query.extend(self.after.as_ref().map(|after| ("cursor".to_owned(), after.text())));
    }
}

/// A page of a list.
#[derive(Clone, Debug, PartialEq, Answer)]
pub struct Page<T: Shape> {
    pub items: Vec<T>,
    /// The cursor of the next page; null at the end of the list.
    pub next_cursor: Option<String>,
}

impl<T: Shape> Page<T> {
    /// Returns a page of at most `limit` of these items. A further item tells that another page follows; `place` names the
    /// place of an item.
    pub fn cut<S, C: Cursor>(
        mut found: Vec<S>,
        limit: u32,
        place: impl Fn(&S) -> C,
        write: impl Fn(S) -> T,
    ) -> Page<T> {
        let more = found.len() > limit as usize;
        found.truncate(limit as usize);
        let next_cursor = found.last().filter(|_| more).map(|last| place(last).text());
        Page { items: found.into_iter().map(write).collect(), next_cursor }
    }
}
