//! The budgets, quotas, concurrency key and fairness key of an execution.

use crate::request::amounts::read_amounts;
use selvedge_api::fields::{Fields, wrong_type};
use selvedge_core::gate::{Amounts, RequiredGates};
use selvedge_core::name::{KEY_LIMIT, NAME_LIMIT};
use selvedge_core::submission::{GatePointers, REQUIRED_GATES_LIMIT};
use selvedge_core::{Draft, Name, Refusal};
use serde_json::value::RawValue;
use std::sync::Arc;

/// The gates of a submission, and the places at which the request names them.
type Draws = (RequiredGates, Option<Arc<GatePointers>>);

/// Reads the gate fields of a submission. An absent field has its value in `base`.
pub fn read_draws(fields: &mut Fields<'_>, base: &Draft) -> Result<Draws, Refusal> {
    let budgets = fields.bounded_array("budgets", REQUIRED_GATES_LIMIT)?;
    let names_budgets = budgets.is_some();
    let budgets = budgets.map(|items| items.into_iter().map(|(at, raw)| read_budget(at, raw)).collect());
    let budgets: Option<Vec<(String, (Name, Amounts))>> = budgets.transpose()?;
    let quotas = fields.texts("quotas")?.map(|quotas| {
        let name = |(index, quota): (usize, &String)| {
            Name::parse(&format!("{}/{index}", fields.pointer("quotas")), quota, NAME_LIMIT)
        };
        quotas.iter().enumerate().map(name).collect()
    });
    let quotas: Option<Vec<Name>> = quotas.transpose()?;
    let concurrency = fields.object("concurrency")?.map(read_concurrency).transpose()?;
    let fairness_key = fields.text("fairness_key")?;
    let fairness_key =
        fairness_key.map(|key| Name::parse(&fields.pointer("fairness_key"), &key, KEY_LIMIT)).transpose()?;
    let pointers = match names_budgets || quotas.is_some() {
        true => {
            let inherited = base.gate_pointers.as_deref().cloned().unwrap_or_default();
            let budgets = budgets.iter().flatten().map(|(at, _)| at.clone()).collect();
            let listed = 0..quotas.as_ref().map_or(0, Vec::len);
            let quotas_at = listed.map(|index| format!("{}/{index}", fields.pointer("quotas"))).collect();
            Some(Arc::new(GatePointers {
                budgets: if names_budgets { budgets } else { inherited.budgets },
                quotas: if quotas.is_some() { quotas_at } else { inherited.quotas },
            }))
        }
        false => base.gate_pointers.clone(),
    };
    let base = &base.required_gates;
    let budgets = budgets.map(|budgets| budgets.into_iter().map(|(_, budget)| budget).collect());
    let required_gates = RequiredGates {
        budgets: budgets.unwrap_or_else(|| base.budgets.clone()),
        quotas: quotas.unwrap_or_else(|| base.quotas.clone()),
        concurrency: concurrency.or_else(|| base.concurrency.clone()),
        fairness_key: fairness_key.or_else(|| base.fairness_key.clone()),
    };
    Ok((required_gates, pointers))
}

/// Reads a budget: its name, or an object with its name and the amounts to reserve. Returns the JSON pointer of the name
/// with it.
fn read_budget(pointer: String, raw: &RawValue) -> Result<(String, (Name, Amounts)), Refusal> {
    match raw.get().as_bytes().first() {
        Some(b'"') => {
            let name: String =
                serde_json::from_str(raw.get()).map_err(|_| wrong_type(&pointer, "a string", raw.get()))?;
            let name = Name::parse(&pointer, &name, NAME_LIMIT)?;
            Ok((pointer, (name, Amounts::new())))
        }
        Some(b'{') => {
            let mut fields = Fields::from_value(raw, pointer)?;
            let name = fields.name("name")?;
            let name = fields.require("name", name)?;
            let reserve = read_amounts(&mut fields, "reserve")?.unwrap_or_default();
            let pointer = fields.pointer("name");
            fields.finish()?;
            Ok((pointer, (name, reserve)))
        }
        Some(_) | None => {
            Err(wrong_type(&pointer, "the name of a budget or an object with its name", raw.get()))
        }
    }
}

fn read_concurrency(mut fields: Fields<'_>) -> Result<(Name, u32), Refusal> {
    let key = fields.text("key")?;
    let key = Name::parse(&fields.pointer("key"), &fields.require("key", key)?, KEY_LIMIT)?;
    let limit = fields.count("limit")?;
    let limit = fields.require("limit", limit)?;
    fields.finish()?;
    Ok((key, limit))
}
