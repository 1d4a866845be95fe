//! Amounts by dimension. They are parsed from their decimal text, not through a float, so they are exact.

use selvedge_api::fields::{Entry, Fields, wrong_type};
use selvedge_core::amount::Amount;
use selvedge_core::gate::{Amounts, DIMENSIONS_MAX};
use selvedge_core::name::NAME_LIMIT;
use selvedge_core::{Name, Refusal};
use serde_json::value::RawValue;

/// Takes an object of amounts by dimension.
pub fn read_amounts(fields: &mut Fields<'_>, name: &'static str) -> Result<Option<Amounts>, Refusal> {
    let Some(entries) = fields.entries(name, DIMENSIONS_MAX)? else {
        return Ok(None);
    };
    let mut amounts = Amounts::new();
    for Entry { name, pointer, raw } in entries {
        Name::parse(&pointer, &name, NAME_LIMIT)?;
        amounts.insert(name, read_amount(&pointer, raw)?);
    }
    Ok(Some(amounts))
}

/// Parses the amount at the JSON pointer `pointer`.
pub fn read_amount(pointer: &str, raw: &RawValue) -> Result<Amount, Refusal> {
    let text = raw.get();
    if !text.starts_with(|first: char| first == '-' || first.is_ascii_digit()) {
        return Err(wrong_type(pointer, "a number", text));
    }
    Amount::parse(text).ok_or_else(|| {
        let given = if text.len() <= 40 { text } else { "a number of many digits" };
        let detail = format!("is {given}; it must lie between 0 and 2e12 and have at most six decimals");
        Refusal::field(pointer, detail)
    })
}
