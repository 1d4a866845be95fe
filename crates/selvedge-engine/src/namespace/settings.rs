//! The settings of a namespace: defaults for what its callers leave out.
//!
//! A server keeps the settings for a second, so a change reaches the other servers within that time.

use super::Namespace;
use crate::Error;
use selvedge_core::rules::report::Op;
use selvedge_store::NamespaceSettings;
use std::time::Duration;
use tokio::time::Instant;

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

    /// Gives a suspension the timeout of the namespace, which applies to its waits without one.
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
        suspend.default_timeout_ms = settings.suspension_timeout_ms;
        Ok(())
    }
}
