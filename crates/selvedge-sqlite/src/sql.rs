//! Every statement of the store: one file per noun and verb, `sql/<noun>/<verb>.sql`.
//!
//! A file is a template. `{columns}`, `{flow}`, `{gate}` and the like stand for lists of columns that several
//! statements share, in the order in which `row`, `gates` and `record` read them; `{waiting}`, `{flow_running}`,
//! `{gate_budget}` and the like for the stored codes of states and kinds. Codes are filled in as literals and not
//! passed as parameters: only a literal lets the planner prove that the predicate of a partial index holds.
//!
//! No statement locks rows: one thread writes, and readers see snapshots.

use selvedge_core::class::UNPOOLED;
use selvedge_core::execution::AGEING_MS;
use selvedge_core::flow::FlowState;
use selvedge_core::gate::GateKind;
use selvedge_core::state::StateName;
use selvedge_store::columns::COUNTED;
use selvedge_store::{COUNT_SCAN_MAX, FlowDue};
use std::sync::LazyLock;

/// The columns of an execution.
const EXECUTION: &str = "id, partition, namespace, class, flow, submitted_at, spec, version, state, claim_priority, \
    ready_order, epoch, due_kind, due_at, session, lease_id, until_at, started_at, ended_at, tags, detail, history, \
    joined, suspension, held_by, gate, wiring";
/// The number of columns of an execution: the index of the first column after `{columns}`.
pub const EXECUTION_COLUMN_COUNT: usize = 27;

/// The columns of a session.
const SESSION: &str = "id, namespace, worker, instance, ttl_ms, lanes, kinds, capabilities, registered_at, seen_at, \
    renewed_at, draining, life, detail";

/// The columns of a flow before its counts.
const FLOW: &str = "id, namespace, submitted_at, name, tags, spec, version, state, ended_at, detail";
/// The number of columns of a flow before its counts.
pub const FLOW_COLUMN_COUNT: usize = 10;

/// The columns of a gate.
const GATE: &str = "id, namespace, kind, name, part, version, config, active, state, due_at";

/// The columns of a ledger entry.
const LEDGER: &str = "gate, period, execution, spent";

/// The columns of an outbox row.
const OUTBOX: &str = "id, kind, at, position, namespace, tags";

/// The columns of a signal except its payload.
const SIGNAL: &str =
    "execution, number, name, source, waitpoint, waitpoint_name, key, digest, at, effect, taken";

/// The columns of a step.
const STEP: &str = "execution, number, name, kind, attempt, started_at, recorded_at, result";

/// The columns of a token key.
const TOKEN_KEY: &str = "id, fingerprint, created_at, retires_at";

/// The columns of a waitpoint.
const WAITPOINT: &str = "execution, number, id, namespace, name, source, key, created_at, expires_at, state, signal, effect, \
    signals, prompt, issue";

/// The size of the input of an execution, in bytes. Does not read the input.
const INPUT_BYTES: &str =
    "ifnull(length(input), (select length(body) from inputs where inputs.execution = executions.id))";

/// The columns of an API key.
/// The columns of a schedule.
const SCHEDULE: &str = "namespace, name, version, spec_version, spec, state, due_at";

/// The columns of an API key.
const API_KEY: &str = "id, digest, name, role, namespaces, created_at, expires_at, last_used_at, revoked_at";

/// The columns of a bulk job.
const BULK_JOB: &str = "id, namespace, state, created_at, ended_at, due_at, spec, progress";

/// The columns of a webhook.
const WEBHOOK: &str = "namespace, name, version, detail";
/// The columns of a delivery except its body.
const DELIVERY: &str = "webhook, number, id, state, detail";

