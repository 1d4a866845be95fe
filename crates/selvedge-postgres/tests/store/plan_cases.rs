//! The expected plans of all statements that must stay fast.

/// A statement with arguments and its expected plan.
#[derive(Clone)]
pub struct Case {
    /// The path of the statement: `noun/verb`.
    pub name: &'static str,
    /// The arguments, as SQL literals.
    pub arguments: String,
    /// All indexes that the plan uses.
    pub indexes: &'static [&'static str],
    /// The most pages that the plan may touch: far fewer than the table has, and enough for the rows in question.
    pub pages: i64,
}

/// The ids of three executions.
const SOME: &str = "'{00000000-0000-7000-8000-000000000007,00000000-0000-7000-8000-0000000000ff,\
                     00000000-0000-7000-8000-000000001000}'::uuid[]";

/// The first position, for two gates.
const FIRST: &str = "'{-9223372036854775808,-9223372036854775808}', \
    '{00000000-0000-0000-0000-000000000000,00000000-0000-0000-0000-000000000000}'";

/// The first parameters of lists: namespace, position, and range of submission times.
const PAGE: &str = "2, '2026-01-02', 'ffffffff-ffff-ffff-ffff-ffffffffffff', '2020-01-01', '9999-01-01'";

/// Bounds of two pairs, one of which has another generation than the stored pair.
const BOUNDS: &str = "'{65536,65537}', '{0,1}', '{2026-01-01 12:00,2026-01-01 13:00}'";
/// The indexes that find the first executions of a class.
const CLAIM: &[&str] = &["class_priorities_pkey", "executions_claim", "executions_claim_pool"];
/// The indexes that find the waiting executions of classes and pools.
const WAITING: &[&str] = &["executions_claim", "executions_claim_pool"];

/// Returns all cases.
pub fn cases() -> Vec<Case> {
    [
        claim_cases(),
        list_cases(),
        execution_cases(),
        other_cases(),
        flow_cases(),
        stream_cases(),
        record_cases(),
        gate_cases(),
        webhook_cases(),
        schedule_cases(),
    ]
    .concat()
}

