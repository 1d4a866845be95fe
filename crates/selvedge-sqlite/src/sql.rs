//! Every statement, by noun and verb. The columns of what is read as a whole row are written once, here.

use selvedge_core::execution::AGEING_MS;
use selvedge_store::columns::COUNTED;
use std::sync::LazyLock;

/// The columns of an execution, in the order in which `row` reads them.
const COLUMNS: &str = "id, partition, namespace, class, flow, submitted_at, spec, version, state, priority, \
    ready_order, epoch, due_kind, due_at, session, lease_id, until_at, started_at, ended_at, tags, detail, history, \
    joined, suspension, gate, wiring";
/// How many there are.
pub const WIDTH: usize = 26;

/// The columns of a session, in the order in which `row` reads them.
const SESSION: &str = "id, namespace, worker, instance, ttl_ms, lanes, kinds, capabilities, registered_at, seen_at, \
    renewed_at, draining";

/// The columns of a flow before its counts, in the order in which `row` reads them.
const FLOW: &str = "id, namespace, submitted_at, name, tags, spec, version, state, ended_at, detail";
/// How many there are.
pub const FLOW_WIDTH: usize = 10;

/// The columns of a row of the outbox, in the order in which `row` reads them.
const OUTBOX: &str = "id, kind, at, position, namespace, tags";

/// The columns of a signal before its payload, in the order in which `record` reads them.
const SIGNAL: &str =
    "execution, number, name, source, waitpoint, waitpoint_name, key, digest, at, effect, taken";

/// The columns of a step, in the order in which `record` reads them.
const STEP: &str = "execution, number, name, kind, attempt, started_at, recorded_at, result";

/// The columns of a waitpoint, in the order in which `record` reads them.
const WAITPOINT: &str =
    "execution, number, id, namespace, name, source, key, created_at, expires_at, state, signal, effect";

/// The columns of a key of tokens, in the order in which `record` reads them.
const TOKEN_KEY: &str = "id, fingerprint, created_at, retires_at";

/// The columns of a gate, in the order in which `gates` reads them.
const GATE: &str = "id, namespace, kind, name, part, version, config, active, state, due_at";

/// The columns of an entry of the ledger, in the order in which `gates` reads them.
const LEDGER: &str = "gate, period, execution, spent";

/// What a level of priority is worth, in microseconds.
fn ageing() -> String {
    (AGEING_MS * 1000).to_string()
}

fn flow() -> String {
    format!("{FLOW}, {}", COUNTED.map(|(column, _)| column).join(", "))
}

macro_rules! statements {
    ($($name:ident = $file:literal;)*) => {
        $(
            #[doc = concat!("`sql/", $file, ".sql`")]
            pub static $name: LazyLock<String> = LazyLock::new(|| {
                include_str!(concat!("sql/", $file, ".sql"))
                    .replace("{ageing}", &ageing())
                    .replace("{columns}", COLUMNS)
                    .replace("{session}", SESSION)
                    .replace("{flow}", &flow())
                    .replace("{outbox}", OUTBOX)
                    .replace("{signal}", SIGNAL)
                    .replace("{step}", STEP)
                    .replace("{waitpoint}", WAITPOINT)
                    .replace("{token_key}", TOKEN_KEY)
                    .replace("{gate}", GATE)
                    .replace("{ledger}", LEDGER)
            });
        )*

        /// Every statement, by the name of its file.
        pub fn statements() -> Vec<(&'static str, &'static str)> {
            vec![$(($file, $name.as_str())),*]
        }
    };
}

