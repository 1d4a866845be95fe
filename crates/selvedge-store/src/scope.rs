//! The scope of an engine's reconcilers. Stores apply it in their scans, so that a backlog outside of the scope hides no row
//! inside of it.

use selvedge_core::NamespaceId;
use std::collections::BTreeMap;

/// The executions that the reconcilers of an engine handle, so that a fleet can split the work. All conditions that are
/// set must match. Default: every execution.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReconcilerScope {
    /// Only executions of this namespace.
    pub namespace: Option<NamespaceId>,
    /// Only executions with this tag.
    pub tag: Option<(String, String)>,
}

impl ReconcilerScope {
    /// The scope of every execution.
    pub const ALL: ReconcilerScope = ReconcilerScope { namespace: None, tag: None };

    /// Reports whether every row is in scope.
    pub fn is_everything(&self) -> bool {
        *self == ReconcilerScope::ALL
    }

    /// Reports whether a row of this namespace with these tags is in scope.
    pub fn covers(&self, namespace: NamespaceId, tags: &BTreeMap<String, String>) -> bool {
        self.covers_namespace(namespace)
            && self.tag.as_ref().is_none_or(|(name, value)| tags.get(name) == Some(value))
    }

    /// Reports whether rows of this namespace can be in scope.
    pub fn covers_namespace(&self, namespace: NamespaceId) -> bool {
        self.namespace.is_none_or(|ours| ours == namespace)
    }

    /// Returns the text that the column `tags` of every row with the tag contains: the pair as it is written in JSON. The
    /// column of another row contains it only if a name has a quote inside, so a caller tests [`ReconcilerScope::covers`] too.
    pub fn tag_text(&self) -> Option<String> {
        let text = |text: &String| serde_json::Value::from(text.as_str()).to_string();
        self.tag.as_ref().map(|(name, value)| format!("{}:{}", text(name), text(value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_column_of_every_row_with_a_tag_contains_the_text_of_the_tag() {
        let texts = ["a", "b", "\"", "\\", "a\":\"b", "\"a\":\"b\"", "\\\"", "é", "\n", ""];
        let pairs = || texts.iter().flat_map(|name| texts.iter().map(move |value| (*name, *value)));
        for (name, value) in pairs() {
            let scope =
                ReconcilerScope { tag: Some((name.into(), value.into())), ..ReconcilerScope::default() };
            let text = scope.tag_text().expect("there is a tag");
            for (name, value) in pairs() {
                let tags = BTreeMap::from([("0".to_owned(), "x".to_owned()), (name.into(), value.into())]);
                let column = serde_json::to_string(&tags).expect("tags are JSON");
                let (contains, covers) = (column.contains(&text), scope.covers(NamespaceId(1), &tags));
                assert!(contains == covers || (contains && name.contains('"')), "{text} {column}");
            }
        }
    }
}