/// Statements that find executions for claims and reconcilers.
fn claim_cases() -> Vec<Case> {
    let case = |name, arguments: String, indexes, pages| Case { name, arguments, indexes, pages };
    let since = |count: usize| format!("array_fill('2026-11-01'::timestamptz, array[{count}])");
    vec![
        case(
            "overview/glance",
            format!(
                "1, 600000, 3000, '{{1,2,3,4,5,6}}', {}, '{{1,2,3,4,5}}', {}, '{{1,2}}', {}, '2026-01-01', {}, now(), '1:1:'",
                since(6),
                since(5),
                since(2),
                since(3)
            ),
            &[
                "executions_due",
                "outbox_waiting",
                "flows_due",
                "gates_due",
                "keys_expired",
                "frames_old",
                "sessions_registered",
                "classes_pkey",
                "gates_configured",
                "bulk_jobs_due",
                "inbox_pending",
                "pg_database_datname_index",
                "schedules_due",
            ],
            400,
        ),
        case(
            "leases/check",
            "'{1,2,3}', '{2026-01-01,2026-01-01,2026-01-01}'".into(),
            &["sessions_pkey", "executions_lease"],
            100,
        ),
        case(
            "executions/lock_candidates",
            format!("'{{1}}', {BOUNDS}, '{{1}}', '{{10}}', '{{}}', 1000"),
            CLAIM,
            120,
        ),
        case(
            "executions/lock_candidates",
            format!("'{{1,4,7,11,12}}', {BOUNDS}, '{{1,1,1,2,2}}', '{{10,10,10,10,10}}', '{{}}', 1000"),
            CLAIM,
            400,
        ),
        case(
            "executions/lock_passing",
            format!("'{{1}}', {BOUNDS}, '{{1}}', '{{10}}', '{{}}', 1000, '{{%none%}}'"),
            &["class_priorities_pkey", "executions_claim", "executions_pkey"],
            200,
        ),
        case("bounds/find_first_waiting", format!("'{{1,4,7,11,12}}', {BOUNDS}"), CLAIM, 200),
        case(
            "executions/lock_candidates",
            format!("'{{1,-2}}', {BOUNDS}, '{{1,1}}', '{{10,10}}', '{{}}', 1000"),
            CLAIM,
            300,
        ),
        case("bounds/find_first_waiting", format!("'{{1,-2}}', {BOUNDS}"), CLAIM, 200),
        case(
            "executions/count_ahead",
            "1, 2::smallint, '2026-01-01 12:00', '00000000-0000-7000-8000-000000001000', 1000".into(),
            &["class_priorities_pkey", "executions_claim"],
            300,
        ),
        case("executions/count_waiting", "'{1,4,7,-2}', 100".into(), WAITING, 300),
        case("executions/count_by_lane", "'{1,4,7,-2}', '{1,3}', '{2,4}', 100".into(), WAITING, 600),
        case("executions/count_by_state", "2, 11::smallint, 100".into(), &["executions_list_by_state"], 300),
        case("executions/count_active", "2, 100".into(), &["sessions_instance", "executions_lease"], 400),
        case("executions/measure_waiting", "'{1,4,7,-2}', 100".into(), WAITING, 600),
        case(
            "executions/measure_live",
            "2, 100".into(),
            &["executions_list_by_state", "sessions_instance", "executions_lease"],
            1_200,
        ),
        case(
            "executions/list_due",
            "1::smallint, '2026-01-01', '00000000-0000-0000-0000-000000000000', 100, null, null".into(),
            &["executions_due"],
            300,
        ),
        case(
            "executions/list_due",
            "5::smallint, '2026-01-01', '00000000-0000-0000-0000-000000000000', 100, null, null".into(),
            &["executions_due"],
            300,
        ),
        case(
            "leases/list_expired",
            "'00000000-0000-0000-0000-000000000000', 100, null, null".into(),
            &["executions_lease", "sessions_pkey"],
            2_500,
        ),
        case(
            "overview/read",
            "3600000, '{1,2,3,4,5}', '{1,2}', 600000, '{1,2,3,4,5,6}'".into(),
            &[
                "executions_due",
                "executions_lease",
                "sessions_pkey",
                "keys_expired",
                "frames_old",
                "classes_pkey",
                "outbox_waiting",
                "flows_due",
                "gates_configured",
                "gates_due",
                "bulk_jobs_due",
                "schedules_due",
                "inbox_pending",
                "inbox_refused_at",
            ],
            500,
        ),
        case(
            "inbox/list_pending",
            "'1:1:', null, '0', 0, 100, 1000000".into(),
            &["inbox_pending", "inbox_pkey"],
            100,
        ),
    ]
}

/// Statements that list executions.
fn list_cases() -> Vec<Case> {
    let case = |name, arguments: String, indexes, pages| Case { name, arguments, indexes, pages };
    vec![
        case("executions/list", format!("{PAGE}, null, null, 50"), &["executions_list"], 300),
        case("executions/list", format!("{PAGE}, null, '{{10}}', 50"), &["executions_list"], 300),
        case("executions/list", format!("{PAGE}, null, null, 4000"), &["executions_list"], 6_000),
        case(
            "executions/list_by_state",
            format!("{PAGE}, null, '{{11,12,13}}', 50"),
            &["executions_list_by_state"],
            600,
        ),
        case(
            "executions/list_by_state",
            format!("{PAGE}, null, '{{4}}', 50"),
            &["executions_list_by_state"],
            300,
        ),
        case(
            "executions/list_by_state",
            format!("{PAGE}, null, '{{5}}', 50"),
            &["executions_list_by_state"],
            300,
        ),
        case(
            "executions/list_active",
            format!("{PAGE}, null, null, 50"),
            &["sessions_instance", "executions_lease"],
            2_500,
        ),
        case("executions/list_waiting", format!("{PAGE}, '{{1,4,7,-2}}', null, 50"), WAITING, 1_200),
        case("executions/list_newest", format!("{PAGE}, null, '{{0}}', 50"), &["executions_list"], 25_000),
        case(
            "executions/list_by_flow",
            format!("{PAGE}, null, null, 50, '00000000-0000-7000-8000-000000000064', null"),
            &["nodes_in_order", "executions_pkey", "tags_pkey"],
            100,
        ),
        case(
            "executions/list_lone",
            format!("{PAGE}, null, null, 50, '00000000-0000-7000-8000-000000000067', null"),
            &["executions_pkey", "tags_pkey"],
            20,
        ),
        case(
            "executions/list_by_tag",
            format!("{PAGE}, null, null, 50, 'colour:7'"),
            &["tags_pkey", "executions_pkey"],
            600,
        ),
    ]
}

