//! The registry: namespaces and claim classes that this process has interned, and what it knows about lanes and gates.
//!
//! The flags about lanes and gates are only ever set. So a reader may use an older state: the flags decide which rows a
//! transaction locks in advance, and a transaction that meets a gate it did not expect sets the flag.
//!
//! The store removes classes that were not used for days. So a submission uses the id of a class only for an hour after
//! this process has interned it, and interns it again afterwards, which records the use. Removed classes are forgotten
//! when the registry reads all of them again.

use crate::Error;
use crate::locking::{lock, read, write};
use selvedge_core::class::{ClaimScope, USED_EVERY_MS};
use selvedge_core::gate::{Gate, GateKind};
use selvedge_core::name::EVERY_NAMESPACE;
use selvedge_core::work::LaneShares;
use selvedge_core::{Class, ClassId, Classes, Execution, Name, NamespaceId};
use selvedge_store::{Deletion, NamespaceSettings, Store};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;
use tokio::time::Instant;

/// The maximum number of lanes per namespace that are read when the engine starts.
const LANES_MAX: u32 = 10_000;

/// The time after which settings are read again before they are used: within it, every server notices that a namespace is being
/// deleted. Less than the time for which a deletion waits for the servers.
pub const NOTICED_WITHIN: Duration = Duration::from_secs(33);

/// The interned names and the knowledge of gates of one process.
pub struct Registry {
    store: Arc<dyn Store>,
    classes: RwLock<Arc<Classes>>,
    namespaces: RwLock<HashMap<NamespaceId, Name>>,
    lane_shares: Mutex<LaneShares>,
    has_lane_limits: AtomicBool,
    has_lanes: AtomicBool,
    has_gates: AtomicBool,
    /// Classes, with their pools, whose executions pass gates that many executions share.
    gated: RwLock<HashSet<ClassId>>,
    settings: RwLock<HashMap<NamespaceId, KnownSettings>>,
    /// The time at which this process began to intern a class last.
    interned: RwLock<HashMap<ClassId, Instant>>,
}

/// The settings of a namespace as they were read.
#[derive(Clone, Copy)]
struct KnownSettings {
    settings: NamespaceSettings,
    read_at: Instant,
    /// The time at which somebody began to read them again.
    asked_at: Instant,
}

impl Registry {
    /// Loads all interned names and the configured lanes.
    pub async fn load(store: Arc<dyn Store>) -> Result<Self, Error> {
        let mut classes = Classes::default();
        classes.add(store.classes_after(ClassId(0)).await?);
        let namespaces: HashMap<NamespaceId, Name> = store.namespaces().await?.into_iter().collect();
        let registry = Registry {
            store,
            classes: RwLock::new(Arc::new(classes)),
            namespaces: RwLock::new(namespaces.clone()),
            lane_shares: Mutex::default(),
            has_lane_limits: AtomicBool::new(false),
            has_lanes: AtomicBool::new(false),
            has_gates: AtomicBool::new(false),
            gated: RwLock::default(),
            settings: RwLock::default(),
            interned: RwLock::default(),
        };
        for namespace in namespaces.into_keys() {
            let lanes = registry.store.list_gates(namespace, GateKind::Lane, None, LANES_MAX).await?;
            registry.learn_gates(lanes.iter());
        }
        Ok(registry)
    }

    /// Returns the number of the store's lineage. See [`Transactions::lineage`](selvedge_store::Transactions::lineage).
    pub fn lineage(&self) -> u64 {
        self.store.lineage()
    }

    /// Returns the settings of a namespace, if they were read at this time or later.
    pub fn settings_since(
        &self,
        namespace: NamespaceId,
        since: Option<Instant>,
    ) -> Option<NamespaceSettings> {
        let known = *read(&self.settings).get(&namespace)?;
        since.is_none_or(|since| known.read_at >= since).then_some(known.settings)
    }

    /// Reports whether the caller should read the settings of a namespace again because they were read before `since`. Tells
    /// only one caller so.
    pub fn should_read_settings(&self, namespace: NamespaceId, since: Instant) -> bool {
        let is_due = |known: &KnownSettings| known.read_at < since && known.asked_at < since;
        if !read(&self.settings).get(&namespace).is_some_and(is_due) {
            return false;
        }
        let mut settings = write(&self.settings);
        let due = settings.get_mut(&namespace).filter(|known| is_due(known));
        due.map(|known| known.asked_at = Instant::now()).is_some()
    }

