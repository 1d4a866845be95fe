//! Every statement of the store: one file per noun and verb, `sql/<noun>/<verb>.sql`.
//!
//! A file is a template. `{columns}`, `{flow}`, `{gate}` and the like stand for lists of columns that several
//! statements share, in the order in which `row`, `gates` and `records` read them; `{waiting}`, `{flow_running}`,
//! `{gate_budget}` and the like for the stored codes of states and kinds. Codes are filled in as literals and not
//! passed as parameters: only a literal lets the planner prove that the predicate of a partial index holds.

use selvedge_core::class::UNPOOLED;
use selvedge_core::execution::AGEING_MS;
use selvedge_core::flow::FlowState;
use selvedge_core::gate::GateKind;
use selvedge_core::rows::PASSED_MAX;
use selvedge_core::state::StateName;
use selvedge_core::webhook::DeliveryState;
use selvedge_store::{COUNT_SCAN_MAX, FlowDue};
use std::sync::LazyLock;

/// The columns of an execution.
const EXECUTION: &str = "id, submitted_at, namespace, class, partition, flow, spec, wiring, version, epoch, state, \
    claim_priority, due_kind, ready_order, due_at, session, until_at, started_at, ended_at, lease_id, tags, detail, \
    history, joined, suspension, held_by";
/// The number of columns of an execution: the index of the first column after `{columns}`.
pub const EXECUTION_COLUMN_COUNT: usize = 26;

/// The columns of a session.
const SESSION: &str = "id, namespace, worker, instance, ttl_ms, lanes, kinds, capabilities, registered_at, seen_at, \
    renewed_at, draining, life, detail";

/// The columns of a flow: its own, then its counts.
const FLOW: &str = "flows.id, flows.submitted_at, flows.namespace, flows.name, flows.tags, flows.spec, flows.version, \
    flows.state, flows.ended_at, flows.detail, flows.waiting_dependencies, flows.waiting, flows.delayed, flows.active, \
    flows.suspended, flows.held, flows.completed, flows.failed, flows.cancelled, flows.expired, flows.skipped";
/// The number of columns of a flow before its counts.
pub const FLOW_COLUMN_COUNT: usize = 10;
/// The number of live members of a flow.
const LIVE: &str = "flows.waiting_dependencies + flows.waiting + flows.delayed + flows.active + flows.suspended + flows.held";

/// The columns of a gate.
const GATE: &str = "gates.id, gates.namespace, gates.kind, gates.name, gates.part, gates.version, gates.config, \
    gates.active, gates.state, gates.due_at";

/// The largest [`Amount`](selvedge_core::amount::Amount).
const MOST: &str = "2305843009213.693951";
/// The sum of a ledger entry and the amounts added to it, dimension by dimension.
const ADDED: &str = "(
  select coalesce(jsonb_object_agg(dimension, amount), '{}')
  from (
    select each.key as dimension, least(sum(each.value::numeric), {most}) as amount
    from (
      select * from jsonb_each_text(ledger.spent)
      union all
      select * from jsonb_each_text(excluded.spent)
    ) as each
    group by each.key
  ) as summed
)";

/// The columns of an outbox row.
const OUTBOX: &str = "outbox.id, outbox.kind, outbox.at, outbox.position, outbox.namespace, outbox.tags";

/// The columns of a signal except its payload.
const SIGNAL: &str = "signals.execution, signals.number, signals.name, signals.source, signals.waitpoint, \
    signals.waitpoint_name, signals.key, signals.digest, signals.at, signals.effect, signals.taken";

/// The columns of a step.
const STEP: &str = "steps.execution, steps.number, steps.name, steps.kind, steps.attempt, steps.started_at, \
    steps.recorded_at, steps.result";

/// The columns of a waitpoint.
const WAITPOINT: &str = "waitpoints.id, waitpoints.namespace, waitpoints.execution, waitpoints.number, waitpoints.name, \
    waitpoints.source, waitpoints.key, waitpoints.created_at, waitpoints.expires_at, waitpoints.state, \
    waitpoints.signal, waitpoints.effect, waitpoints.signals, waitpoints.prompt, waitpoints.issue";

