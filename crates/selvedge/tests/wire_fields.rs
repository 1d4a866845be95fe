//! Every field that the SDK reads from an answer, or writes into a request, is in the OpenAPI document of the server
//! (sdk/openapi.json). A field that the server renames is found here, also where the SDK would read nothing instead.
//!
//! The fields are taken from the source: from every type that serde reads or writes. A type that is not in [`SCHEMAS`] fails the
//! test.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The types of the SDK, and the schemas that have their fields: that of a component, of the `request` or the `answer` of an
/// operation, or a part of one. `[]` stands for the items of a list, `*` for the values of an object.
const SCHEMAS: &[(&str, &[&str])] = &[
    ("Advanced", &["answer advance_clock"]),
    ("AnsweredItem", &["answer signal_waitpoint", "answer answer_waitpoint"]),
    ("Batch", &["request submit_executions"]),
    ("BatchAnswer", &["answer submit_executions"]),
    ("BatchItem", &["answer submit_executions/results/[]"]),
    ("BudgetBody", &["Submission/budgets/[]"]),
    ("BudgetUse", &["Budget"]),
    ("ChildItem", &["Claim/children/*"]),
    ("ClaimBody", &["ClaimRequest"]),
    ("ClaimItem", &["Claim"]),
    ("ClaimedExecution", &["Claim/execution"]),
    ("ClaimsAnswer", &["ClaimAnswer"]),
    ("ConcurrencyBody", &["Submission/concurrency"]),
    ("DebounceBody", &["Debounce"]),
    ("DeliveredItem", &["answer send_signal"]),
    ("Delivery", &["answer list_deliveries/items/[]", "answer replay_delivery/delivery"]),
    ("EdgeBody", &["Edge"]),
    ("EndedItem", &["answer get_execution_result", "FlowResult/results/*"]),
    ("Event", &["Event"]),
    ("Execution", &["Execution"]),
    ("ExecutionError", &["Execution/error"]),
    ("Explanation", &["Explanation"]),
    ("FilterBody", &["request put_webhook/filter"]),
    ("FlowAnswer", &["GrownFlow"]),
    ("FlowBody", &["FlowSubmission"]),
    ("FlowResultItem", &["FlowResult"]),
    ("FlowView", &["Flow"]),
    ("Frame", &["Frame"]),
    ("FramesItem", &["answer list_frames"]),
    ("GraphBody", &["FlowSubmission", "SpawnOp", "request grow_flow"]),
    ("GroupBody", &["FlowSubmission/groups/[]"]),
    ("HeartbeatBody", &["request heartbeat"]),
    ("HeartbeatReply", &["HeartbeatAnswer"]),
    ("IssuedItem", &["OpResult/waitpoints/[]"]),
    ("LeaseItem", &["Claim/lease"]),
    ("LostLease", &["HeartbeatAnswer/lost/[]"]),
    ("OpBody", &["CompleteOp", "FailOp"]),
    ("OpFields", &["Op"]),
    ("Operated", &["answer cancel_execution"]),
    ("OutcomeItem", &["Claim/upstream_outcomes/*"]),
    (
        "Page",
        &[
            "answer list_executions",
            "answer list_schedules",
            "answer list_webhooks",
            "answer list_waitpoints",
        ],
    ),
    ("PageItem", &["answer list_events"]),
    ("PolicyBody", &["JoinPolicy"]),
    ("Progress", &["Execution/progress"]),
    ("Reason", &["Explanation/reasons/[]"]),
    ("ReceivedSignal", &[]), // Read from the record of a wait, which the SDK itself writes.
    ("ReplayedItem", &["answer replay_delivery"]),
    ("ReportBody", &["request report"]),
    ("ReportReply", &["answer report"]),
    ("ResultItem", &["OpResult"]),
    ("RotatedItem", &["answer rotate_webhook_secret"]),
    ("RunAnswer", &["answer run_schedule"]),
    ("SavedItem", &["answer put_webhook"]),
    ("Schedule", &["Schedule"]),
    ("ScheduleBody", &["ScheduleSpec"]),
    ("ScheduleRunError", &["ScheduleRun/error"]),
    ("ScheduleRunItem", &["ScheduleRun"]),
    ("SignalItem", &["answer send_signal/signal"]),
    ("StepRecord", &["Claim/step_records/*"]),
    ("SubmissionBody", &["FlowNode"]),
    ("Submitted", &["answer submit_execution"]),
    ("SummaryItem", &["answer get_summary"]),
    ("TimeItem", &["answer next_times/items/[]"]),
    ("WaitResult", &[]), // Read from the record of a wait, which the SDK itself writes.
    ("WaitpointBody", &["WaitpointOp"]),
    ("WaitpointItem", &["Waitpoint"]),
    ("WaitpointView", &["Waitpoint"]),
    ("Webhook", &["answer get_webhook"]),
    ("WebhookBody", &["request put_webhook"]),
    ("WebhookFilter", &["answer get_webhook/filter"]),
    ("WebhookTest", &["answer test_webhook"]),
    ("WorkBody", &["ScheduleSpec/submit"]),
];

