//! The gates that an execution draws on: its lane, its concurrency key, its quotas, its budgets, and its fairness line.
//!
//! Pure functions of the execution's row. The part of a budget depends on the budget's scope, so the caller passes it
//! in.

use super::{Amounts, BudgetScope, GateKind, GateName};
use crate::execution::Slots;
use crate::{ClassId, Execution, Name, NamespaceId};

pub fn lane_gate(namespace: NamespaceId, lane: &Name) -> GateName {
    GateName::new(namespace, GateKind::Lane, lane.clone())
}

/// Returns the fairness line of a fairness key in a class.
pub fn fairness_line(namespace: NamespaceId, class: ClassId, key: &Name) -> GateName {
    GateName::new(namespace, GateKind::Fair, key.clone()).part(Name::trusted(&class.to_string()))
}

/// Returns the fairness line of an execution, if it has a fairness key.
pub fn fairness_line_of(row: &Execution) -> Option<GateName> {
    let key = row.spec.required_gates.fairness_key.as_ref()?;
    Some(fairness_line(row.namespace, row.class, key))
}

/// Returns the concurrency key and the quotas of an execution, with the limit that the execution itself names.
pub fn slots_of(row: &Execution) -> impl Iterator<Item = (GateName, Option<u32>)> {
    let namespace = row.namespace;
    let key = row.spec.required_gates.concurrency.iter();
    let key =
        key.map(move |(key, limit)| (GateName::new(namespace, GateKind::Key, key.clone()), Some(*limit)));
    let quotas = row.spec.required_gates.quotas.iter();
    key.chain(quotas.map(move |name| (GateName::new(namespace, GateKind::Quota, name.clone()), None)))
}

/// A budget that an execution draws on.
#[derive(Clone, Debug, PartialEq)]
pub struct BudgetDraw<'a> {
    /// The budget as a whole, which has the configuration.
    pub whole: GateName,
    /// The part of the budget that counts for the execution; none for the whole.
    pub part: Option<Name>,
    pub reserve: &'a Amounts,
}

impl BudgetDraw<'_> {
    /// Returns the gate that counts for the execution: the part, or the whole.
    pub fn counted(&self) -> GateName {
        match &self.part {
            None => self.whole.clone(),
            Some(part) => self.whole.clone().part(part.clone()),
        }
    }
}

/// Returns the budgets of an execution; `part` names the part of a budget that counts for it now.
pub fn budgets_of(row: &Execution, part: impl Fn(&GateName) -> Option<Name>) -> Vec<BudgetDraw<'_>> {
    let budgets = row.spec.required_gates.budgets.iter().map(|(name, reserve)| {
        let whole = GateName::new(row.namespace, GateKind::Budget, name.clone());
        BudgetDraw { part: part(&whole), whole, reserve }
    });
    budgets.collect()
}

/// Returns the part of a budget with this scope that counts for an execution in this lane.
pub fn part_of(row: &Execution, scope: BudgetScope, lane: Option<&Name>) -> Option<Name> {
    match scope {
        BudgetScope::Namespace => None,
        BudgetScope::Flow => Some(Name::trusted(&row.flow().to_string())),
        BudgetScope::Lane => lane.cloned(),
    }
}

/// Returns the budgets in which a claim of the execution has reserved amounts.
pub fn reserved<'a>(row: &'a Execution, slots: &'a Slots) -> impl Iterator<Item = BudgetDraw<'a>> {
    let budgets = row.spec.required_gates.budgets.iter().zip(&slots.parts);
    budgets.map(|((name, reserve), part)| BudgetDraw {
        whole: GateName::new(row.namespace, GateKind::Budget, name.clone()),
        part: part.clone(),
        reserve,
    })
}

/// A slot or a reserve that a claim has taken from a gate.
pub enum Taken<'a> {
    Slot(GateName),
    /// Amounts reserved in a budget.
    Reserve(GateName, &'a Amounts),
}

/// Returns the slots and reserves that a claim of the execution has taken.
pub fn taken<'a>(row: &'a Execution, slots: &'a Slots) -> Vec<Taken<'a>> {
    let lane = slots.lane.as_ref().map(|lane| Taken::Slot(lane_gate(row.namespace, lane)));
    let drawn = slots_of(row).filter(|_| slots.drawn).map(|(name, _)| Taken::Slot(name));
    let budgets = reserved(row, slots).map(|budget| Taken::Reserve(budget.counted(), budget.reserve));
    lane.into_iter().chain(drawn).chain(budgets).collect()
}

/// Returns the limit that an execution itself names for a gate.
pub fn own_limit(row: &Execution, name: &GateName) -> Option<u32> {
    slots_of(row).find(|(drawn, _)| drawn == name).and_then(|(_, limit)| limit)
}

/// Returns the amounts that an execution reserves in a budget.
pub fn own_reserve<'a>(row: &'a Execution, name: &GateName) -> Option<&'a Amounts> {
    let budget = row.spec.required_gates.budgets.iter().find(|(budget, _)| *budget == name.name);
    budget.map(|(_, reserve)| reserve).filter(|_| name.kind == GateKind::Budget)
}

/// Reports whether an active execution draws on a budget, or on this part of it.
pub fn draws_on(row: &Execution, gate: &GateName) -> bool {
    let budgets = row.spec.required_gates.budgets.iter().zip(&row.detail.slots.parts);
    let mut drawn = budgets.map(|((name, _), part)| (name, part));
    row.namespace == gate.namespace && drawn.any(|(name, part)| *name == gate.name && *part == gate.part)
}

/// Reports whether a budget with this scope counts an execution in another part than the one that holds it: the
/// budget's scope has changed since.
pub fn counts_elsewhere(row: &Execution, name: &GateName, scope: BudgetScope, lane: Option<&Name>) -> bool {
    name.kind == GateKind::Budget
        && match scope {
            BudgetScope::Namespace => name.part.is_some(),
            BudgetScope::Flow => name.part != part_of(row, scope, lane),
            BudgetScope::Lane => {
                // The part is that of a flow, even if a lane has the same name.
                let of_flow = || name.part == part_of(row, BudgetScope::Flow, lane);
                name.part.is_none() || of_flow() || lane.is_some_and(|lane| name.part.as_ref() != Some(lane))
            }
        }
}
