//! The principal of a request: the holder of a key, with its role and its namespaces.

use super::KeyId;
use crate::wire::problem::{Code, Problem};
use axum::http::HeaderMap;
use selvedge_core::name::NAME_LIMIT;
use selvedge_core::{Name, Refusal, Role};
use selvedge_engine::{Engine, Namespace, Namespaces};
use std::sync::Arc;

/// The namespace of callers that name none, if they may use all.
pub const DEFAULT_NAMESPACE: &str = "default";
/// The header in which a caller with several namespaces picks one.
pub const HEADER: &str = "selvedge-namespace";
const POINTER: &str = "/headers/selvedge-namespace";

/// The holder of a key.
pub struct Principal {
    /// The id of the key; none for the administrator's key of the environment.
    pub id: Option<KeyId>,
    /// The name in events.
    pub name: Name,
    pub role: Role,
    pub(super) scope: Scope,
    /// Names of the key whose namespaces do not exist, or are being deleted.
    pub(super) missing: Vec<Name>,
}

/// The namespaces in which a role applies, as far as they exist.
pub(super) enum Scope {
    Every,
    One(Namespace),
    /// Several namespaces, with their weights.
    Several(Arc<Namespaces>),
}

impl Principal {
    /// Returns the administrator of every namespace.
    pub fn administrator() -> Principal {
        let (scope, missing) = (Scope::Every, Vec::new());
        Principal { id: None, name: Name::trusted("admin"), role: Role::Admin, scope, missing }
    }

    /// Reports whether another look at the store found the same: the same key, and the same weights.
    pub fn is_same(&self, other: &Principal) -> bool {
        let same_scope = match (&self.scope, &other.scope) {
            (Scope::Every, Scope::Every) => true,
            (Scope::One(one), Scope::One(other)) => one.id() == other.id(),
            (Scope::Several(some), Scope::Several(others)) => {
                let known = |some: &Namespaces| -> Vec<_> {
                    some.members().iter().map(|(member, weight)| (member.id(), *weight)).collect()
                };
                known(some) == known(others)
            }
            (Scope::Every | Scope::One(_) | Scope::Several(_), _) => false,
        };
        self.id == other.id && self.role == other.role && same_scope && self.missing == other.missing
    }

    /// Returns the names of the namespaces, also of missing ones; none for every namespace.
    pub fn namespaces(&self) -> Option<Vec<Name>> {
        match &self.scope {
            Scope::Every => None,
            Scope::One(one) => Some(vec![one.name().clone()]),
            Scope::Several(some) => {
                let names = some.members().iter().map(|(member, _)| member.name());
                Some(names.chain(&self.missing).cloned().collect())
            }
        }
    }

    /// Reports whether the role applies in every namespace.
    pub fn is_of_every_namespace(&self) -> bool {
        matches!(self.scope, Scope::Every)
    }

    /// Returns the namespace of a request: the one that its header names, else the only one of the key, else the default of
    /// an administrator. A key of several namespaces without the header gets all of them.
    pub async fn pick(&self, headers: &HeaderMap, engine: &Engine) -> Result<Picked, Problem> {
        let Some(named) = headers.get(HEADER) else {
            return match (&self.scope, self.missing.first()) {
                (Scope::Every, _) => Ok(Picked::One(self.open(DEFAULT_NAMESPACE, engine).await?)),
                (Scope::One(one), _) => Ok(Picked::One(one.clone())),
                (Scope::Several(some), Some(missing)) if some.members().is_empty() => Err(unknown(missing)),
                (Scope::Several(some), _) => Ok(Picked::Several(some.clone())),
            };
        };
        let named = std::str::from_utf8(named.as_bytes())
            .map_err(|_| Refusal::field(POINTER, "must be UTF-8 text"))?;
        let name = Name::parse(POINTER, named, NAME_LIMIT)?;
        let found = match &self.scope {
            Scope::Every => return Ok(Picked::One(self.open(&name, engine).await?)),
            Scope::One(one) => Some(one).filter(|one| *one.name() == name),
            Scope::Several(some) => {
                some.members().iter().map(|(member, _)| member).find(|member| *member.name() == name)
            }
        };
        match found {
            Some(found) => Ok(Picked::One(found.clone())),
            None if self.missing.contains(&name) => Err(unknown(&name)),
            None => {
                let detail = format!("the key {:?} is not of the namespace {name:?}", self.name);
                Err(Problem::new(Code::Forbidden, detail))
            }
        }
    }

    async fn open(&self, name: &str, engine: &Engine) -> Result<Namespace, Problem> {
        let name = Name::trusted(name);
        let found = engine.open_namespace(&name).await?;
        Ok(found.ok_or_else(|| unknown(&name))?.with_actor(self.name.clone()))
    }
}

/// Returns the problem of a request in a namespace that does not exist.
pub fn unknown(name: &Name) -> Problem {
    Problem::from(Refusal::UnknownNamespace { namespace: name.to_string() }).at(POINTER)
}

/// The namespaces of a request.
pub enum Picked {
    One(Namespace),
    /// All namespaces of a key that has several.
    Several(Arc<Namespaces>),
}

/// Returns the problem of a request that must name one of the caller's namespaces.
pub fn namespace_required(some: &Namespaces) -> Problem {
    let names: Vec<&str> = some.members().iter().map(|(member, _)| member.name().as_str()).collect();
    let detail = format!(
        "the key is of several namespaces; name one of them in the header Selvedge-Namespace: {}",
        names.join(", ")
    );
    Problem::new(Code::NamespaceRequired, detail)
}

/// Returns the namespace of a caller on a server without keys.
pub async fn pick_without_keys(headers: &HeaderMap, engine: &Engine) -> Result<Namespace, Problem> {
    if headers.get(HEADER).is_some_and(|named| named != DEFAULT_NAMESPACE) {
        let detail =
            "without API keys the server has the namespace default only; start it with SELVEDGE_ADMIN_KEY";
        return Err(Problem::new(Code::Forbidden, detail));
    }
    Principal::administrator().open(DEFAULT_NAMESPACE, engine).await
}
