//! Interned names that this process knows: namespaces and claim classes. Both are only ever added.

use crate::Error;
use selvedge_core::class::Scope;
use selvedge_core::{Class, ClassId, Classes, Name, NamespaceId};
use selvedge_store::Store;
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

/// What is known of interned names.
pub struct Registry {
    store: Arc<dyn Store>,
    classes: RwLock<Classes>,
    namespaces: RwLock<HashMap<NamespaceId, Name>>,
}

impl Registry {
    /// Reads everything that is interned so far.
    pub async fn load(store: Arc<dyn Store>) -> Result<Self, Error> {
        let mut classes = Classes::default();
        classes.add(store.classes_after(ClassId(0)).await?);
        let namespaces = store.namespaces().await?.into_iter().collect();
        Ok(Registry { store, classes: RwLock::new(classes), namespaces: RwLock::new(namespaces) })
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
            self.add(self.store.intern(&missing).await?);
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

    /// Takes in classes that a transaction saw.
    pub fn add(&self, classes: Vec<(ClassId, Class)>) {
        if !classes.is_empty() {
            self.classes.write().unwrap_or_else(PoisonError::into_inner).add(classes);
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
    pub fn covered(&self, scope: &Scope) -> Vec<ClassId> {
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
