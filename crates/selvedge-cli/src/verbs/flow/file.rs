//! The file of a flow: YAML or JSON with variables.
//!
//! `variables` at the top of the file gives variables their defaults; `--set` comes before them. A text that is only `${name}`
//! becomes the value of the variable, which keeps its type; inside of a longer text the value is inserted. `$${` writes `${`.

use crate::failure::Failure;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

/// Reads the file and replaces its variables. Returns the body of a submission.
pub fn read_flow_file(file: &Path, set: &[(String, String)]) -> Result<Value, Failure> {
    let shown = file.display();
    let text = match file.to_str() {
        Some("-") => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).map(|_| text)
        }
        _ => std::fs::read_to_string(file),
    };
    let text = text.map_err(|error| Failure::Failed(format!("cannot read {shown}: {error}")))?;
    parse(&text, set).map_err(|detail| Failure::Usage(format!("the flow in {shown} {detail}")))
}

fn parse(text: &str, set: &[(String, String)]) -> Result<Value, String> {
    // JSON is read as JSON, so that its numbers keep their form. A mapping of YAML may begin with a brace too.
    let parsed: Value = match (serde_json::from_str(text), text.trim_start().starts_with('{')) {
        (Ok(parsed), _) => parsed,
        (Err(error), true) => serde_saphyr::from_str(text).map_err(|_| format!("is not JSON: {error}"))?,
        (Err(_), false) => serde_saphyr::from_str(text).map_err(|error| format!("is not YAML: {error}"))?,
    };
    let Value::Object(mut flow) = parsed else {
        return Err("is not an object with the fields of a flow: name, nodes, edges, groups".into());
    };
    let mut variables: BTreeMap<String, Value> = match flow.remove("variables") {
        None | Some(Value::Null) => BTreeMap::new(),
        Some(Value::Object(defaults)) => defaults.into_iter().collect(),
        Some(_) => return Err("has variables that are not an object of names and defaults".into()),
    };
    for (name, value) in set {
        // A value that is JSON keeps its type: --set count=3 is a number.
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.clone()));
        variables.insert(name.clone(), value);
    }
    let mut replaced = Map::new();
    for (name, value) in flow {
        replaced.insert(name, replace(value, &variables)?);
    }
    Ok(Value::Object(replaced))
}

fn replace(value: Value, variables: &BTreeMap<String, Value>) -> Result<Value, String> {
    Ok(match value {
        Value::String(text) => replace_text(&text, variables)?,
        Value::Array(items) => {
            Value::Array(items.into_iter().map(|item| replace(item, variables)).collect::<Result<_, _>>()?)
        }
        Value::Object(fields) => {
            let fields = fields.into_iter().map(|(name, value)| Ok((name, replace(value, variables)?)));
            Value::Object(fields.collect::<Result<_, String>>()?)
        }
        other => other,
    })
}

fn replace_text(text: &str, variables: &BTreeMap<String, Value>) -> Result<Value, String> {
    let lookup = |name: &str| {
        variables.get(name).ok_or_else(|| {
            format!("uses the variable {name}, which has no value; give one with --set {name}=VALUE")
        })
    };
    let whole = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    if let Some(name) = whole.filter(|name| !name.contains(['$', '}'])) {
        return lookup(name).cloned();
    }
    let (mut result, mut rest) = (String::new(), text);
    while let Some(at) = rest.find("${") {
        if rest[..at].ends_with('$') {
            result.push_str(&rest[..at - 1]);
            result.push_str("${");
            rest = &rest[at + 2..];
            continue;
        }
        let Some(end) = rest[at..].find('}') else { break };
        result.push_str(&rest[..at]);
        result.push_str(&crate::terminal::flat(lookup(&rest[at + 2..at + end])?));
        rest = &rest[at + end + 1..];
    }
    result.push_str(rest);
    Ok(Value::String(result))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const YAML: &str = "
name: report
variables: {date: today, count: 2}
nodes:
  - {name: load, kind: echo, input: {date: \"${date}\", count: \"${count}\", note: \"of ${date} ($${x})\"}}
  - name: print
    kind: echo
edges:
  - {from: load, to: print}
";

    #[test]
    fn variables_are_replaced_and_keep_their_types() {
        let flow = parse(YAML, &[("date".into(), "2026-03-01".into())]).expect("the file is valid");
        assert_eq!(
            flow,
            json!({
                "name": "report",
                "nodes": [
                    {"name": "load", "kind": "echo",
                     "input": {"date": "2026-03-01", "count": 2, "note": "of 2026-03-01 (${x})"}},
                    {"name": "print", "kind": "echo"},
                ],
                "edges": [{"from": "load", "to": "print"}],
            })
        );
        let json = r#"{"nodes": [{"name": "a", "kind": "${kind}"}]}"#;
        let refused = parse(json, &[]).expect_err("the variable has no value");
        assert!(refused.contains("--set kind=VALUE"), "{refused}");
        assert!(parse("- a\n- b", &[]).is_err() && parse("{", &[]).is_err());
    }
}
