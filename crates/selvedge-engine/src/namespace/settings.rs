//! The settings of a namespace: defaults for what its callers leave out.
//!
//! A server keeps the settings for a second, so a change reaches the other servers within that time. Submissions use older
//! ones: a change of the retention, and the deletion of a namespace, reach those through other servers within half a minute.

use super::Namespace;
use crate::Error;
use crate::registry::NOTICED_WITHIN;
use selvedge_core::Draft;
use selvedge_core::plan::GraphDraft;
use selvedge_core::rules::report::Op;
use selvedge_store::NamespaceSettings;
use std::time::Duration;
use tokio::time::Instant;

/// The age at which settings are read again in the background, where old ones will do.
const REFRESHED_AFTER: Duration = Duration::from_secs(25);
/// The longest time for which settings are not read again.
const KEPT_FOR: Duration = Duration::from_secs(1);

impl Namespace {
    /// Returns the settings of the namespace as they are stored.
    pub async fn settings(&self) -> Result<NamespaceSettings, Error> {
        let read_at = Instant::now();
        let settings = self.inner().store.namespace_settings(self.id()).await?;
        self.inner().registry.keep_settings(self.id(), settings, read_at);
        Ok(settings)
    }

    /// Replaces the settings of the namespace, unless that would undo its deletion. Returns those that it has then.
    pub async fn set_settings(&self, settings: NamespaceSettings) -> Result<NamespaceSettings, Error> {
        settings.check()?;
        self.inner().store.configure_namespace(self.id(), settings).await?;
        self.settings().await
    }

    /// Gives submissions the defaults of the namespace and of the server.
    pub(super) async fn add_defaults<'a>(
        &self,
        drafts: impl Iterator<Item = &'a mut Draft>,
    ) -> Result<(), Error> {
        let mut retention_ms = None;
        for draft in drafts {
            if retention_ms.is_none() && !draft.gives_retention {
                retention_ms = Some(self.known_settings().await?.retention_ms);
            }
            self.inner().options.defaults.add_to(draft, retention_ms.flatten());
        }
        Ok(())
    }

    /// Gives the nodes of a graph the defaults of the namespace and of the server.
    pub(super) async fn add_defaults_to_graph(&self, graph: &mut GraphDraft) -> Result<(), Error> {
        self.add_defaults(graph.nodes.iter_mut().map(|node| &mut node.draft)).await
    }

    /// Returns settings that were read at most [`NOTICED_WITHIN`] ago. In a namespace that is in use no call waits for the store: one
    /// that finds them old lets them be read in the background.
    pub(super) async fn known_settings(&self) -> Result<NamespaceSettings, Error> {
        let registry = &self.inner().registry;
        let now = Instant::now();
        let known = registry.settings_since(self.id(), now.checked_sub(NOTICED_WITHIN));
        let Some(known) = known else { return self.settings().await };
        let since = now.checked_sub(REFRESHED_AFTER);
        if since.is_some_and(|since| registry.should_read_settings(self.id(), since)) {
            let namespace = self.clone();
            tokio::spawn(async move {
                if let Err(error) = namespace.settings().await {
                    tracing::debug!(%error, "the settings of a namespace were not read again");
                }
            });
        }
        Ok(known)
    }

    /// Gives a suspension the timeout of the namespace or of the server, which applies to its waits without one.
    pub(super) async fn add_default_timeout(&self, op: &mut Op) -> Result<(), Error> {
        let Op::Suspend(suspend) = op else { return Ok(()) };
        if suspend.waits.iter().all(|wait| wait.timeout_ms.is_some()) {
            return Ok(());
        }
        let since = Instant::now().checked_sub(KEPT_FOR);
        let settings = match self.inner().registry.settings_since(self.id(), since) {
            Some(settings) => settings,
            None => self.settings().await?,
        };
        let of_server = self.inner().options.defaults.suspension_timeout_ms;
        suspend.default_timeout_ms = settings.suspension_timeout_ms.or(of_server);
        Ok(())
    }
}
