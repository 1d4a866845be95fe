//! Values of a fixture that the API does not show again: tokens, fences, and the content of submissions.

use serde_json::{Map, Value};

/// Values by name.
#[derive(Clone, Debug, Default)]
pub struct Notes(pub Map<String, Value>);

impl Notes {
    /// Adds a value.
    pub fn add(&mut self, name: &str, value: Value) {
        let previous = self.0.insert(name.to_owned(), value);
        assert!(previous.is_none(), "{name} is added twice");
    }

    /// Returns a value.
    pub fn get(&self, name: &str) -> &Value {
        self.0.get(name).unwrap_or_else(|| panic!("the notes have no {name}"))
    }
}
