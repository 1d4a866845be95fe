//! A JSON value whose objects keep the order in which their fields were written, so that the document and the reference
//! page list fields as their authors did.

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    /// Null, a boolean, a number or a string; or an example, whose order does not matter.
    Value(Value),
    List(Vec<Node>),
    Object(Vec<(String, Node)>),
}

impl Node {
    /// Returns an object without fields.
    pub fn object() -> Node {
        Node::Object(Vec::new())
    }

    /// Adds a field, or replaces it.
    pub fn set(&mut self, name: &str, value: impl Into<Node>) {
        let Node::Object(fields) = self else { return };
        let value = value.into();
        match fields.iter_mut().find(|(other, _)| other == name) {
            Some((_, old)) => *old = value,
            None => fields.push((name.to_owned(), value)),
        }
    }

    /// Adds a field, and returns the object.
    pub fn with(mut self, name: &str, value: impl Into<Node>) -> Node {
        self.set(name, value);
        self
    }

    /// Returns a field of an object.
    pub fn get(&self, name: &str) -> Option<&Node> {
        self.fields().iter().find(|(other, _)| other == name).map(|(_, value)| value)
    }

    /// Returns the fields of an object; none of any other value.
    pub fn fields(&self) -> &[(String, Node)] {
        match self {
            Node::Object(fields) => fields,
            Node::Value(_) | Node::List(_) => &[],
        }
    }

    /// Returns the items of an array; none of any other value.
    pub fn items(&self) -> &[Node] {
        match self {
            Node::List(items) => items,
            Node::Value(_) | Node::Object(_) => &[],
        }
    }

    /// Returns a string; the empty one of any other value.
    pub fn text(&self) -> &str {
        match self {
            Node::Value(Value::String(text)) => text,
            Node::Value(_) | Node::List(_) | Node::Object(_) => "",
        }
    }

    /// Returns the string in a field; the empty one if there is none.
    pub fn text_of(&self, name: &str) -> &str {
        self.get(name).map_or("", Node::text)
    }
}

impl Serialize for Node {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Node::Value(value) => value.serialize(serializer),
            Node::List(items) => serializer.collect_seq(items),
            Node::Object(fields) => {
                let mut map = serializer.serialize_map(Some(fields.len()))?;
                for (name, value) in fields {
                    map.serialize_entry(name, value)?;
                }
                map.end()
            }
        }
    }
}

impl From<Value> for Node {
    fn from(value: Value) -> Node {
        Node::Value(value)
    }
}

impl From<&str> for Node {
    fn from(text: &str) -> Node {
        Node::Value(text.into())
    }
}

impl From<String> for Node {
    fn from(text: String) -> Node {
        Node::Value(text.into())
    }
}

impl From<bool> for Node {
    fn from(value: bool) -> Node {
        Node::Value(value.into())
    }
}

impl From<i64> for Node {
    fn from(value: i64) -> Node {
        Node::Value(value.into())
    }
}

impl From<Vec<Node>> for Node {
    fn from(items: Vec<Node>) -> Node {
        Node::List(items)
    }
}

impl From<Vec<&str>> for Node {
    fn from(items: Vec<&str>) -> Node {
        Node::List(items.into_iter().map(Node::from).collect())
    }
}
