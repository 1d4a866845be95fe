//! The settings of a namespace: defaults for what its callers leave out.
//!
//! A server keeps the settings for a second, so a change reaches the other servers within that time. Submissions read
//! nothing: a change of the retention reaches those through other servers within half a minute.

use super::Namespace;
use crate::Error;
use selvedge_core::Draft;
use selvedge_core::plan::GraphDraft;
use selvedge_core::rules::report::Op;
use selvedge_store::NamespaceSettings;
use std::time::Duration;
use tokio::time::Instant;

/// The age at which settings are read again in the background, where old ones will do.
const REFRESHED_AFTER: Duration = Duration::from_secs(30);
/// The longest time for which settings are not read again.
const KEPT_FOR: Duration = Duration::from_secs(1);

impl Namespace {
    /// Returns the settings of the namespace as they are stored.
    pub async fn settings(&self) -> Result<NamespaceSettings, Error> {
        let settings = self.inner().store.namespace_settings(self.id()).await?;
        self.inner().registry.keep_settings(self.id(), settings, Instant::now());
        Ok(settings)
    }

    /// Replaces the settings of the namespace.
    pub async fn set_settings(&self, settings: NamespaceSettings) -> Result<(), Error> {
        settings.check()?;
        self.inner().store.configure_namespace(self.id(), settings).await?;
        self.inner().registry.keep_settings(self.id(), settings, Instant::now());
        Ok(())
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

    /// Returns settings that may be some time old. Only the first call of a namespace waits for the store: a later one that
    /// finds them old lets them be read in the background.
    pub(super) async fn known_settings(&self) -> Result<NamespaceSettings, Error> {
        let registry = &self.inner().registry;
        let Some(known) = registry.settings_since(self.id(), None) else { return self.settings().await };
        let since = Instant::now().checked_sub(REFRESHED_AFTER);
        if registry.settings_since(self.id(), since).is_none() {
            // Others who find them old meanwhile do not read them, too.
            registry.keep_settings(self.id(), known, Instant::now());
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