    /// Keeps the settings of a namespace. `read_at` is the time at which their read began.
    pub fn keep_settings(&self, namespace: NamespaceId, settings: NamespaceSettings, read_at: Instant) {
        let mut kept = write(&self.settings);
        // A read that began earlier may have missed a change.
        if kept.get(&namespace).is_none_or(|known| known.read_at <= read_at) {
            kept.insert(namespace, KnownSettings { settings, read_at, asked_at: read_at });
        }
    }

    /// Returns the ids of these classes. Interns those that this process has not interned for an hour.
    pub async fn intern(&self, wanted: &[Class]) -> Result<Vec<ClassId>, Error> {
        if let Some(ids) = self.recently_interned(wanted) {
            return Ok(ids);
        }
        let mut wanted_once = wanted.to_vec();
        wanted_once.sort();
        wanted_once.dedup();
        wanted_once.retain(|class| self.recently_interned(std::slice::from_ref(class)).is_none());
        let now = Instant::now();
        let interned = self.store.intern(&wanted_once).await?;
        // Reads all new classes and not only ours: refreshes start after the newest known class, so classes of
        // other servers with lower ids would never be read otherwise.
        self.refresh_classes().await?;
        write(&self.interned).extend(interned.into_iter().map(|(id, _)| (id, now)));
        self.recently_interned(wanted).ok_or_else(|| {
            selvedge_store::Error::Failed("an interned class is missing in the store".into()).into()
        })
    }

    /// Returns the ids of these classes, if this process has interned all of them within the last hour.
    fn recently_interned(&self, wanted: &[Class]) -> Option<Vec<ClassId>> {
        let (known, interned) = (read(&self.classes), read(&self.interned));
        let used_every = Duration::from_millis(USED_EVERY_MS as u64);
        let is_recent = |id: &ClassId| interned.get(id).is_some_and(|at| at.elapsed() < used_every);
        wanted.iter().map(|class| known.find(class).filter(is_recent)).collect()
    }

    /// Reads all classes again, and so forgets removed ones.
    pub async fn reload_classes(&self) -> Result<(), Error> {
        let mut classes = Classes::default();
        classes.add(self.store.classes_after(ClassId(0)).await?);
        let mut known = write(&self.classes);
        // Classes that were interned meanwhile.
        classes.add(known.after(classes.newest()));
        write(&self.interned).retain(|id, _| classes.get(*id).is_some());
        write(&self.gated).retain(|id| classes.lane_of(*id).is_some());
        *known = Arc::new(classes);
        Ok(())
    }