/// Every placeholder with its text.
static PLACEHOLDERS: LazyLock<Vec<(String, String)>> = LazyLock::new(|| {
    let mut placeholders = Vec::new();
    let mut add = |name: &str, text: &str| placeholders.push((format!("{{{name}}}"), text.to_owned()));
    // The weight of one level of priority, in microseconds.
    add("api_key", API_KEY);
    add("bulk_job", BULK_JOB);
    add("webhook", WEBHOOK);
    add("delivery", DELIVERY);
    add("schedule", SCHEDULE);
    add("ageing", &(AGEING_MS * 1000).to_string());
    add("columns", EXECUTION);
    add("flow", &format!("{FLOW}, {}", COUNTED.map(|(column, _)| column).join(", ")));
    add("gate", GATE);
    add("input_bytes", INPUT_BYTES);
    add("ledger", LEDGER);
    add("outbox", OUTBOX);
    add("session", SESSION);
    add("signal", SIGNAL);
    add("step", STEP);
    add("token_key", TOKEN_KEY);
    add("count_scan", &COUNT_SCAN_MAX.to_string());
    add("unpooled", &UNPOOLED.to_string());
    add("waitpoint", WAITPOINT);
    for state in StateName::ALL {
        add(state.as_str(), &state.code().to_string());
    }
    for state in FlowState::ALL {
        add(&format!("flow_{}", state.as_str()), &state.code().to_string());
    }
    for due in FlowDue::ALL {
        let name = match due {
            FlowDue::Settle => "flow_settle",
            FlowDue::Delete => "flow_delete",
        };
        add(name, &due.code().to_string());
    }
    for kind in GateKind::ALL {
        add(&format!("gate_{}", kind.as_str()), &kind.code().to_string());
    }
    placeholders
});

/// Replaces every placeholder of a template.
fn fill(template: &str) -> String {
    PLACEHOLDERS.iter().fold(template.to_owned(), |text, (name, value)| text.replace(name, value))
}

macro_rules! statements {
    ($($name:ident = $file:literal;)*) => {
        $(
            #[doc = concat!("`sql/", $file, ".sql`")]
            pub static $name: LazyLock<String> =
                LazyLock::new(|| fill(include_str!(concat!("sql/", $file, ".sql"))));
        )*

        /// Every statement, by the path of its file: `noun/verb`.
        pub fn all() -> Vec<(&'static str, &'static str)> {
            vec![$(($file, $name.as_str())),*]
        }

        /// Every constant with the path and the text of its file.
        #[cfg(test)]
        fn templates() -> Vec<(&'static str, &'static str, &'static str)> {
            vec![$((stringify!($name), $file, include_str!(concat!("sql/", $file, ".sql")))),*]
        }
    };
}

