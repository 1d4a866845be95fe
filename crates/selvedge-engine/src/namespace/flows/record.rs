//! The members of a flow with their kinds and histories: for views that show when something happened.

use crate::Error;
use crate::namespace::Namespace;
use selvedge_core::history::{History, HistoryLine};
use selvedge_core::log::Cursor;
use selvedge_core::past::MemberHistory;
use selvedge_core::{Execution, FlowId, Name, Timestamp};

/// The most members whose older lines, which are not in their rows, are read for one record.
const PAGED_MEMBERS_MAX: usize = 100;

/// A flow's members.
#[derive(Clone, Debug)]
pub struct FlowRecord {
    /// The members, in the order of their submission.
    pub members: Vec<FlowMember>,
    /// The number of members whose histories could not be read as a whole: they are too many, or lines are unreadable.
    pub incomplete: usize,
}

#[derive(Clone, Debug)]
pub struct FlowMember {
    pub row: Execution,
    pub kind: Name,
    /// The lines of its history, oldest first.
    pub lines: Vec<HistoryLine>,
}

impl FlowRecord {
    /// Returns the members as the past of a flow takes them.
    pub fn histories(&self) -> Vec<MemberHistory<'_>> {
        self.members.iter().map(|member| MemberHistory { row: &member.row, lines: &member.lines }).collect()
    }

    /// Returns the rows.
    pub fn rows(&self) -> Vec<Execution> {
        self.members.iter().map(|member| member.row.clone()).collect()
    }
}

impl Namespace {
    /// Returns the members of a flow with their histories. `with_pages` also reads the lines that have moved out of the rows of
    /// long-lived members; without it, these members may lack their oldest lines.
    pub async fn flow_record(&self, id: FlowId, with_pages: bool) -> Result<FlowRecord, Error> {
        let rows = match self.stored_flow(id).await? {
            Some(_) => self.members(id).await?,
            None => vec![self.same_id_execution(id).await?],
        };
        let (mut members, mut incomplete, mut paged) = (Vec::with_capacity(rows.len()), 0, 0);
        for row in rows {
            let kind = self.inner().registry.class(row.class).await?.kind;
            let mut pages = Vec::new();
            let has_pages = with_pages && row.detail.history_pages > 0;
            if has_pages && paged < PAGED_MEMBERS_MAX {
                pages = self.inner().store.history_pages(row.id).await?;
                paged += 1;
            }
            let mut is_whole = !has_pages || !pages.is_empty();
            let mut lines = Vec::new();
            for page in pages.into_iter().map(History::from_bytes).chain([row.history.clone()]) {
                let (readable, error) = page.readable_lines();
                lines.extend(readable);
                is_whole &= error.is_none();
            }
            lines.sort_by_key(|line| line.version);
            incomplete += usize::from(!is_whole);
            members.push(FlowMember { row, kind, lines });
        }
        Ok(FlowRecord { members, incomplete })
    }

    /// Returns the time of the event at a cursor of the log. A cursor that the log has dropped or does not know is refused.
    pub async fn time_of_event(&self, cursor: &str) -> Result<Timestamp, Error> {
        let (position, _) = self.resolve_start(crate::namespace::From::Cursor(cursor.to_owned())).await?;
        let before = position.cursor.entry.saturating_sub(1).max(0);
        let page = self.inner().store.log_after(before, 1).await?;
        let entry = page.entries.into_iter().next().filter(|_| position.cursor != Cursor::BEGINNING);
        let entry = entry.ok_or(Error::CursorUnknown)?;
        Ok(self.inner().tail.entries().read(entry).at)
    }
}