statements! {
    CANDIDATE_AHEAD = "candidate_ahead";
    CANDIDATE_FIND = "candidate_find";
    CANDIDATE_READ = "candidate_read";
    CLASS_FIND = "class_find";
    CLASS_INTERN = "class_intern";
    CLASS_LIST = "class_list";
    CLOCK_FLOOR = "clock_floor";
    DUE_FIND = "due_find";
    DUE_NEXT = "due_next";
    EXECUTION_DELETE = "execution_delete";
    EXECUTION_FETCH = "execution_fetch";
    EXECUTION_INSERT = "execution_insert";
    EXECUTION_READ = "execution_read";
    EXECUTION_REWIRE = "execution_rewire";
    EXECUTION_UPDATE = "execution_update";
    FLOW_COUNT = "flow_count";
    FLOW_DELETE = "flow_delete";
    FLOW_DUE_FIND = "flow_due_find";
    FLOW_DUE_NEXT = "flow_due_next";
    FLOW_INSERT = "flow_insert";
    FLOW_LIST_ALL = "flow_list_all";
    FLOW_LIST_OF_STATE = "flow_list_of_state";
    FLOW_LIST_OF_TAG = "flow_list_of_tag";
    FLOW_READ = "flow_read";
    FLOW_TAGS_READ = "flow_tags_read";
    FLOW_TAG_DELETE = "flow_tag_delete";
    FLOW_TAG_INSERT = "flow_tag_insert";
    FLOW_UPDATE = "flow_update";
    FRAME_DELETE = "frame_delete";
    FRAME_DELETE_OLD = "frame_delete_old";
    FRAME_DROP = "frame_drop";
    FRAME_INSERT = "frame_insert";
    FRAME_LIST = "frame_list";
    GATE_DELETE = "gate_delete";
    GATE_DELETE_PARTS = "gate_delete_parts";
    GATE_DUE_FIND = "gate_due_find";
    GATE_DUE_NEXT = "gate_due_next";
    GATE_FREE = "gate_free";
    GATE_HAS_LANES = "gate_has_lanes";
    GATE_INSERT = "gate_insert";
    GATE_LIST = "gate_list";
    GATE_LIST_PARTS = "gate_list_parts";
    GATE_READ = "gate_read";
    GATE_UPDATE = "gate_update";
    HELD_COUNT = "held_count";
    HELD_FIND = "held_find";
    HISTORY_PAGE_DELETE = "history_page_delete";
    HISTORY_PAGE_INSERT = "history_page_insert";
    HISTORY_PAGE_LIST = "history_page_list";
    INPUT_DELETE = "input_delete";
    INPUT_INSERT = "input_insert";
    INPUT_READ = "input_read";
    KEY_DELETE = "key_delete";
    KEY_DELETE_EXPIRED = "key_delete_expired";
    KEY_INSERT = "key_insert";
    KEY_READ = "key_read";
    LAPSED_FIND = "lapsed_find";
    LEASE_LIST = "lease_list";
    LEDGER_DELETE = "ledger_delete";
    LEDGER_DELETE_PARTS = "ledger_delete_parts";
    LEDGER_INSERT = "ledger_insert";
    LEDGER_LIST = "ledger_list";
    LEDGER_LIST_OF = "ledger_list_of";
    LEDGER_READ = "ledger_read";
    LEDGER_WRITE = "ledger_write";
    LIST_ALL = "list_all";
    LIST_OF_FLOW = "list_of_flow";
    LIST_OF_LONE = "list_of_lone";
    LIST_OF_STATE = "list_of_state";
    LIST_OF_TAG = "list_of_tag";
    LOG_APPEND = "log_append";
    LOG_CUT = "log_cut";
    LOG_DROP = "log_drop";
    LOG_DROPPED = "log_dropped";
    LOG_NEWEST = "log_newest";
    LOG_READ = "log_read";
    LOG_WINDOW_WRITE = "log_window_write";
    MEMBER_LIST = "member_list";
    NAMESPACE_FIND = "namespace_find";
    NAMESPACE_INTERN = "namespace_intern";
    NAMESPACE_LIST = "namespace_list";
    NODE_DELETE = "node_delete";
    NODE_FIND = "node_find";
    NODE_INSERT = "node_insert";
    OUTBOX_DELETE = "outbox_delete";
    OUTBOX_FIND = "outbox_find";
    OUTBOX_NEXT = "outbox_next";
    OUTBOX_READ = "outbox_read";
    OUTBOX_WRITE = "outbox_write";
    OVERVIEW_READ = "overview_read";
    RELATIVE_READ = "relative_read";
    SCHEMA_CREATE = "schema_create";
    SCHEMA_READ = "schema_read";
    SCHEMA_WRITE = "schema_write";
    SECRET_KEEP = "secret_keep";
    SECRET_READ = "secret_read";
    SESSION_DELETE = "session_delete";
    SESSION_LIST = "session_list";
    SESSION_OF_INSTANCE = "session_of_instance";
    SESSION_READ = "session_read";
    SESSION_UNSEEN = "session_unseen";
    SESSION_WRITE = "session_write";
    SIGNAL_DELETE = "signal_delete";
    SIGNAL_FIND = "signal_find";
    SIGNAL_INSERT = "signal_insert";
    SIGNAL_LIST = "signal_list";
    SIGNAL_LIST_UNTAKEN = "signal_list_untaken";
    SIGNAL_TAKE = "signal_take";
    STEP_DELETE = "step_delete";
    STEP_FIND = "step_find";
    STEP_LIST = "step_list";
    STEP_WRITE = "step_write";
    STREAM_DELETE = "stream_delete";
    STREAM_DROP = "stream_drop";
    STREAM_READ = "stream_read";
    STREAM_WRITE = "stream_write";
    SUMMARY_DELETE = "summary_delete";
    SUMMARY_WRITE = "summary_write";
    TAG_DELETE = "tag_delete";
    TAG_INSERT = "tag_insert";
    TOKEN_KEY_DELETE = "token_key_delete";
    TOKEN_KEY_LIST = "token_key_list";
    TOKEN_KEY_WRITE = "token_key_write";
    WAITPOINT_DELETE = "waitpoint_delete";
    WAITPOINT_LIST = "waitpoint_list";
    WAITPOINT_READ = "waitpoint_read";
    WAITPOINT_WRITE = "waitpoint_write";
}