/// Distance between the keys of two classes that follow each other, so that every priority fits in between.
pub const PRIORITIES_PER_CLASS: i64 = 1 << 16;
/// The position at which a claim starts in a class and priority: the bound of `pair` if it has the same generation,
/// else the beginning. The bounds are $4; the sorted keys of their pairs are $2, their generations $3.
const BOUND: &str = "case when ($2::bigint[])[width_bucket({pair_key}, $2)] = {pair_key} \
    and ($3::bigint[])[width_bucket({pair_key}, $2)] = pair.generation \
    then ($4::timestamptz[])[width_bucket({pair_key}, $2)] \
    else '-infinity' end";

/// The most sessions that `overview/glance` returns.
pub const REGISTERED_LIMIT: usize = 1000;
/// The most numbers that `log/list_newest` returns.
pub const NEWEST_LIMIT: usize = 1000;

/// The columns of an execution that the scan of a list returns.
const LISTED: &str =
    "executions.id, executions.submitted_at, executions.class, executions.state, executions.ended_at";

/// The columns of a schedule.
const SCHEDULE: &str = "schedules.namespace, schedules.name, schedules.version, schedules.spec_version, \
    schedules.spec, schedules.state, schedules.due_at";

/// The columns of an API key.
const API_KEY: &str = "id, digest, name, role, namespaces, created_at, expires_at, last_used_at, revoked_at";

/// The columns of a bulk job.
const BULK_JOB: &str = "id, namespace, state, created_at, ended_at, due_at, spec, progress";

/// The columns of a webhook.
const WEBHOOK: &str = "namespace, name, version, detail";
/// The columns of a delivery except its body.
const DELIVERY: &str = "webhook, number, id, state, detail";

/// The columns of a row of the inbox, without its request.
const INBOX: &str = "number, namespace, refused_at, problem::text, xid::text, id, flow, role, submitted_at";

/// The longest step back of the clock over which the time of the store goes on.
const CLOCK_BRIDGED_MAX: &str = "1 day";
/// The time for which the time of the store goes on without a new note of it. So a clock that is set right again moves the time of
/// the store by no more than this, which is less than what remains of a lease that is kept alive.
const CLOCK_LEAD: &str = "10 seconds";
/// The time between two notes. Far shorter than `CLOCK_LEAD`.
const CLOCK_NOTE_INTERVAL: &str = "2 seconds";
/// The time of the store that follows from the row of `store_clock`. It runs a tenth slower than the clock until the two agree, and
/// never goes back: it stands still while the clock is before the note.
const CARRIED_ON: &str =
    "(store_at + least(greatest(clock_timestamp() - clock_at, interval '0'), interval '{clock_lead}') * 0.9)";
/// The time of the store: the clock of the database, unless that stepped back. The row is read through its index, because sequential
/// scans are disabled and would decide the rest of the plan. It is never before the clock, so whoever read the
/// clock earlier knows a time that no later transaction is before.
const NOW: &str = "greatest(clock_timestamp(), (select {carried_on} from store_clock where single))";
/// The milliseconds by which the time of the store is ahead of the clock.
const AHEAD_MS: &str = "(select greatest(extract(epoch from {carried_on} - clock_timestamp()) * 1000, 0)::bigint from store_clock where single)";

