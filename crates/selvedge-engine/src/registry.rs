//! Interned names that this process knows: namespaces and claim classes. Both are only ever added. And what it knows of lanes:
//! whether any is limited, and whose turn it is.

use crate::Error;
use selvedge_core::class::ClaimScope;
use selvedge_core::gate::{Gate, GateKind};
use selvedge_core::work::LaneShares;
use selvedge_core::{Class, ClassId, Classes, Execution, Name, NamespaceId};
use selvedge_store::Store;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// How many lanes of a namespace are read when the engine starts.
const LANES_MAX: u32 = 10_000;

/// What is known of interned names.
pub struct Registry {
    store: Arc<dyn Store>,
    classes: RwLock<Arc<Classes>>,
    namespaces: RwLock<HashMap<NamespaceId, Name>>,
    shares: Mutex<LaneShares>,
    has_limits: AtomicBool,
    has_lanes: AtomicBool,
    has_gates: AtomicBool,
    /// Classes whose executions go through gates that many share.
    gated: RwLock<HashSet<ClassId>>,
}

impl Registry {
    /// Reads everything that is interned so far.
    pub async fn load(store: Arc<dyn Store>) -> Result<Self, Error> {
        let mut classes = Classes::default();
        classes.add(store.classes_after(ClassId(0)).await?);
        let namespaces = store.namespaces().await?.into_iter().collect();
        let registry = Registry {
            store,
            classes: RwLock::new(Arc::new(classes)),
            namespaces: RwLock::new(namespaces),
            shares: Mutex::default(),
            has_limits: AtomicBool::new(false),
            has_lanes: AtomicBool::new(false),
            has_gates: AtomicBool::new(false),
            gated: RwLock::default(),
        };
        let namespaces = registry.namespaces.read().unwrap_or_else(PoisonError::into_inner).clone();
        for namespace in namespaces.into_keys() {
            let lanes = registry.store.list_gates(namespace, GateKind::Lane, None, LANES_MAX).await?;
            registry.see_gates(lanes.iter());
        }
        Ok(registry)
    }

    /// The ids of these classes, interning those that are new.
    pub async fn intern(&self, wanted: &[Class]) -> Result<Vec<ClassId>, Error> {
        let missing: Vec<Class> = {
            let known = self.classes.read().unwrap_or_else(PoisonError::into_inner);
            let mut missing: Vec<Class> =
                wanted.iter().filter(|class| known.find(class).is_none()).cloned().collect();
            missing.sort();
            missing.dedup();
            missing
        };
        if !missing.is_empty() {
            self.store.intern(&missing).await?;
            // All that are new, in order: those before ours may be of other servers, and nobody asks for them later.
            self.refresh().await?;
        }
        let known = self.classes.read().unwrap_or_else(PoisonError::into_inner);
        let find = |class| {
            known
                .find(class)
                .ok_or(selvedge_store::Error::Failed("an interned class is not there".into()).into())
        };
        wanted.iter().map(find).collect()
    }

