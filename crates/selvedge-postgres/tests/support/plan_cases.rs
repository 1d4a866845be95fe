//! How some of the statements must be answered: those about what is recorded beside executions, and about gates.

/// A statement, what it is asked with, and how it must be answered.
pub struct Case {
    /// Its name.
    pub name: &'static str,
    /// The arguments, as SQL writes them.
    pub arguments: String,
    /// The indexes that it uses, all of them.
    pub indexes: &'static [&'static str],
    /// How many pages it may read. Far fewer than a table has, and enough for the rows that it is about.
    pub pages: i64,
}

/// Three executions.
pub const SOME: &str = "'{00000000-0000-7000-8000-000000000007,00000000-0000-7000-8000-0000000000ff,\
                     00000000-0000-7000-8000-000000001000}'::uuid[]";

/// From the first on, of two gates.
const FIRST: &str = "'{-9223372036854775808,-9223372036854775808}', \
    '{00000000-0000-0000-0000-000000000000,00000000-0000-0000-0000-000000000000}'";

/// The statements about what is recorded beside executions. One of those that are asked about has most of it.
pub fn record_cases() -> Vec<Case> {
    let case = |name, arguments: String, indexes, pages| Case { name, arguments, indexes, pages };
    let (much, little) = ("00000000-0000-7000-8000-000000000007", "00000000-0000-7000-8000-0000000000ff");
    let page = |from: u32| format!("'{much}', {from}, 100");
    vec![
        case("signals_load", format!("'{{{little}}}'"), &["signals_pkey"], 60),
        case("signals_untaken", format!("'{{{much},{little}}}'"), &["signals_untaken"], 600),
        case("signals_find", format!("'{{{much},{little}}}', '{{key20000,none}}'"), &["signals_key"], 20),
        case("signals_of", page(20_000), &["signals_pkey"], 60),
        case(
            "signals_take",
            format!("'{{{much},{little}}}', '{{20000,255}}', '{{2,2}}'"),
            &["signals_pkey"],
            60,
        ),
        case("signals_delete", format!("'{{{little}}}'"), &["signals_pkey"], 60),
        case("steps_load", format!("'{{{little}}}'"), &["steps_pkey"], 60),
        case("steps_find", format!("'{{{much},{little}}}', '{{step20000,none}}'"), &["steps_pkey"], 20),
        case("steps_of", format!("'{little}', 1000, 10"), &["steps_pkey"], 60),
        case(
            "steps_upsert",
            format!(
                "'{{{much}}}', '{{20000}}', '{{step20000}}', '{{2}}', '{{1}}', '{{2026-01-01}}', '{{2026-01-01}}', '{{1}}'"
            ),
            &[],
            30,
        ),
        case("steps_delete", format!("'{{{little}}}'"), &["steps_pkey"], 60),
        case("waitpoints_load", format!("'{{{much},{little}}}'"), &["waitpoints_of_execution"], 120),
        case("waitpoints_find", format!("'{little}'"), &["waitpoints_pkey"], 20),
        case("waitpoints_of", page(10_000), &["waitpoints_of_execution"], 60),
        case(
            "waitpoints_upsert",
            format!(
                "'{{{little}}}', '{{1}}', '{{{little}}}', '{{255}}', '{{name}}', '{{source}}', '{{1}}', '{{2026-01-01}}', \
                 '{{null}}', '{{1}}', '{{1}}', '{{0}}'"
            ),
            &[],
            30,
        ),
        case("waitpoints_delete", format!("'{{{little}}}'"), &["waitpoints_of_execution"], 60),
    ]
}

/// The statements about gates, what they hold, and the ledger.
pub fn gate_cases() -> Vec<Case> {
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
        case("gates_lock", ids.into(), &["gates_pkey"], 30),
        case("gates_lock_lanes", ids.into(), &["gates_pkey"], 40),
        case("gates_fetch", ids.into(), &["gates_pkey"], 20),
        case("gates_list", "1, 3::smallint, 'gate12', 50".into(), &["gates_configured"], 120),
        case("gates_list_parts", "1, 4::smallint, 'budget8', 50".into(), &["gates_parts"], 120),
        case("gates_due", "'2026-01-01', 0, 100".into(), &["gates_due"], 200),
        case("gates_update", update.join(", "), &["gates_pkey"], 60),
        case("gates_delete", format!("{ids}, {}", three("3")), &["gates_pkey"], 30),
        case("gates_free", format!("{ids}, {}", three("1")), &["gates_pkey"], 60),
        case("executions_lock_held", format!("'{{1,2}}', '{{10,10}}', {FIRST}, '{{}}'"), &["executions_held"], 200),
        case("executions_find_held", format!("'{{1,2}}', '{{10,10}}', {FIRST}"), &["executions_held"], 100),
        case("executions_count_held", "1, 100".into(), &["executions_held"], 200),
        case("ledger_list", "500, 0".into(), &["ledger_entries"], 40),
        case("ledger_list_of", "'00000000-0000-7000-8000-000000000007'".into(), &["ledger_of"], 20),
        case(
            "gates_delete_parts",
            "'{00000000-0000-7000-8000-000000000001,00000000-0000-7000-8000-000000000002}'".into(),
            &["gates_of_flow", "ledger_entries"],
            40,
        ),
        case("ledger_fold", SOME.into(), &["ledger_of"], 120),
        case(
            "ledger_add",
            "'{7,7}', '{0,1}', '{00000000-0000-7000-8000-000000002000,null}', '{\"{\\\"tokens\\\":2}\",\"{}\"}'".into(),
            &[],
            60,
        ),
    ]
}