/// Every placeholder with its text. A text may contain placeholders that come later.
static PLACEHOLDERS: LazyLock<Vec<(String, String)>> = LazyLock::new(|| {
    let mut placeholders = Vec::new();
    let mut add = |name: &str, text: &str| placeholders.push((format!("{{{name}}}"), text.to_owned()));
    add("added", ADDED);
    add("now", NOW);
    add("ahead_ms", AHEAD_MS);
    add("carried_on", CARRIED_ON);
    add("clock_bridged_max", CLOCK_BRIDGED_MAX);
    add("clock_lead", CLOCK_LEAD);
    add("clock_note_interval", CLOCK_NOTE_INTERVAL);
    add("bound", BOUND);
    add("api_key", API_KEY);
    add("bulk_job", BULK_JOB);
    add("webhook", WEBHOOK);
    add("delivery", DELIVERY);
    add("schedule", SCHEDULE);
    add("inbox", INBOX);
    add("ageing", &format!("interval '{AGEING_MS} milliseconds'"));
    add("columns", EXECUTION);
    add("flow", FLOW);
    add("gate", GATE);
    add("listed", LISTED);
    add("live", LIVE);
    add("most", MOST);
    add("newest_limit", &NEWEST_LIMIT.to_string());
    add("passed_max", &PASSED_MAX.to_string());
    add("outbox", OUTBOX);
    add("pair_key", &format!("(pair.class * {PRIORITIES_PER_CLASS}::bigint + pair.priority)"));
    add("session", SESSION);
    add("signal", SIGNAL);
    add("step", STEP);
    add("count_scan", &COUNT_SCAN_MAX.to_string());
    add("registered_limit", &REGISTERED_LIMIT.to_string());
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
    for state in DeliveryState::ALL {
        add(&format!("delivery_{}", state.as_str()), &state.code().to_string());
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
    API_KEYS_LOCK = "api_keys/lock";
    API_KEYS_TOUCH = "api_keys/touch";
    API_KEYS_UPSERT = "api_keys/upsert";
    SCHEDULES_DELETE = "schedules/delete";
    SCHEDULES_INSERT = "schedules/insert";
    SCHEDULES_LIST = "schedules/list";
    SCHEDULES_LIST_DUE = "schedules/list_due";
    SCHEDULES_LOCK = "schedules/lock";
    SCHEDULES_READ = "schedules/read";
    SCHEDULES_UPDATE = "schedules/update";
    BOUNDS_FIND_FIRST_WAITING = "bounds/find_first_waiting";
    BOUNDS_FIND_OLDEST_WRITER = "bounds/find_oldest_writer";
    BULK_JOBS_DELETE = "bulk_jobs/delete";
    BULK_JOBS_LIST = "bulk_jobs/list";
    BULK_JOBS_LIST_DUE = "bulk_jobs/list_due";
    BULK_JOBS_LOCK = "bulk_jobs/lock";
    BULK_JOBS_READ = "bulk_jobs/read";
    BULK_JOBS_UPSERT = "bulk_jobs/upsert";
    CLASS_PRIORITIES_DELETE = "class_priorities/delete";
    CLASS_PRIORITIES_UPSERT = "class_priorities/upsert";
    CLASSES_DELETE_UNUSED = "classes/delete_unused";
    CLASSES_INSERT = "classes/insert";
    CLASSES_LIST = "classes/list";
    CLASSES_MARK_REMOVAL = "classes/mark_removal";
    CLASSES_READ_REMOVAL = "classes/read_removal";
    CLASSES_RESTORE = "classes/restore";
    COVERAGE_LIST = "coverage/list";
    DIAGNOSIS_COUNT_STALE = "diagnosis/count_stale";
    DIAGNOSIS_LIST_BLOAT = "diagnosis/list_bloat";
    DIAGNOSIS_LIST_DEAD_ROWS = "diagnosis/list_dead_rows";
    DIAGNOSIS_LIST_INVALID_INDEXES = "diagnosis/list_invalid_indexes";
    DIAGNOSIS_LIST_SETTINGS = "diagnosis/list_settings";
    DIAGNOSIS_LIST_SNAPSHOTS = "diagnosis/list_snapshots";
    DIAGNOSIS_READ_SECRET = "diagnosis/read_secret";
    DIAGNOSIS_READ_SERVER = "diagnosis/read_server";
    EXECUTIONS_COUNT_ACTIVE = "executions/count_active";
    EXECUTIONS_COUNT_BY_LANE = "executions/count_by_lane";
    EXECUTIONS_COUNT_BY_STATE = "executions/count_by_state";
    EXECUTIONS_COUNT_AHEAD = "executions/count_ahead";
    EXECUTIONS_COUNT_HELD = "executions/count_held";
    EXECUTIONS_COUNT_WAITING = "executions/count_waiting";
    EXECUTIONS_DELETE = "executions/delete";
    EXECUTIONS_FETCH = "executions/fetch";
    EXECUTIONS_FIND_HELD = "executions/find_held";
    EXECUTIONS_INSERT = "executions/insert";
    EXECUTIONS_LIST = "executions/list";
    EXECUTIONS_LIST_ACTIVE = "executions/list_active";
    EXECUTIONS_LIST_BY_FLOW = "executions/list_by_flow";
    EXECUTIONS_LIST_BY_STATE = "executions/list_by_state";
    EXECUTIONS_LIST_BY_TAG = "executions/list_by_tag";
    EXECUTIONS_LIST_DUE = "executions/list_due";
    EXECUTIONS_LIST_NEWEST = "executions/list_newest";
    EXECUTIONS_LIST_LONE = "executions/list_lone";
    EXECUTIONS_LIST_WAITING = "executions/list_waiting";
    EXECUTIONS_LOCK = "executions/lock";
    EXECUTIONS_LOCK_AVAILABLE = "executions/lock_available";
    EXECUTIONS_LOCK_CACHED = "executions/lock_cached";
    EXECUTIONS_LOCK_CANDIDATES = "executions/lock_candidates";
    EXECUTIONS_LOCK_HELD = "executions/lock_held";
    EXECUTIONS_MEASURE_LIVE = "executions/measure_live";
    EXECUTIONS_MEASURE_WAITING = "executions/measure_waiting";
    EXECUTIONS_READ = "executions/read";
    EXECUTIONS_LOCK_PASSING = "executions/lock_passing";
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
    FLOWS_INSERT = "flows/insert";
    FLOWS_LIST = "flows/list";
    FLOWS_LIST_BY_NAME = "flows/list_by_name";
    FLOWS_LIST_BY_STATE = "flows/list_by_state";
    FLOWS_LIST_BY_TAG = "flows/list_by_tag";
    FLOWS_LIST_DUE = "flows/list_due";
    FLOWS_LOCK = "flows/lock";
    FLOWS_LOCK_GROWTH = "flows/lock_growth";
    FLOWS_READ = "flows/read";
    FLOWS_UPDATE = "flows/update";
    FRAMES_DELETE = "frames/delete";
    FRAMES_DELETE_BEFORE = "frames/delete_before";
    FRAMES_DELETE_OLD = "frames/delete_old";
    FRAMES_INSERT = "frames/insert";
    FRAMES_LIST = "frames/list";
    GATES_DELETE = "gates/delete";
    GATES_DELETE_PARTS = "gates/delete_parts";
    GATES_GIVE_BACK = "gates/give_back";
    GATES_INSERT = "gates/insert";
    GATES_LIST = "gates/list";
    GATES_LIST_DUE = "gates/list_due";
    GATES_LIST_PARTS = "gates/list_parts";
    GATES_LOCK = "gates/lock";
    GATES_LOCK_LANES = "gates/lock_lanes";
    GATES_READ = "gates/read";
    GATES_UPDATE = "gates/update";
    HISTORY_PAGES_DELETE = "history_pages/delete";
    HISTORY_PAGES_INSERT = "history_pages/insert";
    HISTORY_PAGES_LIST = "history_pages/list";
    INBOX_COUNT = "inbox/count";
    INBOX_DELETE = "inbox/delete";
    INBOX_DELETE_OLD = "inbox/delete_old";
    INBOX_LIST_PENDING = "inbox/list_pending";
    INBOX_LIST_REFUSED = "inbox/list_refused";
    INBOX_LOCK = "inbox/lock";
    INBOX_UPDATE = "inbox/update";
    KEYS_DELETE = "keys/delete";
    KEYS_DELETE_EXPIRED = "keys/delete_expired";
    KEYS_INSERT = "keys/insert";
    KEYS_READ = "keys/read";
    LEASES_CHECK = "leases/check";
    LEASES_LIST = "leases/list";
    LEASES_LIST_EXPIRED = "leases/list_expired";
    LEDGER_ADD = "ledger/add";
    LEDGER_FOLD = "ledger/fold";
    LEDGER_LIST = "ledger/list";
    LEDGER_LIST_BY_EXECUTION = "ledger/list_by_execution";
    LOG_APPEND = "log/append";
    LOG_DELETE_OLD = "log/delete_old";
    LOG_LIST = "log/list";
    LOG_LIST_MISSING_DAYS = "log/list_missing_days";
    LOG_LIST_NEWEST = "log/list_newest";
    LOG_LIST_OLD_DAYS = "log/list_old_days";
    LOG_LIST_WRITERS = "log/list_writers";
    NAMESPACES_CONTINUE = "namespaces/continue";
    NAMESPACES_DELETE_REST = "namespaces/delete_rest";
    NAMESPACES_FIND = "namespaces/find";
    NAMESPACES_INSERT = "namespaces/insert";
    NAMESPACES_LIST = "namespaces/list";
    NAMESPACES_READ = "namespaces/read";
    NAMESPACES_RESTORE = "namespaces/restore";
    NAMESPACES_RESTORE_RETIRED = "namespaces/restore_retired";
    NAMESPACES_RETIRE = "namespaces/retire";
    NAMESPACES_UPDATE = "namespaces/update";
    NODES_DELETE = "nodes/delete";
    NODES_FIND = "nodes/find";
    NODES_INSERT = "nodes/insert";
    NODES_LIST_MEMBERS = "nodes/list_members";
    OUTBOX_DELETE = "outbox/delete";
    OUTBOX_LIST_STALE = "outbox/list_stale";
    OUTBOX_LOCK = "outbox/lock";
    OUTBOX_UPSERT = "outbox/upsert";
    OVERVIEW_GLANCE = "overview/glance";
    OVERVIEW_READ = "overview/read";
    PROJECTED_ATTEMPTS_DELETE = "projected_attempts/delete";
    PROJECTED_EVENTS_DELETE_OLD = "projected_events/delete_old";
    PROJECTION_LOCK = "projection/lock";
    PROJECTION_SAVE = "projection/save";
    PROJECTION_SHARE = "projection/share";
    PROJECTION_TAKE = "projection/take";
    ROLLUPS_DELETE_OLD = "rollups/delete_old";
    ROLLUPS_LIST = "rollups/list";
    ROLLUPS_LIST_BY_LANE = "rollups/list_by_lane";
    ROLLUPS_UPSERT = "rollups/upsert";
    SERVER_IDENTIFY = "server/identify";
    SERVER_NOW = "server/now";
    SESSIONS_DELETE = "sessions/delete";
    SESSIONS_LIST = "sessions/list";
    SESSIONS_LIST_UNSEEN = "sessions/list_unseen";
    SESSIONS_LOCK = "sessions/lock";
    SESSIONS_LOCK_BY_INSTANCE = "sessions/lock_by_instance";
    SESSIONS_READ = "sessions/read";
    SESSIONS_UPSERT = "sessions/upsert";
    SIGNALS_DELETE = "signals/delete";
    SIGNALS_FIND = "signals/find";
    SIGNALS_INSERT = "signals/insert";
    SIGNALS_LIST = "signals/list";
    SIGNALS_LIST_UNTAKEN = "signals/list_untaken";
    SIGNALS_READ = "signals/read";
    SIGNALS_TAKE = "signals/take";
    STEPS_DELETE = "steps/delete";
    STEPS_FIND = "steps/find";
    STEPS_LIST = "steps/list";
    STEPS_READ = "steps/read";
    STEPS_UPSERT = "steps/upsert";
    STORE_CLOCK_BRING_FORWARD = "store_clock/bring_forward";
    STORE_CLOCK_KEEP_PACE = "store_clock/keep_pace";
    STREAMS_DELETE = "streams/delete";
    STREAMS_READ = "streams/read";
    STREAMS_UPSERT = "streams/upsert";
    TABLES_READ_SIZES = "tables/read_sizes";
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
    WAITPOINTS_READ = "waitpoints/read";
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
    WEBHOOKS_LOCK = "webhooks/lock";
    WEBHOOKS_UPDATE = "webhooks/update";
}

/// Creates the partition of a day: `{day}`, from `{from}` to `{to}`. Waits `{wait_ms}` for each lock.
pub const LOG_CREATE_DAY: &str = include_str!("sql/log/create_day.sql");
/// Drops the partition `{day}`. Waits `{wait_ms}` for each lock.
pub const LOG_DROP_DAY: &str = include_str!("sql/log/drop_day.sql");

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::Path;

    /// Every template, including those that are filled where they run.
    fn files() -> Vec<(&'static str, &'static str)> {
        let mut files: Vec<_> = templates().into_iter().map(|(_, file, text)| (file, text)).collect();
        files.extend([("log/create_day", LOG_CREATE_DAY), ("log/drop_day", LOG_DROP_DAY)]);
        files
    }

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
        for (file, text) in files() {
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
        assert_eq!(found, files().iter().map(|(file, _)| file.to_string()).collect());
    }

    #[test]
    fn every_statement_says_what_it_locks_and_which_index_it_expects() {
        for (file, text) in files() {
            let header: Vec<&str> = text.lines().take_while(|line| line.starts_with("-- ")).collect();
            let header = header.join("\n");
            assert!(header.contains("Locks: "), "{file}:\n{header}");
            assert!(header.contains("Index: "), "{file}:\n{header}");
        }
    }
}