    /// Sets the flags about lanes and gates from gates that a transaction read or wrote.
    pub fn learn_gates<'a>(&self, gates: impl Iterator<Item = &'a Gate>) {
        for gate in gates {
            let limits = gate.config.as_ref().is_some_and(|config| config.limits_starts());
            if gate.name.kind != GateKind::Lane || limits {
                self.expect_gates();
            }
            if gate.name.kind == GateKind::Lane && gate.config.is_some() {
                self.expect_lanes();
                if limits {
                    self.has_lane_limits.store(true, Ordering::Relaxed);
                }
            }
        }
    }

    /// Records that a lane is configured in some namespace.
    pub fn expect_lanes(&self) {
        self.has_lanes.store(true, Ordering::Relaxed);
    }

    /// Reports whether a lane is configured. Never returns to false.
    pub fn has_lanes(&self) -> bool {
        self.has_lanes.load(Ordering::Relaxed)
    }

    /// Reports whether a lane limits something. Never returns to false.
    pub fn has_lane_limits(&self) -> bool {
        self.has_lane_limits.load(Ordering::Relaxed)
    }

    /// Records that an execution passes gates that claims lock.
    pub fn expect_gates(&self) {
        self.has_gates.store(true, Ordering::Relaxed);
    }

    /// Reports whether there are gates that claims lock: all but lanes without limits. Never returns to false.
    pub fn has_gates(&self) -> bool {
        self.has_gates.load(Ordering::Relaxed)
    }

    /// Records the classes of executions that pass shared gates.
    pub fn learn_gated_classes<'a>(&self, rows: impl Iterator<Item = &'a Execution>) {
        let is_gated = |row: &&Execution| {
            let required_gates = &row.spec.required_gates;
            let undrawn = required_gates.budgets.is_empty()
                && required_gates.quotas.is_empty()
                && required_gates.fairness_key.is_none();
            row.detail.slots.lane.is_some() || !undrawn
        };
        let new: Vec<ClassId> =
            rows.filter(is_gated).map(|row| row.class).filter(|class| !self.is_gated(*class)).collect();
        if !new.is_empty() {
            let known = self.classes();
            let pools = new.iter().filter_map(|class| known.pool_of(*class));
            write(&self.gated).extend(new.iter().copied().chain(pools));
        }
    }

    /// Reports whether executions of a class are known to pass shared gates.
    pub fn is_gated(&self, class: ClassId) -> bool {
        read(&self.gated).contains(&class)
    }

    /// The state of the fair share among lanes.
    pub fn lane_shares(&self) -> LaneShares {
        lock(&self.lane_shares).clone()
    }

    /// Saves the state of the fair share among lanes.
    pub fn save_lane_shares(&self, shares: &LaneShares) {
        lock(&self.lane_shares).clone_from(shares);
    }

    /// A snapshot of the known classes.
    pub fn classes(&self) -> Arc<Classes> {
        read(&self.classes).clone()
    }

    /// The lanes of a namespace that have classes: an execution was submitted to them, and they are in use.
    pub fn lanes_of(&self, namespace: NamespaceId) -> BTreeSet<Name> {
        read(&self.classes).lanes(namespace)
    }

    /// Adds classes that a transaction read.
    pub fn add(&self, classes: Vec<(ClassId, Class)>) {
        if !classes.is_empty() {
            Arc::make_mut(&mut *write(&self.classes)).add(classes);
        }
    }

    /// Reads the classes that were interned since the newest known one.
    pub async fn refresh_classes(&self) -> Result<(), Error> {
        self.add(self.store.classes_after(self.newest_class()).await?);
        Ok(())
    }

    /// The newest known class.
    pub fn newest_class(&self) -> ClassId {
        read(&self.classes).newest()
    }

    /// The classes that a claim with this scope covers.
    pub fn covered(&self, scope: &ClaimScope) -> Vec<ClassId> {
        read(&self.classes).covered(scope)
    }

    /// The classes of a namespace, limited to a lane and a kind if given.
    pub fn of(&self, namespace: NamespaceId, lane: Option<&str>, kind: Option<&str>) -> Vec<ClassId> {
        read(&self.classes).of(namespace, lane, kind)
    }

    /// Returns a class by its id; reads the store if the id is new.
    pub async fn class(&self, id: ClassId) -> Result<Class, Error> {
        let known = || read(&self.classes).get(id).cloned();
        if let Some(class) = known() {
            return Ok(class);
        }
        self.refresh_classes().await?;
        known().ok_or(selvedge_store::Error::Failed(format!("class {id} is not interned")).into())
    }

    /// Returns the name of a namespace; its number if another server interned it.
    pub fn namespace_name(&self, id: NamespaceId) -> Name {
        read(&self.namespaces).get(&id).cloned().unwrap_or_else(|| Name::trusted(&id.0.to_string()))
    }

    /// Returns the id of a namespace, also of one that is being deleted. None if it does not exist or was deleted. A name is known
    /// until its namespace is deleted; one that is not known is looked up in the store each time, so that every server finds
    /// what another one has created.
    pub async fn find(&self, name: &Name) -> Result<Option<NamespaceId>, Error> {
        if name.as_str() == EVERY_NAMESPACE {
            return Ok(None);
        }
        let known = {
            let namespaces = read(&self.namespaces);
            // A deleted namespace and its successor have the same name here. Ids rise.
            namespaces.iter().filter(|(_, known)| *known == name).map(|(id, _)| *id).max()
        };
        if let Some(id) = known
            && self.settings(id).await?.deletion.is_none()
        {
            return Ok(Some(id));
        }
        let Some(id) = self.store.find_namespace(name).await? else { return Ok(None) };
        self.learn(id, name);
        let read_at = Instant::now();
        let settings = self.store.namespace_settings(id).await?;
        self.keep_settings(id, settings, read_at);
        Ok((settings.deletion != Some(Deletion::Done)).then_some(id))
    }

    /// Returns the id of a namespace, which is created if it does not exist or was deleted.
    pub async fn intern_namespace(&self, name: &Name) -> Result<NamespaceId, Error> {
        let id = self.store.namespace(name).await?;
        self.learn(id, name);
        Ok(id)
    }

    fn learn(&self, id: NamespaceId, name: &Name) {
        if !read(&self.namespaces).contains_key(&id) {
            write(&self.namespaces).insert(id, name.clone());
        }
    }

    /// Returns settings of a namespace that were read at most [`NOTICED_WITHIN`] ago.
    async fn settings(&self, namespace: NamespaceId) -> Result<NamespaceSettings, Error> {
        let since = Instant::now().checked_sub(NOTICED_WITHIN);
        if let Some(known) = self.settings_since(namespace, since) {
            return Ok(known);
        }
        let read_at = Instant::now();
        let settings = self.store.namespace_settings(namespace).await?;
        self.keep_settings(namespace, settings, read_at);
        Ok(settings)
    }
}