/// Statements that read, lock and change executions.
fn execution_cases() -> Vec<Case> {
    let case = |name, arguments: String, indexes, pages| Case { name, arguments, indexes, pages };
    vec![
        case("executions/lock", SOME.into(), &["executions_pkey"], 60),
        case("executions/lock_cached", SOME.into(), &["executions_pkey"], 60),
        case("executions/lock_available", SOME.into(), &["executions_pkey"], 60),
        case("executions/read", SOME.into(), &["executions_pkey"], 60),
        case("executions/fetch", format!("{SOME}, true, false"), &["executions_pkey", "sessions_pkey"], 60),
        case(
            "executions/read_head",
            "'00000000-0000-7000-8000-000000000007'".into(),
            &["executions_pkey"],
            20,
        ),
        case("executions/read_sizes", format!("{SOME}, true, true"), &["executions_pkey"], 60),
        case("executions/read_inputs", format!("{SOME}, 1000"), &["executions_pkey"], 60),
        case("executions/read_relatives", format!("{SOME}, 1000"), &["executions_pkey"], 60),
        case("executions/rewire", format!("{SOME}, {SOME}, '{{\"\",\"\",\"\"}}'"), &["executions_pkey"], 150),
        case("executions/update_input", format!("{SOME}, '{{\"\",\"\",\"\"}}'"), &["executions_pkey"], 150),
        case("executions/delete", format!("{SOME}, '{{3,3,3}}'"), &["executions_pkey"], 100),
        case("executions/update", update(), &["executions_pkey"], 300),
        case(
            "history_pages/list",
            "'00000000-0000-7000-8000-000000000007'".into(),
            &["history_pages_pkey"],
            20,
        ),
        case("history_pages/delete", SOME.into(), &["history_pages_pkey"], 60),
    ]
}

