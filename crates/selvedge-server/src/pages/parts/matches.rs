//! The executions that match the filter of a page, and their number, at a bounded cost.

use super::{COUNT_MAX, empty};
use maud::{Markup, html};
use selvedge_core::filter::{Filter, ListPosition, Payloads};
use selvedge_engine::{Error, Namespace, View};
use std::time::{Duration, Instant};

/// The time for which a page without a match searches on.
const SEARCH: Duration = Duration::from_millis(10);

/// Returns a page of executions and the place to continue from. A list ends its page early where no index serves the filter; while
/// the page is empty, searches on for a short time.
pub async fn search(
    namespace: &Namespace,
    filter: &Filter,
    after: Option<ListPosition>,
    limit: u32,
) -> Result<(Vec<View>, Option<ListPosition>), Error> {
    let begun = Instant::now();
    let (mut views, mut next) = namespace.list(filter, after, limit, Payloads::NONE).await?;
    while views.is_empty() && next.is_some() && begun.elapsed() < SEARCH {
        (views, next) = namespace.list(filter, next, limit, Payloads::NONE).await?;
    }
    Ok((views, next))
}

/// Says that the search found nothing so far, and where it continues.
pub fn nothing_so_far(next: &str) -> Markup {
    empty(
        "No match among the newest executions",
        html! {
            p { "Many executions were submitted after those that match, if any do. Search on, or narrow the time of submission." }
            a.button href=(next) { "Search older ones" }
        },
    )
}

/// A count that may stop early.
pub struct Matches {
    pub count: u64,
    /// True if there may be more.
    pub may_be_more: bool,
}

impl Matches {
    /// Counts the executions that match, up to [`COUNT_MAX`]. Where no index serves the whole filter, a count could read every
    /// execution of the namespace: then the number is that of the page, which shows `shown` and has other pages beside it or not. The same where the page has none yet.
    pub async fn count(
        namespace: &Namespace,
        filter: &Filter,
        shown: usize,
        has_other_pages: bool,
    ) -> Result<Matches, Error> {
        let count = match has_other_pages {
            false => shown as u64,
            true if shown > 0 && is_served(filter) => namespace.count(filter, COUNT_MAX).await?,
            true => return Ok(Matches { count: shown as u64, may_be_more: true }),
        };
        Ok(Matches { count, may_be_more: count >= COUNT_MAX })
    }
}

/// Reports whether an index has the only condition, beside a range of times.
fn is_served(filter: &Filter) -> bool {
    let conditions =
        [filter.classes.is_some(), !filter.states.is_empty(), !filter.tags.is_empty(), filter.flow.is_some()];
    filter.is_indexed() && conditions.into_iter().filter(|given| *given).count() <= 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use selvedge_core::state::StateName;
    use selvedge_core::{ClassId, NamespaceId};

    #[test]
    fn a_count_needs_an_index_for_the_whole_filter() {
        let all = Filter::all(NamespaceId(1));
        let failed = Filter { states: vec![StateName::Failed], ..all.clone() };
        let of_lane = Filter { classes: Some(vec![ClassId(1)]), ..all.clone() };
        let both = Filter { classes: Some(vec![ClassId(1)]), ..failed.clone() };
        let of_worker = Filter { error: Some("x".into()), ..all.clone() };
        let served = [&all, &failed, &of_lane, &both, &of_worker].map(is_served);
        assert_eq!(served, [true, true, true, false, false]);
    }
}