#[test]
fn every_field_that_the_sdk_reads_or_writes_is_in_the_openapi_document() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let document = fs::read_to_string(root.join("../../sdk/openapi.json")).expect("the document is read");
    let document = Document(serde_json::from_str(&document).expect("the document is JSON"));
    let types = types_of(&root.join("src"));
    let listed: Vec<&str> = SCHEMAS.iter().map(|(name, _)| *name).collect();
    assert_eq!(
        types.keys().map(String::as_str).collect::<Vec<_>>(),
        listed,
        "SCHEMAS lists every type, in order"
    );
    let mut wrong = Vec::new();
    for (name, schemas) in SCHEMAS {
        for schema in *schemas {
            let known = document.fields(schema);
            let unknown = types[*name].iter().filter(|field| !known.contains(field.as_str()));
            wrong.extend(unknown.map(|field| format!("{name}: {schema} has no field {field}")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_fields_of_a_type_are_found_in_its_source() {
    let source = r#"
#[derive(Clone, Debug, Deserialize)]
#[non_exhaustive]
pub struct Found {
    /// A field: documented.
    #[serde(rename = "sent_at", deserialize_with = "time")]
    pub at: Timestamp,
    #[serde(flatten)]
    rest: Other,
    pub(super) plain: Option<u32>,
}

#[derive(Clone)]
struct Ignored {
    a: u32,
}
"#;
    let mut types = BTreeMap::new();
    read_types(source, &mut types);
    assert_eq!(types.keys().collect::<Vec<_>>(), ["Found"]);
    assert_eq!(types["Found"].iter().collect::<Vec<_>>(), ["plain", "sent_at"]);
}

/// Returns the fields of every type under a directory that serde reads or writes.
fn types_of(directory: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let mut types = BTreeMap::new();
    for file in files(directory) {
        read_types(&fs::read_to_string(file).expect("the source is read"), &mut types);
    }
    types
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).expect("the directory is read");
    let paths = entries.map(|entry| entry.expect("the entry is read").path());
    let (directories, found): (Vec<_>, Vec<_>) = paths.partition(|path| path.is_dir());
    found.into_iter().chain(directories.iter().flat_map(|directory| files(directory))).collect()
}

/// Reads the types of a file. The source is formatted, so a type begins and ends at the first column.
fn read_types(source: &str, types: &mut BTreeMap<String, BTreeSet<String>>) {
    let mut lines = source.lines();
    while let Some(line) = lines.next() {
        if !line.starts_with("#[derive(") || !line.contains("erialize") {
            continue;
        }
        let Some(head) = lines.by_ref().find(|line| line.contains("struct ") || line.contains("enum "))
        else {
            return;
        };
        let name =
            head.split("struct ").last().and_then(|rest| rest.split("enum ").last()).unwrap_or_default();
        let name: String = name.chars().take_while(|c| c.is_alphanumeric()).collect();
        if !head.ends_with('{') {
            continue;
        }
        let fields = types.entry(name).or_default();
        let (mut renamed, mut is_flat) = (None, false);
        for line in lines.by_ref().take_while(|line| *line != "}").map(str::trim) {
            if line.starts_with("#[serde(") {
                is_flat |= line.contains("flatten");
                let rename = line.split("rename = \"").nth(1).and_then(|rest| rest.split('"').next());
                renamed = rename.map(str::to_owned).or(renamed);
            } else if let Some(field) = field_of(line) {
                let field = renamed.take().unwrap_or_else(|| field.to_owned());
                if !std::mem::take(&mut is_flat) {
                    fields.insert(field);
                }
            }
        }
    }
}

/// Returns the name of the field that a line declares.
fn field_of(line: &str) -> Option<&str> {
    let (before, _) = line.split_once(": ").filter(|_| !line.starts_with("//"))?;
    let name = before.rsplit(' ').next()?;
    name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_').then_some(name)
}

/// The OpenAPI document.
struct Document(Value);

impl Document {
    /// Returns the fields of the schema at an address.
    fn fields(&self, address: &str) -> BTreeSet<&str> {
        let mut parts = address.split('/');
        let mut found = self.begin(parts.next().unwrap_or_default());
        for part in parts {
            found = found
                .into_iter()
                .filter_map(|schema| match part {
                    "[]" => schema.get("items"),
                    "*" => schema.get("additionalProperties").filter(|values| values.is_object()),
                    name => schema.get("properties").and_then(|properties| properties.get(name)),
                })
                .flat_map(|schema| self.alternatives(schema))
                .collect();
        }
        let fields = found.iter().filter_map(|schema| schema.get("properties")?.as_object());
        let fields: BTreeSet<&str> = fields.flat_map(|fields| fields.keys().map(String::as_str)).collect();
        assert!(!fields.is_empty(), "the document has no object at {address}");
        fields
    }

    /// Returns the schemas of a component, or of the request or the answers of an operation.
    fn begin(&self, name: &str) -> Vec<&Value> {
        let Some((side, operation)) = name.split_once(' ') else {
            return self.alternatives(&self.0["components"]["schemas"][name]);
        };
        let operations = self.0["paths"].as_object().into_iter().flatten();
        let mut operations = operations.flat_map(|(_, methods)| methods.as_object().into_iter().flatten());
        let found = operations.find(|(_, found)| found["operationId"] == operation);
        let (_, found) = found.unwrap_or_else(|| panic!("there is no operation {operation}"));
        let bodies: Vec<&Value> = match side {
            "request" => vec![&found["requestBody"]],
            _ => {
                let answers = found["responses"].as_object().into_iter().flatten();
                answers.filter(|(status, _)| status.starts_with('2')).map(|(_, answer)| answer).collect()
            }
        };
        let schemas = bodies.into_iter().map(|body| &body["content"]["application/json"]["schema"]);
        schemas.flat_map(|schema| self.alternatives(schema)).collect()
    }

    /// Returns the schemas that a schema consists of.
    fn alternatives<'a>(&'a self, schema: &'a Value) -> Vec<&'a Value> {
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            return self
                .alternatives(self.0.pointer(reference.trim_start_matches('#')).unwrap_or(&Value::Null));
        }
        let parts = ["allOf", "anyOf", "oneOf"].iter().filter_map(|word| schema.get(word)?.as_array());
        let parts = parts.flatten().flat_map(|part| self.alternatives(part));
        std::iter::once(schema).chain(parts).collect()
    }
}