/// Statements about keys, the log, sessions, tags and classes.
fn other_cases() -> Vec<Case> {
    let case = |name, arguments: String, indexes, pages| Case { name, arguments, indexes, pages };
    vec![
        case("keys/read", "'{1,1}', '{1,3}', '{key2,key3}'".into(), &["keys_pkey"], 30),
        case("keys/delete", "'{1}', '{1}', '{key2}', '{null}'".into(), &["keys_pkey"], 60),
        case(
            "rollups/list",
            "2, '2026-01-01', '2026-01-02', '2026-01-01 12:00', 'lane 5', 0, 50".into(),
            &["rollups_pkey"],
            60,
        ),
        case(
            "rollups/list_by_lane",
            "2, '2026-01-01', '2026-01-02', '2026-01-01 12:00', 'lane 5', 0, 50, 'lane 5'".into(),
            &["rollups_pkey"],
            400,
        ),
        case("rollups/delete_old", "600000, 50".into(), &["namespaces_pkey", "rollups_pkey"], 600),
        case(
            "projection/take",
            "'00000000-0000-7000-8000-000000000007', 5000".into(),
            &["projection_pkey"],
            20,
        ),
        case("projected_attempts/delete", SOME.into(), &["projected_attempts_pkey"], 60),
        case("projected_events/delete_old", "50".into(), &["projected_events_pkey", "log_window_pkey"], 600),
        case(
            "projection/save",
            format!(
                "'00000000-0000-7000-8000-000000000007', 0, 1, 5000, '{{2ff}}', '{{type}}', '{{2026-01-01}}', '{{2}}', \
                 '{{null}}', '{{null}}', '{{1}}', '{{null}}', '{{\"{{}}\"}}', {SOME}, '{{7,7,7}}', '{{1,1,1}}', {SOME}, \
                 '{{8,8,8}}', '{{w,w,w}}', '{{i,i,i}}', '{{2026-01-01,2026-01-01,2026-01-01}}', \
                 '{{null,null,null}}', '{{null,null,null}}', '{{null,null,null}}', '{{null,null,null}}', \
                 {SOME}, '{{0,0,0}}', '{{2026-01-01,2026-01-01,2026-01-01}}', '{{completed,completed,completed}}', \
                 '{{null,null,null}}', '{{null,null,null}}'"
            ),
            &["projection_pkey", "executions_pkey", "projected_attempts_pkey"],
            200,
        ),
        case("keys/delete_expired", "50".into(), &["keys_expired", "keys_pkey"], 1_000),
        case("log/list", "7, 100, 65536".into(), &["log_window_pkey", "log_number"], 60),
        case("log/list", "12345, 100, 65536".into(), &["log_window_pkey", "log_number"], 60),
        case("log/list_newest", "".into(), &["log_window_pkey", "log_number"], 60),
        case("log/delete_old", "600000, 100".into(), &["log_default_at", "log_window_pkey"], 60),
        case("sessions/read", "'{1,2}'".into(), &["sessions_pkey"], 20),
        case("sessions/lock", "'{1,2}'".into(), &["sessions_pkey"], 30),
        case("sessions/delete", "'{1,2}'".into(), &["sessions_pkey"], 30),
        case("sessions/lock_by_instance", "'{2}', '{instance1}'".into(), &["sessions_instance"], 30),
        case("leases/list", "'{2}', '{instance1}'".into(), &["sessions_instance", "executions_lease"], 200),
        case("sessions/list_unseen", "3600000, 100".into(), &["sessions_pkey", "executions_lease"], 600),
        case("tags/delete", format!("'{{1}}', '{{colour:1}}', '{{2026-01-01}}', {SOME}"), &["tags_pkey"], 60),
        case("classes/list", "19900".into(), &["classes_pkey"], 20),
        case(
            "classes/delete_unused",
            "86400000, 3600000, 100, 1000".into(),
            &["classes_used", "executions_list", "sessions_instance", "executions_lease", "classes_pkey"],
            5_000,
        ),
        case(
            "class_priorities/delete",
            "'{1,2}', '{-2,-7}'".into(),
            &["class_priorities_pkey", "classes_in_pool"],
            100,
        ),
    ]
}

