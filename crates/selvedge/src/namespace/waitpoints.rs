//! Waitpoints: list them, and answer them as an operator.

use super::operations::{AnsweredItem, signal_body};
use super::{Connected, Namespace, actor};
use crate::waitpoints::{WaitpointFilter, WaitpointView};
use crate::{Delivered, Error, ExecutionId, Page, Signal, WaitpointId};
use selvedge_core::Name;
use selvedge_core::filter::ListPosition;
use selvedge_core::name::NAME_LIMIT;
use selvedge_core::waitpoint::WaitpointPosition;
use selvedge_engine::request::cursors;

impl Namespace {
    /// Returns a page of at most `limit` waitpoints (up to 500), newest first. `cursor` is the `next_cursor` of the page before.
    pub async fn waitpoints(
        &self,
        filter: &WaitpointFilter,
        cursor: Option<&str>,
        limit: u32,
    ) -> Result<Page<WaitpointView>, Error> {
        let WaitpointFilter { state, source, execution } = filter;
        match &self.connected {
            Connected::Embedded(namespace) => {
                let source = source.as_deref().map(|source| Name::parse("/source", source, NAME_LIMIT));
                let wanted = selvedge_core::waitpoint::WaitpointFilter {
                    namespace: namespace.id(),
                    state: *state,
                    source: source.transpose()?,
                };
                let after = cursor.map(cursors::parse_cursor).transpose()?;
                let after = after.map(|place| WaitpointPosition {
                    created_at: place.submitted_at,
                    id: WaitpointId(place.id.0),
                });
                let (found, next) = namespace.list_waitpoints(&wanted, *execution, after, limit).await?;
                let next = next.map(|place| ListPosition {
                    submitted_at: place.created_at,
                    id: ExecutionId(place.id.0),
                });
                Ok(Page {
                    items: found.into_iter().map(WaitpointView::from).collect(),
                    next_cursor: next.map(cursors::format_cursor),
                })
            }
            Connected::Remote(client) => {
                let request = client
                    .get(&["waitpoints"])
                    .query("limit", limit)
                    .query_optional("cursor", cursor)
                    .query_optional("state", state.map(|state| state.as_str()))
                    .query_optional("source", source.as_ref())
                    .query_optional("execution", *execution);
                Ok(request.send().await?.json()?)
            }
        }
    }

    /// Answers a waitpoint as an operator, without its token. The signal has the source of the waitpoint.
    ///
    /// ```
    /// # use selvedge::{Error, Namespace, Signal};
    /// use selvedge::waitpoints::{WaitpointFilter, WaitpointState};
    ///
    /// async fn agree_to_all(namespace: &Namespace) -> Result<(), Error> {
    ///     let open = WaitpointFilter { state: Some(WaitpointState::Open), ..WaitpointFilter::default() };
    ///     for waitpoint in namespace.waitpoints(&open, None, 100).await?.items {
    ///         namespace.answer(waitpoint.id, Signal::for_waitpoint()).await?;
    ///     }
    ///     Ok(())
    /// }
    /// ```
    pub async fn answer(&self, waitpoint: WaitpointId, signal: Signal) -> Result<Delivered, Error> {
        let (draft, _) = signal.into_parts();
        match &self.connected {
            Connected::Embedded(namespace) => {
                Ok(namespace.answer_waitpoint(waitpoint, draft, &actor()).await?.into())
            }
            Connected::Remote(client) => {
                let path = ["waitpoints", &waitpoint.to_string(), "answer"];
                let request = client.post(&path).json(&signal_body(&draft)?);
                let AnsweredItem { number, duplicate, effect } = request.send().await?.json()?;
                Ok(Delivered { number, duplicate, effect })
            }
        }
    }
}
