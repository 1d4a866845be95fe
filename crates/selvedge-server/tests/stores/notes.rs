//! What is kept of a fixture beside its rows: tokens, which are shown once, the fences of reports, and ids by their role.

use serde_json::{Map, Value};

/// Values by name.
#[derive(Clone, Debug, Default)]
pub struct Notes(pub Map<String, Value>);

impl Notes {
    /// Keeps a value.
    pub fn keep(&mut self, name: &str, value: Value) {
        let before = self.0.insert(name.to_owned(), value);
        assert!(before.is_none(), "{name} is kept twice");
    }

    /// A value that was kept.
    pub fn of(&self, name: &str) -> &Value {
        self.0.get(name).unwrap_or_else(|| panic!("the notes have no {name}"))
    }
}