/// Statements about flows, nodes and the outbox.
fn flow_cases() -> Vec<Case> {
    let case = |name, arguments: String, indexes, pages| Case { name, arguments, indexes, pages };
    let none = "'{null,null,null}'";
    let three = |what: &str| format!("'{{{what},{what},{what}}}'");
    let counts = [three("0"), three("1"), three("0"), three("0"), three("0"), three("0")].join(", ");
    let ended = [three("0"), three("0"), three("0"), three("0"), three("0"), three("1")].join(", ");
    vec![
        case("flows/lock", SOME.into(), &["flows_pkey"], 30),
        case("flows/read", SOME.into(), &["flows_pkey"], 30),
        case("flows/list", format!("{PAGE}, null, 50"), &["flows_list"], 60),
        case("flows/list", format!("{PAGE}, 'even', 50"), &["flows_list"], 100),
        case(
            "flows/list_by_name",
            format!("{PAGE}, 'even', 50, '{{0,1,2,3}}'"),
            &["flows_list_by_name"],
            400,
        ),
        case("flows/list_by_name", format!("{PAGE}, 'rare', 50, '{{0,2}}'"), &["flows_list_by_name"], 20),
        case("flows/count_by_state", "2, 0::smallint, 100".into(), &["flows_list_by_state"], 60),
        case("flows/list_by_state", format!("{PAGE}, null, 50, '{{0,2}}'"), &["flows_list_by_state"], 200),
        case(
            "flows/list_by_tag",
            format!("{PAGE}, null, 50, null, 'colour:7'"),
            &["flow_tags_pkey", "flows_pkey"],
            200,
        ),
        case(
            "flows/list_due",
            "2::smallint, '2026-01-01', '00000000-0000-0000-0000-000000000000', 100, null, null".into(),
            &["flows_due"],
            60,
        ),
        case("flows/add_counts", format!("{SOME}, {counts}, {ended}"), &["flows_pkey"], 100),
        case(
            "flows/update",
            [
                SOME,
                &three("1"),
                none,
                none,
                &three("\"{}\""),
                &three("2"),
                &three("1"),
                &three("2026-01-01"),
                &three("2026-01-02"),
                none,
            ]
            .join(", "),
            &["flows_pkey"],
            200,
        ),
        case("flows/delete", format!("{SOME}, {}", three("1")), &["flows_pkey"], 60),
        case("flow_tags/delete", SOME.into(), &["flows_pkey", "flow_tags_pkey"], 80),
        case(
            "nodes/find",
            "'{00000000-0000-7000-8000-000000000064}', \
             '{node00000000-0000-7000-8000-00000000006e}'"
                .into(),
            &["nodes_pkey"],
            20,
        ),
        case(
            "nodes/list_members",
            "'{00000000-0000-7000-8000-000000000064,00000000-0000-7000-8000-0000000000c8}', '{0,3}', \
             '{4294967295,2}'"
                .into(),
            &["nodes_in_order", "executions_pkey"],
            100,
        ),
        case(
            "nodes/delete",
            "'{00000000-0000-7000-8000-000000000064}', \
             '{node00000000-0000-7000-8000-00000000006e}'"
                .into(),
            &["nodes_pkey"],
            20,
        ),
        case("outbox/lock", format!("{SOME}, '{{4,4,1}}'"), &["outbox_pkey"], 30),
        case("outbox/delete", format!("{SOME}, '{{4,4,1}}'"), &["outbox_pkey"], 30),
        case(
            "outbox/list_stale",
            "1::smallint, 1000, '2026-01-01', '00000000-0000-0000-0000-000000000000', 100, null, null".into(),
            &["outbox_waiting"],
            60,
        ),
    ]
}

/// Statements about streams and their frames.
fn stream_cases() -> Vec<Case> {
    let case = |name, arguments: String, indexes, pages| Case { name, arguments, indexes, pages };
    let three = |what: &str| format!("'{{{what},{what},{what}}}'");
    let upsert =
        [SOME, &three("1"), &three("90001"), &three("1"), &three("1"), &three("0"), "'{null,null,null}'"];
    vec![
        case("streams/read", format!("{SOME}, {}, true", three("1")), &["streams_pkey"], 20),
        case("streams/upsert", upsert.join(", "), &[], 60),
        case("streams/delete", SOME.into(), &["streams_pkey"], 30),
        case("frames/delete", "'{00000000-0000-7000-8000-0000000000ff}'".into(), &["frames_pkey"], 60),
        case(
            "frames/list",
            "'00000000-0000-7000-8000-000000000007', 1, 50000, 2147483647, false, 600000, 100".into(),
            &["frames_pkey"],
            60,
        ),
        case(
            "frames/list",
            "'00000000-0000-7000-8000-000000000007', 1, 50000, 60000, true, 600000, 100".into(),
            &["frames_pkey"],
            60,
        ),
        case(
            "frames/delete_before",
            "'{00000000-0000-7000-8000-000000000007}', '{1}', '{90000}'".into(),
            &["streams_pkey", "frames_pkey"],
            200,
        ),
        case("frames/delete_old", "600000, 50".into(), &["frames_old", "frames_pkey"], 600),
    ]
}

/// Returns arguments that make three completed executions active.
fn update() -> String {
    let times = "'{2026-01-01,2026-01-01,2026-01-01}'";
    let none = "'{null,null,null}'";
    let three = |what: &str| format!("'{{{what},{what},{what}}}'");
    [
        SOME,
        &three("3"),
        &three("4"),
        &three("2"),
        &three("0"),
        &three("0"),
        none,
        times,
        none,
        none,
        none,
        none,
        none,
        none,
        none,
        none,
        &three(""),
        none,
        none,
        none,
        none,
        none,
        none,
        &three("true"),
    ]
    .join(", ")
    .replace("'{,,}'", "'{\"\",\"\",\"\"}'")
}

