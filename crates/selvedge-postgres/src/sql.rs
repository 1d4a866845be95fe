//! Every statement, by noun and verb. The columns of tables that several of them read are written once, here.

use selvedge_core::execution::AGEING_MS;
use std::sync::LazyLock;

/// The columns of an execution, in the order in which `row` reads them.
const COLUMNS: &str = "id, submitted_at, namespace, class, partition, flow, spec, wiring, version, epoch, state, \
    priority, due_kind, ready_order, due_at, session, until_at, started_at, ended_at, lease_id, tags, detail, history, \
    joined, suspension";
/// How many there are.
pub const COLUMN_COUNT: usize = 25;

/// The columns of a session, in the order in which `row` reads them.
const SESSION: &str = "id, namespace, worker, instance, ttl_ms, lanes, kinds, capabilities, registered_at, seen_at, \
    renewed_at, draining";

/// The columns of a flow, in the order in which `row` reads them.
const FLOW: &str = "flows.id, flows.submitted_at, flows.namespace, flows.name, flows.tags, flows.spec, flows.version, \
    flows.state, flows.ended_at, flows.detail, flows.blocked, flows.waiting, flows.delayed, flows.active, \
    flows.suspended, flows.held, flows.completed, flows.failed, flows.cancelled, flows.expired, flows.skipped";
/// How many members of a flow are live.
const LIVE: &str =
    "flows.blocked + flows.waiting + flows.delayed + flows.active + flows.suspended + flows.held";

/// The columns of a gate, in the order in which `gates` reads them.
const GATE: &str = "gates.id, gates.namespace, gates.kind, gates.name, gates.part, gates.version, gates.config, \
    gates.active, gates.state, gates.due_at";

/// The largest amount, as [`Amount`](selvedge_core::amount::Amount) has it.
const MOST: &str = "2305843009213.693951";
/// What an entry of the ledger is with what is added to it, dimension by dimension.
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

/// The columns of a row of the outbox, in the order in which `row` reads them.
const OUTBOX: &str = "outbox.id, outbox.kind, outbox.at, outbox.position, outbox.namespace, outbox.tags";

/// The columns of a signal but for its payload, in the order in which `records` reads them.
const SIGNAL: &str = "signals.execution, signals.number, signals.name, signals.source, signals.waitpoint, \
    signals.waitpoint_name, signals.key, signals.digest, signals.at, signals.effect, signals.taken";

/// The columns of a step, in the order in which `records` reads them.
const STEP: &str = "steps.execution, steps.number, steps.name, steps.kind, steps.attempt, steps.started_at, \
    steps.recorded_at, steps.result";

/// The columns of a waitpoint, in the order in which `records` reads them.
const WAITPOINT: &str = "waitpoints.id, waitpoints.namespace, waitpoints.execution, waitpoints.number, waitpoints.name, \
    waitpoints.source, waitpoints.key, waitpoints.created_at, waitpoints.expires_at, waitpoints.state, \
    waitpoints.signal, waitpoints.effect";

/// Where to begin in a class and priority: the bound that was passed for `pair`, if it was found with its generation. The
/// bounds are $4, found by the sorted numbers of pairs in $2, with generations in $3.
const BOUND: &str = "case when ($2::bigint[])[width_bucket(pair.class * 65536::bigint + pair.priority, $2)] \
    = pair.class * 65536::bigint + pair.priority \
    and ($3::bigint[])[width_bucket(pair.class * 65536::bigint + pair.priority, $2)] = pair.generation \
    then ($4::timestamptz[])[width_bucket(pair.class * 65536::bigint + pair.priority, $2)] \
    else '-infinity' end";

/// What a level of priority is worth.
fn ageing() -> String {
    format!("interval '{AGEING_MS} milliseconds'")
}

/// What lists show.
fn shown() -> String {
    let columns: Vec<String> =
        COLUMNS.split(',').map(|column| format!("executions.{}", column.trim())).collect();
    format!(
        "{}, executions.input, executions.result, \
         (select sessions.renewed_at from sessions where sessions.id = executions.session)",
        columns.join(", ")
    )
}