statements! {
    API_KEYS_FIND = "api_keys/find";
    API_KEYS_LIST = "api_keys/list";
    API_KEYS_READ = "api_keys/read";
    API_KEYS_TOUCH = "api_keys/touch";
    API_KEYS_UPSERT = "api_keys/upsert";
    BULK_JOBS_DELETE = "bulk_jobs/delete";
    BULK_JOBS_FIND_NEXT_DUE = "bulk_jobs/find_next_due";
    BULK_JOBS_LIST = "bulk_jobs/list";
    BULK_JOBS_LIST_DUE = "bulk_jobs/list_due";
    BULK_JOBS_READ = "bulk_jobs/read";
    BULK_JOBS_UPSERT = "bulk_jobs/upsert";
    SCHEDULES_DELETE = "schedules/delete";
    SCHEDULES_FIND_NEXT_DUE = "schedules/find_next_due";
    SCHEDULES_INSERT = "schedules/insert";
    SCHEDULES_LIST = "schedules/list";
    SCHEDULES_LIST_DUE = "schedules/list_due";
    SCHEDULES_READ = "schedules/read";
    SCHEDULES_UPDATE = "schedules/update";
    CLASSES_DELETE = "classes/delete";
    CLASSES_INSERT = "classes/insert";
    CLASSES_LIST = "classes/list";
    CLASSES_LIST_UNUSED = "classes/list_unused";
    CLASSES_TOUCH = "classes/touch";
    CLOCK_READ_FLOOR = "clock/read_floor";
    EXECUTIONS_COUNT_ACTIVE = "executions/count_active";
    EXECUTIONS_COUNT_AHEAD = "executions/count_ahead";
    EXECUTIONS_COUNT_HELD = "executions/count_held";
    EXECUTIONS_COUNT_POOLED = "executions/count_pooled";
    EXECUTIONS_COUNT_WAITING = "executions/count_waiting";
    EXECUTIONS_DELETE = "executions/delete";
    EXECUTIONS_FETCH = "executions/fetch";
    EXECUTIONS_FIND_CANDIDATES = "executions/find_candidates";
    EXECUTIONS_FIND_HELD = "executions/find_held";
    EXECUTIONS_FIND_POOLED = "executions/find_pooled";
    EXECUTIONS_FIND_NEXT_DUE = "executions/find_next_due";
    EXECUTIONS_INSERT = "executions/insert";
    EXECUTIONS_LIST = "executions/list";
    EXECUTIONS_LIST_BY_FLOW = "executions/list_by_flow";
    EXECUTIONS_LIST_BY_STATE = "executions/list_by_state";
    EXECUTIONS_LIST_BY_TAG = "executions/list_by_tag";
    EXECUTIONS_LIST_DUE = "executions/list_due";
    EXECUTIONS_LIST_OLDEST = "executions/list_oldest";
    EXECUTIONS_LIST_NEWEST = "executions/list_newest";
    EXECUTIONS_LIST_LONE = "executions/list_lone";
    EXECUTIONS_MEASURE_LIVE = "executions/measure_live";
    EXECUTIONS_MEASURE_POOLED = "executions/measure_pooled";
    EXECUTIONS_MEASURE_WAITING = "executions/measure_waiting";
    EXECUTIONS_READ = "executions/read";
    EXECUTIONS_FIND_PASSING = "executions/find_passing";
    EXECUTIONS_READ_CANDIDATE = "executions/read_candidate";
    EXECUTIONS_READ_HEAD = "executions/read_head";
    EXECUTIONS_READ_INPUTS = "executions/read_inputs";
    EXECUTIONS_READ_RELATIVES = "executions/read_relatives";
    EXECUTIONS_READ_SIZES = "executions/read_sizes";
    EXECUTIONS_REWIRE = "executions/rewire";
    EXECUTIONS_UPDATE = "executions/update";
    EXECUTIONS_UPDATE_INPUT = "executions/update_input";
    FLOW_TAGS_DELETE = "flow_tags/delete";
    FLOW_TAGS_INSERT = "flow_tags/insert";
    FLOWS_ADD_COUNTS = "flows/add_counts";
    FLOWS_COUNT_BY_STATE = "flows/count_by_state";
    FLOWS_DELETE = "flows/delete";
    FLOWS_FIND_NEXT_DUE = "flows/find_next_due";
    FLOWS_INSERT = "flows/insert";
    FLOWS_LIST = "flows/list";
    FLOWS_LIST_BY_NAME = "flows/list_by_name";
    FLOWS_LIST_BY_STATE = "flows/list_by_state";
    FLOWS_LIST_BY_TAG = "flows/list_by_tag";
    FLOWS_LIST_DUE = "flows/list_due";
    FLOWS_READ = "flows/read";
    FLOWS_READ_TAGS = "flows/read_tags";
    FLOWS_UPDATE = "flows/update";
    FRAMES_DELETE = "frames/delete";
    FRAMES_DELETE_BEFORE = "frames/delete_before";
    FRAMES_DELETE_OLD = "frames/delete_old";
    FRAMES_INSERT = "frames/insert";
    FRAMES_LIST = "frames/list";
    GATES_DELETE = "gates/delete";
    GATES_DELETE_PARTS = "gates/delete_parts";
    GATES_FIND_NEXT_DUE = "gates/find_next_due";
    GATES_GIVE_BACK = "gates/give_back";
    GATES_HAS_LANES = "gates/has_lanes";
    GATES_INSERT = "gates/insert";
    GATES_LIST = "gates/list";
    GATES_LIST_DUE = "gates/list_due";
    GATES_LIST_PARTS = "gates/list_parts";
    GATES_READ = "gates/read";
    GATES_UPDATE = "gates/update";
    HISTORY_PAGES_DELETE = "history_pages/delete";
    HISTORY_PAGES_INSERT = "history_pages/insert";
    HISTORY_PAGES_LIST = "history_pages/list";
    INPUTS_DELETE = "inputs/delete";
    INPUTS_INSERT = "inputs/insert";
    KEPT_SECRET_READ = "kept_secret/read";
    KEYS_DELETE = "keys/delete";
    KEYS_DELETE_EXPIRED = "keys/delete_expired";
    KEYS_INSERT = "keys/insert";
    KEYS_READ = "keys/read";
    LEASES_LIST = "leases/list";
    LEASES_LIST_EXPIRED = "leases/list_expired";
    LEDGER_DELETE = "ledger/delete";
    LEDGER_DELETE_PARTS = "ledger/delete_parts";
    LEDGER_INSERT = "ledger/insert";
    LEDGER_LIST = "ledger/list";
    LEDGER_LIST_BY_EXECUTION = "ledger/list_by_execution";
    LEDGER_READ = "ledger/read";
    LEDGER_UPSERT = "ledger/upsert";
    LOG_APPEND = "log/append";
    LOG_DELETE_OLD = "log/delete_old";
    LOG_FIND_CUT = "log/find_cut";
    LOG_LIST = "log/list";
    LOG_READ_NEWEST = "log/read_newest";
    LOG_WINDOW_READ = "log_window/read";
    LOG_WINDOW_UPDATE = "log_window/update";
    NAMESPACES_DELETE_BULK_JOBS = "namespaces/delete_bulk_jobs";
    NAMESPACES_DELETE_EVENTS = "namespaces/delete_events";
    NAMESPACES_DELETE_GATES = "namespaces/delete_gates";
    NAMESPACES_DELETE_KEYS = "namespaces/delete_keys";
    NAMESPACES_DELETE_LEDGER = "namespaces/delete_ledger";
    NAMESPACES_DELETE_ROLLUPS = "namespaces/delete_rollups";
    NAMESPACES_DELETE_SESSIONS = "namespaces/delete_sessions";
    NAMESPACES_FIND = "namespaces/find";
    NAMESPACES_INSERT = "namespaces/insert";
    NAMESPACES_LIST = "namespaces/list";
    NAMESPACES_READ = "namespaces/read";
    NAMESPACES_RETIRE = "namespaces/retire";
    NAMESPACES_UPDATE = "namespaces/update";
    NODES_DELETE = "nodes/delete";
    NODES_FIND = "nodes/find";
    NODES_INSERT = "nodes/insert";
    NODES_LIST_MEMBERS = "nodes/list_members";
    OUTBOX_DELETE = "outbox/delete";
    OUTBOX_FIND_OLDEST = "outbox/find_oldest";
    OUTBOX_LIST_STALE = "outbox/list_stale";
    OUTBOX_READ = "outbox/read";
    OUTBOX_UPSERT = "outbox/upsert";
    OVERVIEW_READ = "overview/read";
    PROJECTED_ATTEMPTS_DELETE = "projected_attempts/delete";
    PROJECTED_ATTEMPTS_END = "projected_attempts/end";
    PROJECTED_ATTEMPTS_UPSERT = "projected_attempts/upsert";
    PROJECTED_EVENTS_DELETE_OLD = "projected_events/delete_old";
    PROJECTED_EVENTS_INSERT = "projected_events/insert";
    PROJECTION_MOVE = "projection/move";
    PROJECTION_READ = "projection/read";
    ROLLUPS_DELETE_OLD = "rollups/delete_old";
    ROLLUPS_LIST = "rollups/list";
    ROLLUPS_LIST_BY_LANE = "rollups/list_by_lane";
    ROLLUPS_UPSERT = "rollups/upsert";
    SCHEMA_CREATE = "schema/create";
    SCHEMA_READ = "schema/read";
    SCHEMA_UPSERT = "schema/upsert";
    SESSIONS_DELETE = "sessions/delete";
    SESSIONS_LIST = "sessions/list";
    SESSIONS_LIST_BY_INSTANCE = "sessions/list_by_instance";
    SESSIONS_LIST_UNSEEN = "sessions/list_unseen";
    SESSIONS_READ = "sessions/read";
    SESSIONS_UPSERT = "sessions/upsert";
    SIGNALS_DELETE = "signals/delete";
    SIGNALS_FIND = "signals/find";
    SIGNALS_INSERT = "signals/insert";
    SIGNALS_LIST = "signals/list";
    SIGNALS_LIST_UNTAKEN = "signals/list_untaken";
    SIGNALS_TAKE = "signals/take";
    STEPS_DELETE = "steps/delete";
    STEPS_FIND = "steps/find";
    STEPS_LIST = "steps/list";
    STEPS_UPSERT = "steps/upsert";
    STREAMS_DELETE = "streams/delete";
    STREAMS_RAISE_BEST_EFFORT_FROM = "streams/raise_best_effort_from";
    STREAMS_READ = "streams/read";
    STREAMS_UPSERT = "streams/upsert";
    SUMMARIES_DELETE = "summaries/delete";
    SUMMARIES_UPSERT = "summaries/upsert";
    TAGS_DELETE = "tags/delete";
    TAGS_INSERT = "tags/insert";
    TOKEN_KEYS_DELETE = "token_keys/delete";
    TOKEN_KEYS_LIST = "token_keys/list";
    TOKEN_KEYS_UPSERT = "token_keys/upsert";
    WAITPOINTS_DELETE = "waitpoints/delete";
    WAITPOINTS_FIND = "waitpoints/find";
    WAITPOINTS_LIST = "waitpoints/list";
    WAITPOINTS_LIST_BY_SOURCE = "waitpoints/list_by_source";
    WAITPOINTS_LIST_BY_STATE = "waitpoints/list_by_state";
    WAITPOINTS_UPSERT = "waitpoints/upsert";
    WEBHOOK_DELIVERIES_DELETE = "webhook_deliveries/delete";
    WEBHOOK_DELIVERIES_FIND = "webhook_deliveries/find";
    WEBHOOK_DELIVERIES_LIST = "webhook_deliveries/list";
    WEBHOOK_DELIVERIES_LIST_BY_STATE = "webhook_deliveries/list_by_state";
    WEBHOOK_DELIVERIES_PRUNE = "webhook_deliveries/prune";
    WEBHOOK_DELIVERIES_UPSERT = "webhook_deliveries/upsert";
    WEBHOOKS_DELETE = "webhooks/delete";
    WEBHOOKS_FIND = "webhooks/find";
    WEBHOOKS_INSERT = "webhooks/insert";
    WEBHOOKS_LIST = "webhooks/list";
    WEBHOOKS_UPDATE = "webhooks/update";
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::Path;

    /// The words of a statement without its comments.
    fn words(text: &str) -> Vec<String> {
        let code: Vec<&str> = text.lines().filter_map(|line| line.split("--").next()).collect();
        code.join(" ").replace(['(', ')', ','], " ").split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn no_statement_contains_an_unfilled_placeholder() {
        for (file, text) in all() {
            for part in text.split('{').skip(1) {
                let inside = part.split('}').next().unwrap_or_default();
                let is_name =
                    !inside.is_empty() && inside.chars().all(|c| c.is_ascii_lowercase() || c == '_');
                assert!(!is_name, "{file}: {{{inside}}}");
            }
        }
    }

    #[test]
    fn no_statement_compares_a_state_or_a_kind_with_a_bare_number() {
        for (_, file, text) in templates() {
            let words = words(text);
            for (index, word) in words.iter().enumerate() {
                let column = word.rsplit('.').next().unwrap_or_default();
                if !["state", "kind", "due_kind"].contains(&column) {
                    continue;
                }
                let operators = ["=", "<>", "<", ">", "<=", ">=", "in", "not"];
                let mut after = words[index + 1..].iter().peekable();
                let compares = after.next_if(|word| operators.contains(&word.as_str())).is_some();
                let value = after.find(|word| !operators.contains(&word.as_str()));
                let is_number = value.is_some_and(|value| value.starts_with(|c: char| c.is_ascii_digit()));
                assert!(!(compares && is_number), "{file}: {word} {value:?}");
            }
        }
    }

    #[test]
    fn every_file_is_a_statement_and_names_its_constant() {
        for (constant, file, _) in templates() {
            assert_eq!(constant.to_lowercase(), file.replace('/', "_"));
        }
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/sql");
        let mut found = BTreeSet::new();
        for noun in std::fs::read_dir(&folder).expect("src/sql is a folder") {
            for verb in std::fs::read_dir(noun.expect("a noun").path()).expect("a noun is a folder") {
                let path = verb.expect("a verb").path().with_extension("");
                found.insert(path.strip_prefix(&folder).expect("it is inside").display().to_string());
            }
        }
        assert_eq!(found, templates().iter().map(|(_, file, _)| file.to_string()).collect());
    }

    #[test]
    fn every_statement_says_which_index_it_expects() {
        for (_, file, text) in templates() {
            let header: Vec<&str> = text.lines().take_while(|line| line.starts_with("-- ")).collect();
            assert!(
                header.iter().any(|line| line.starts_with("-- Index: ")),
                "{file}:\n{}",
                header.join("\n")
            );
        }
    }
}