/// Statements about signals, steps and waitpoints. One of the two executions has most of all rows.
fn record_cases() -> Vec<Case> {
    let case = |name, arguments: String, indexes, pages| Case { name, arguments, indexes, pages };
    let (much, little) = ("00000000-0000-7000-8000-000000000007", "00000000-0000-7000-8000-0000000000ff");
    let page = |from: u32| format!("'{much}', {from}, 100");
    let newest = "'9999-01-01', 'ffffffff-ffff-ffff-ffff-ffffffffffff'";
    vec![
        case("signals/read", format!("'{{{little}}}'"), &["signals_pkey"], 60),
        case("signals/list_untaken", format!("'{{{much},{little}}}'"), &["signals_untaken"], 600),
        case("signals/find", format!("'{{{much},{little}}}', '{{key20000,none}}'"), &["signals_key"], 20),
        case("signals/list", page(20_000), &["signals_pkey"], 60),
        case(
            "signals/take",
            format!("'{{{much},{little}}}', '{{20000,255}}', '{{2,2}}'"),
            &["signals_pkey"],
            60,
        ),
        case("signals/delete", format!("'{{{little}}}'"), &["signals_pkey"], 60),
        case("steps/read", format!("'{{{little}}}'"), &["steps_pkey"], 60),
        case("steps/find", format!("'{{{much},{little}}}', '{{step20000,none}}'"), &["steps_pkey"], 20),
        case("steps/list", format!("'{little}', 1000, 10"), &["steps_pkey"], 60),
        case(
            "steps/upsert",
            format!(
                "'{{{much}}}', '{{20000}}', '{{step20000}}', '{{2}}', '{{1}}', '{{2026-01-01}}', '{{2026-01-01}}', '{{1}}'"
            ),
            &[],
            30,
        ),
        case("steps/delete", format!("'{{{little}}}'"), &["steps_pkey"], 60),
        case("waitpoints/read", format!("'{{{much},{little}}}'"), &["waitpoints_of_execution"], 120),
        case("waitpoints/find", format!("'{little}'"), &["waitpoints_pkey"], 20),
        case("waitpoints/list", page(10_000), &["waitpoints_of_execution"], 60),
        case(
            "waitpoints/upsert",
            format!(
                "'{{{little}}}', '{{1}}', '{{{little}}}', '{{255}}', '{{name}}', '{{source}}', '{{1}}', '{{2026-01-01}}', \
                 '{{null}}', '{{1}}', '{{1}}', '{{0}}', '{{null}}', '{{null}}', '{{0}}'"
            ),
            &[],
            30,
        ),
        case("waitpoints/list_by_state", format!("1, '{{0,2}}', {newest}, 10"), &["waitpoints_by_state"], 80),
        case(
            "waitpoints/list_by_source",
            format!("1, '{{0,2}}', {newest}, 10, 'source 7'"),
            &["waitpoints_by_source"],
            80,
        ),
        case("waitpoints/delete", format!("'{{{little}}}'"), &["waitpoints_of_execution"], 60),
    ]
}

/// Statements about schedules.
fn schedule_cases() -> Vec<Case> {
    let case =
        |name, arguments: &str, indexes, pages| Case { name, arguments: arguments.into(), indexes, pages };
    let names = "'{1,1,2}', '{schedule3,schedule12,schedule4000}'";
    let update = format!(
        "{names}, '{{1,1,1}}', '{{2,2,2}}', '{{1,1,1}}', '{{null,null,null}}', '{{a,b,c}}', '{{null,null,null}}'"
    );
    vec![
        case("schedules/lock", names, &["schedules_pkey"], 40),
        case("schedules/read", names, &["schedules_pkey"], 40),
        case("schedules/list", "1, 'schedule3', 50", &["schedules_pkey"], 120),
        case("schedules/list_due", "'2026-01-01', 0, '', 100, null, '2026-01-02'", &["schedules_due"], 200),
        case("schedules/update", &update, &["schedules_pkey"], 60),
        case("schedules/delete", &format!("{names}, '{{1,1,1}}'"), &["schedules_pkey"], 30),
    ]
}