macro_rules! statements {
    ($($name:ident = $file:literal;)*) => {
        $(
            #[doc = concat!("`sql/", $file, ".sql`")]
            pub static $name: LazyLock<String> = LazyLock::new(|| {
                include_str!(concat!("sql/", $file, ".sql"))
                    .replace("{added}", ADDED)
                    .replace("{ageing}", &ageing())
                    .replace("{bound}", BOUND)
                    .replace("{columns}", COLUMNS)
                    .replace("{flow}", FLOW)
                    .replace("{gate}", GATE)
                    .replace("{live}", LIVE)
                    .replace("{most}", MOST)
                    .replace("{outbox}", OUTBOX)
                    .replace("{session}", SESSION)
                    .replace("{shown}", &shown())
                    .replace("{signal}", SIGNAL)
                    .replace("{step}", STEP)
                    .replace("{waitpoint}", WAITPOINT)
            });
        )*

        /// Every statement, by the name of its file.
        pub fn all() -> Vec<(&'static str, &'static str)> {
            vec![$(($file, $name.as_str())),*]
        }
    };
}

statements! {
    BOUNDS_BEGUN = "bounds_begun";
    BOUNDS_FIRST = "bounds_first";
    CLASSES_AFTER = "classes_after";
    CLASSES_FIND = "classes_find";
    CLASSES_INSERT = "classes_insert";
    CLASS_PRIORITIES_UPSERT = "class_priorities_upsert";
    EXECUTIONS_AHEAD = "executions_ahead";
    EXECUTIONS_CANDIDATES = "executions_candidates";
    EXECUTIONS_COUNT_HELD = "executions_count_held";
    EXECUTIONS_COUNT_READY = "executions_count_ready";
    EXECUTIONS_DELETE = "executions_delete";
    EXECUTIONS_DUE_OF_KIND = "executions_due_of_kind";
    EXECUTIONS_FETCH = "executions_fetch";
    EXECUTIONS_FIND_HELD = "executions_find_held";
    EXECUTIONS_INPUTS = "executions_inputs";
    EXECUTIONS_INSERT = "executions_insert";
    EXECUTIONS_LAPSED = "executions_lapsed";
    EXECUTIONS_LIST = "executions_list";
    EXECUTIONS_LIST_ALONE = "executions_list_alone";
    EXECUTIONS_LIST_BY_FLOW = "executions_list_by_flow";
    EXECUTIONS_LIST_BY_STATE = "executions_list_by_state";
    EXECUTIONS_LIST_BY_TAG = "executions_list_by_tag";
    EXECUTIONS_LIST_LEASED = "executions_list_leased";
    EXECUTIONS_LIST_READY = "executions_list_ready";
    EXECUTIONS_LOCK = "executions_lock";
    EXECUTIONS_LOCK_FREE = "executions_lock_free";
    EXECUTIONS_LOCK_KNOWN = "executions_lock_known";
    EXECUTIONS_LOCK_HELD = "executions_lock_held";
    EXECUTIONS_LOOK = "executions_look";
    EXECUTIONS_RELATIVES = "executions_relatives";
    EXECUTIONS_REWIRE = "executions_rewire";
    EXECUTIONS_UPDATE = "executions_update";
    FLOWS_ADD_COUNTS = "flows_add_counts";
    FLOWS_DELETE = "flows_delete";
    FLOWS_DUE_OF_KIND = "flows_due_of_kind";
    FLOWS_FETCH = "flows_fetch";
    FLOWS_INSERT = "flows_insert";
    FLOWS_LIST = "flows_list";
    FLOWS_LIST_BY_STATE = "flows_list_by_state";
    FLOWS_LIST_BY_TAG = "flows_list_by_tag";
    FLOWS_LOCK = "flows_lock";
    FLOWS_LOCK_GROWING = "flows_lock_growing";
    FLOWS_UPDATE = "flows_update";
    FLOW_TAGS_DELETE = "flow_tags_delete";
    FLOW_TAGS_INSERT = "flow_tags_insert";
    FRAMES_DELETE = "frames_delete";
    FRAMES_DELETE_OLD = "frames_delete_old";
    FRAMES_DROP = "frames_drop";
    FRAMES_INSERT = "frames_insert";
    FRAMES_OF = "frames_of";
    GATES_DELETE = "gates_delete";
    GATES_DELETE_PARTS = "gates_delete_parts";
    GATES_DUE = "gates_due";
    GATES_FETCH = "gates_fetch";
    GATES_FREE = "gates_free";
    GATES_INSERT = "gates_insert";
    GATES_LIST = "gates_list";
    GATES_LIST_PARTS = "gates_list_parts";
    GATES_LOCK = "gates_lock";
    GATES_LOCK_LANES = "gates_lock_lanes";
    GATES_UPDATE = "gates_update";
    HISTORY_PAGES_DELETE = "history_pages_delete";
    HISTORY_PAGES_INSERT = "history_pages_insert";
    HISTORY_PAGES_OF = "history_pages_of";
    KEYS_DELETE = "keys_delete";
    KEYS_DELETE_EXPIRED = "keys_delete_expired";
    KEYS_FIND = "keys_find";
    KEYS_INSERT = "keys_insert";
    LEDGER_ADD = "ledger_add";
    LEDGER_FOLD = "ledger_fold";
    LEDGER_LIST = "ledger_list";
    LEDGER_LIST_OF = "ledger_list_of";
    LOG_AFTER = "log_after";
    LOG_APPEND = "log_append";
    LOG_DAYS_MISSING = "log_days_missing";
    LOG_DAYS_OLD = "log_days_old";
    LOG_DEFAULT_DELETE = "log_default_delete";
    LOG_NEWEST = "log_newest";
    LOG_WRITERS = "log_writers";
    NODES_DELETE = "nodes_delete";
    NODES_FIND = "nodes_find";
    NODES_INSERT = "nodes_insert";
    NODES_MEMBERS = "nodes_members";
    OUTBOX_DELETE = "outbox_delete";
    OUTBOX_LOCK = "outbox_lock";
    OUTBOX_OF_KIND = "outbox_of_kind";
    OUTBOX_UPSERT = "outbox_upsert";
    OVERVIEW = "overview";
    SESSIONS_DELETE = "sessions_delete";
    SESSIONS_FIND = "sessions_find";
    SESSIONS_LEASES = "sessions_leases";
    SESSIONS_LIST = "sessions_list";
    SESSIONS_LOCK = "sessions_lock";
    SESSIONS_LOCK_INSTANCES = "sessions_lock_instances";
    SESSIONS_UNSEEN = "sessions_unseen";
    SESSIONS_UPSERT = "sessions_upsert";
    SIGNALS_DELETE = "signals_delete";
    SIGNALS_FIND = "signals_find";
    SIGNALS_INSERT = "signals_insert";
    SIGNALS_LOAD = "signals_load";
    SIGNALS_OF = "signals_of";
    SIGNALS_TAKE = "signals_take";
    SIGNALS_UNTAKEN = "signals_untaken";
    STEPS_DELETE = "steps_delete";
    STEPS_FIND = "steps_find";
    STEPS_LOAD = "steps_load";
    STEPS_OF = "steps_of";
    STEPS_UPSERT = "steps_upsert";
    STREAMS_DELETE = "streams_delete";
    STREAMS_FIND = "streams_find";
    STREAMS_UPSERT = "streams_upsert";
    TAGS_DELETE = "tags_delete";
    TAGS_INSERT = "tags_insert";
    TOKEN_KEYS_DELETE = "token_keys_delete";
    TOKEN_KEYS_LIST = "token_keys_list";
    TOKEN_KEYS_UPSERT = "token_keys_upsert";
    WAITPOINTS_DELETE = "waitpoints_delete";
    WAITPOINTS_FIND = "waitpoints_find";
    WAITPOINTS_LOAD = "waitpoints_load";
    WAITPOINTS_OF = "waitpoints_of";
    WAITPOINTS_UPSERT = "waitpoints_upsert";
}