    /// Learns from gates that a transaction has read or written.
    pub fn see_gates<'a>(&self, gates: impl Iterator<Item = &'a Gate>) {
        for gate in gates {
            let limits = gate.config.as_ref().is_some_and(|config| config.limits_starts());
            if gate.name.kind != GateKind::Lane || limits {
                self.expect_gates();
            }
            if gate.name.kind == GateKind::Lane && gate.config.is_some() {
                self.expect_lanes();
                if limits {
                    self.has_limits.store(true, Ordering::Relaxed);
                }
            }
        }
    }

    /// A lane is configured, somewhere.
    pub fn expect_lanes(&self) {
        self.has_lanes.store(true, Ordering::Relaxed);
    }

    /// Whether a lane is known that limits something. Once so, always so.
    pub fn has_limits(&self) -> bool {
        self.has_limits.load(Ordering::Relaxed)
    }

    /// Something goes through gates.
    pub fn expect_gates(&self) {
        self.has_gates.store(true, Ordering::Relaxed);
    }

    /// Whether something is known to go through gates that claims lock: any but lanes that limit nothing. Once so, always so.
    pub fn has_gates(&self) -> bool {
        self.has_gates.load(Ordering::Relaxed)
    }

    /// Takes in what executions went through.
    pub fn see_drawn<'a>(&self, rows: impl Iterator<Item = &'a Execution>) {
        let shares = |row: &&Execution| {
            let draws = &row.spec.draws;
            let alone = draws.budgets.is_empty() && draws.quotas.is_empty() && draws.fairness_key.is_none();
            row.detail.slots.lane.is_some() || !alone
        };
        let new: Vec<ClassId> =
            rows.filter(shares).map(|row| row.class).filter(|class| !self.is_gated(*class)).collect();
        if !new.is_empty() {
            self.gated.write().unwrap_or_else(PoisonError::into_inner).extend(new);
        }
    }

    /// Whether executions of a class are known to go through gates that many share.
    pub fn is_gated(&self, class: ClassId) -> bool {
        self.gated.read().unwrap_or_else(PoisonError::into_inner).contains(&class)
    }

    /// Whether a lane is known that is configured. Once so, always so.
    pub fn has_lanes(&self) -> bool {
        self.has_lanes.load(Ordering::Relaxed)
    }

    /// How far the lanes are with their shares.
    pub fn shares(&self) -> LaneShares {
        self.shares.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Keeps how far the lanes are with their shares.
    pub fn keep_shares(&self, shares: &LaneShares) {
        self.shares.lock().unwrap_or_else(PoisonError::into_inner).clone_from(shares);
    }

    /// The classes that are known, as they are now.
    pub fn classes(&self) -> Arc<Classes> {
        self.classes.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The lanes of a namespace in which something was ever submitted.
    pub fn lanes_of(&self, namespace: NamespaceId) -> Vec<Name> {
        let known = self.classes.read().unwrap_or_else(PoisonError::into_inner);
        let mut lanes: Vec<Name> = known
            .of(namespace, None, None)
            .into_iter()
            .filter_map(|id| Some(known.get(id)?.lane.clone()))
            .collect();
        lanes.sort();
        lanes.dedup();
        lanes
    }

    /// Takes in classes that a transaction saw.
    pub fn add(&self, classes: Vec<(ClassId, Class)>) {
        if !classes.is_empty() {
            Arc::make_mut(&mut *self.classes.write().unwrap_or_else(PoisonError::into_inner)).add(classes);
        }
    }

    /// Asks the store for classes that are new.
    pub async fn refresh(&self) -> Result<(), Error> {
        self.add(self.store.classes_after(self.newest()).await?);
        Ok(())
    }

    /// The newest class that is known.
    pub fn newest(&self) -> ClassId {
        self.classes.read().unwrap_or_else(PoisonError::into_inner).newest()
    }

    /// The classes that a worker with this scope may take.
    pub fn covered(&self, scope: &ClaimScope) -> Vec<ClassId> {
        self.classes.read().unwrap_or_else(PoisonError::into_inner).covered(scope)
    }

    /// The classes of a namespace, of one lane and kind where given.
    pub fn of(&self, namespace: NamespaceId, lane: Option<&str>, kind: Option<&str>) -> Vec<ClassId> {
        self.classes.read().unwrap_or_else(PoisonError::into_inner).of(namespace, lane, kind)
    }

    /// What a class stands for; asks the store if it is new.
    pub async fn class(&self, id: ClassId) -> Result<Class, Error> {
        let known = || self.classes.read().unwrap_or_else(PoisonError::into_inner).get(id).cloned();
        if let Some(class) = known() {
            return Ok(class);
        }
        self.refresh().await?;
        known().ok_or(selvedge_store::Error::Failed(format!("class {id} is not interned")).into())
    }

    /// The name of a namespace; asks the store if it is new.
    pub async fn namespace_name(&self, id: NamespaceId) -> Result<Name, Error> {
        let known = || self.namespaces.read().unwrap_or_else(PoisonError::into_inner).get(&id).cloned();
        if let Some(name) = known() {
            return Ok(name);
        }
        let all = self.store.namespaces().await?;
        self.namespaces.write().unwrap_or_else(PoisonError::into_inner).extend(all);
        known().ok_or(selvedge_store::Error::Failed(format!("namespace {id} is not interned")).into())
    }

    /// The id of a namespace, interning it if it is new.
    pub async fn namespace(&self, name: &Name) -> Result<NamespaceId, Error> {
        let known = {
            let namespaces = self.namespaces.read().unwrap_or_else(PoisonError::into_inner);
            namespaces.iter().find(|(_, known)| *known == name).map(|(id, _)| *id)
        };
        if let Some(id) = known {
            return Ok(id);
        }
        let id = self.store.namespace(name).await?;
        self.namespaces.write().unwrap_or_else(PoisonError::into_inner).insert(id, name.clone());
        Ok(id)
    }
}