/// Statements about gates, held executions and the ledger.
fn gate_cases() -> Vec<Case> {
    let case = |name, arguments: String, indexes, pages| Case { name, arguments, indexes, pages };
    let three = |what: &str| format!("'{{{what},{what},{what}}}'");
    let ids = "'{-7000,7,7001}'";
    let update = [
        ids,
        &three("3"),
        &three("4"),
        &three("true"),
        &three("null"),
        &three("5"),
        &three("null"),
        &three("null"),
    ];
    vec![
        case("gates/lock", ids.into(), &["gates_pkey"], 30),
        case("gates/lock_lanes", ids.into(), &["gates_pkey"], 40),
        case("gates/read", ids.into(), &["gates_pkey"], 20),
        case("gates/list", "1, 3::smallint, 'gate12', 50".into(), &["gates_configured"], 120),
        case("gates/list_parts", "1, 4::smallint, 'budget8', 50".into(), &["gates_parts"], 120),
        case("gates/list_due", "'2026-01-01', 0, 100, null".into(), &["gates_due"], 200),
        case("gates/update", update.join(", "), &["gates_pkey"], 60),
        case("gates/delete", format!("{ids}, {}", three("3")), &["gates_pkey"], 30),
        case("gates/give_back", format!("{ids}, {}", three("1")), &["gates_pkey"], 60),
        case("executions/lock_held", format!("'{{1,2}}', '{{10,10}}', {FIRST}, '{{}}'"), &["executions_held"], 200),
        case("executions/find_held", format!("'{{1,2}}', '{{10,10}}', {FIRST}"), &["executions_held"], 100),
        case("executions/count_held", "1, 100".into(), &["executions_held"], 200),
        case("ledger/list", "500, 0".into(), &["ledger_entries"], 40),
        case("ledger/list_by_execution", "'00000000-0000-7000-8000-000000000007'".into(), &["ledger_of"], 20),
        case(
            "gates/delete_parts",
            "'{00000000-0000-7000-8000-000000000001,00000000-0000-7000-8000-000000000002}'".into(),
            &["gates_of_flow", "ledger_entries"],
            40,
        ),
        case("ledger/fold", SOME.into(), &["ledger_of"], 120),
        case(
            "ledger/add",
            "'{7,7}', '{0,1}', '{00000000-0000-7000-8000-000000002000,null}', '{\"{\\\"tokens\\\":2}\",\"{}\"}'".into(),
            &[],
            60,
        ),
    ]
}

/// Statements about webhooks and their deliveries.
fn webhook_cases() -> Vec<Case> {
    let case = |name, arguments: String, indexes, pages| Case { name, arguments, indexes, pages };
    let webhook = "'00000000-0000-7000-8000-000000000007'";
    let (namespaces, names) = ("'{1,2}'", "'{webhook3,webhook4}'");
    vec![
        case("webhooks/find", "1, 'webhook3'".into(), &["webhooks_pkey"], 10),
        case("webhooks/list", "1, 'webhook3', 1, 50".into(), &["webhooks_pkey"], 60),
        case("webhooks/lock", format!("{namespaces}, {names}"), &["webhooks_pkey"], 30),
        case(
            "webhooks/update",
            format!("{namespaces}, {names}, '{{2,2}}', '{{x,x}}', '{{1,1}}'"),
            &["webhooks_pkey"],
            60,
        ),
        case("webhooks/delete", format!("{namespaces}, {names}, '{{1,1}}'"), &["webhooks_pkey"], 40),
        case("webhook_deliveries/find", SOME.into(), &["webhook_deliveries_id"], 30),
        case(
            "webhook_deliveries/list",
            format!("{webhook}, 40000, 50, false"),
            &["webhook_deliveries_pkey"],
            60,
        ),
        case(
            "webhook_deliveries/list_by_state",
            format!("{webhook}, 40000, 50, true, 1::smallint"),
            &["webhook_deliveries_state"],
            120,
        ),
        case(
            "webhook_deliveries/prune",
            format!("array[{webhook}::uuid], '{{25100}}'"),
            &["webhook_deliveries_state"],
            300,
        ),
        case(
            "webhook_deliveries/delete",
            "array['00000000-0000-7000-8000-000000000008'::uuid]".into(),
            &["webhook_deliveries_pkey"],
            200,
        ),
    ]
}
