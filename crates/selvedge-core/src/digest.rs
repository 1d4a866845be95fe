//! Digests: 64-bit fingerprints of content, by which a repeated call is recognised.
//!
//! A digest is XXH3 over a canonical form of the content. Digests are stored with keys, executions, flows and history
//! lines, and compared with the digests of later calls. So the canonical form of a value must never change, whatever
//! becomes of the names of types and fields. A value is destructured without `..`: a new field does not compile until
//! its form is decided. A new field must be left out of the form while it has its default.

use crate::gate::RequiredGates;
use crate::join::{JoinPolicy, OnSatisfied};
use crate::policy::DEFAULT_MAX_INTERRUPTIONS;
use crate::rules::waitpoint::WaitpointDraft;
use crate::step::StepKind;
use crate::submission::When;
use crate::suspension::{Condition, Distinct, OnTimeout, WaitDraft};
use crate::{Backoff, Name, Policy, Retry};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;
use xxhash_rust::xxh3::Xxh3;

/// A digest that is being written.
#[derive(Clone, Default)]
pub struct Digest(Xxh3);

impl Digest {
    /// An empty digest.
    pub fn new() -> Digest {
        Digest(Xxh3::new())
    }

    /// Writes bytes without their length: for tags, and for the last field.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Writes bytes after their length, which takes eight bytes.
    pub fn sized(&mut self, bytes: &[u8]) {
        self.raw(&(bytes.len() as u64).to_le_bytes());
        self.raw(bytes);
    }

    /// Writes a number without a sign, seven bits to a byte, the lowest first.
    pub fn count(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.raw(&[number as u8 | 0x80]);
            number >>= 7;
        }
        self.raw(&[number as u8]);
    }

    /// Writes a number with a sign, as the count `2n` or `-2n - 1`.
    pub fn number(&mut self, number: i64) {
        self.count((number << 1 ^ number >> 63) as u64);
    }

    /// Writes text after the count of its bytes.
    pub fn text(&mut self, text: &str) {
        self.count(text.len() as u64);
        self.raw(text.as_bytes());
    }

    /// Writes 0 for an absent value, and 1 before a present one.
    pub fn optional<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Digest, T)) {
        self.count(value.is_some().into());
        if let Some(value) = value {
            write(self, value);
        }
    }

    /// Writes the entries of a list after their count.
    pub fn list<T>(&mut self, entries: &[T], mut write: impl FnMut(&mut Digest, &T)) {
        self.count(entries.len() as u64);
        entries.iter().for_each(|entry| write(self, entry));
    }

    /// Writes names and values after the count of the names.
    pub fn map(&mut self, map: &BTreeMap<String, String>) {
        self.count(map.len() as u64);
        for (name, value) in map {
            self.text(name);
            self.text(value);
        }
    }

    /// Writes how the edges of a group join.
    pub(crate) fn join_policy(&mut self, policy: JoinPolicy) {
        let on_satisfied = |digest: &mut Digest, on_satisfied: OnSatisfied| match on_satisfied {
            OnSatisfied::CancelRemaining => digest.count(0),
            OnSatisfied::LetRun => digest.count(1),
        };
        match policy {
            JoinPolicy::AllOf => self.count(0),
            JoinPolicy::AnyOf { on_satisfied: then } => {
                self.count(1);
                on_satisfied(self, then);
            }
            JoinPolicy::Quorum { k, on_satisfied: then } => {
                self.count(2);
                self.count(k.into());
                on_satisfied(self, then);
            }
        }
    }

    pub fn finish(self) -> u64 {
        self.0.digest()
    }
}

/// Returns the form of a policy: JSON without spaces, every field in a fixed order.
pub(crate) fn policy_form(policy: &Policy) -> Cow<'static, str> {
    // Most submissions have the default policy.
    static DEFAULT: LazyLock<(Policy, String)> =
        LazyLock::new(|| (Policy::default(), write_policy(&Policy::default())));
    let (default, form) = &*DEFAULT;
    if policy == default { Cow::Borrowed(form) } else { Cow::Owned(write_policy(policy)) }
}

fn write_policy(policy: &Policy) -> String {
    let Policy { retry, attempt_timeout_ms, deadline_ms, start_by_ms, retention_ms } = policy;
    let Retry { max_retries, max_interruptions, retry_on, backoff } = retry;
    // The default has the form that it had when it was 100, so a submission that is repeated after an upgrade is recognised.
    let max_interruptions = match *max_interruptions {
        DEFAULT_MAX_INTERRUPTIONS => 100,
        other => other,
    };
    let retry_on = joined(",", retry_on, |class| json(class.as_str()));
    let backoff = match backoff {
        Backoff::Fixed { delay_ms } => object(&[("type", json("fixed")), ("delay_ms", delay_ms.to_string())]),
        Backoff::Exponential { initial_ms, multiplier, max_ms, jitter } => object(&[
            ("type", json("exponential")),
            ("initial_ms", initial_ms.to_string()),
            ("multiplier", serde_json::Value::from(*multiplier).to_string()),
            ("max_ms", max_ms.to_string()),
            ("jitter", jitter.to_string()),
        ]),
    };
    let retry = object(&[
        ("max_retries", max_retries.to_string()),
        ("max_interruptions", max_interruptions.to_string()),
        ("retry_on", format!("[{retry_on}]")),
        ("backoff", backoff),
    ]);
    let or_null = |ms: &Option<i64>| ms.map_or_else(|| "null".to_owned(), |ms| ms.to_string());
    object(&[
        ("retry", retry),
        ("attempt_timeout_ms", or_null(attempt_timeout_ms)),
        ("deadline_ms", or_null(deadline_ms)),
        ("start_by_ms", or_null(start_by_ms)),
        ("retention_ms", retention_ms.to_string()),
    ])
}

/// Returns the form of the gates that an execution requires: JSON without spaces, in this order, empty fields left out.
pub(crate) fn required_gates_form(gates: &RequiredGates) -> String {
    let RequiredGates { budgets, quotas, concurrency, fairness_key } = gates;
    let mut fields = Vec::new();
    if !budgets.is_empty() {
        let budgets = joined(",", budgets, |(budget, amounts)| {
            let amounts = amounts.iter().map(|(dimension, amount)| format!("{}:{amount}", json(dimension)));
            format!("[{},{{{}}}]", json(budget), amounts.collect::<Vec<_>>().join(","))
        });
        fields.push(("budgets", format!("[{budgets}]")));
    }
    if !quotas.is_empty() {
        fields.push(("quotas", format!("[{}]", joined(",", quotas, |quota| json(quota)))));
    }
    if let Some((key, limit)) = concurrency {
        fields.push(("concurrency", format!("[{},{limit}]", json(key))));
    }
    if let Some(key) = fairness_key {
        fields.push(("fairness_key", json(key)));
    }
    object(&fields)
}

/// Returns the form of a join policy in the digest of a graph.
pub(crate) fn join_policy_form(policy: JoinPolicy) -> String {
    let word = |on_satisfied: OnSatisfied| match on_satisfied {
        OnSatisfied::CancelRemaining => "CancelRemaining",
        OnSatisfied::LetRun => "LetRun",
    };
    match policy {
        JoinPolicy::AllOf => "AllOf".to_owned(),
        JoinPolicy::AnyOf { on_satisfied } => format!("AnyOf {{ on_satisfied: {} }}", word(on_satisfied)),
        JoinPolicy::Quorum { k, on_satisfied } => {
            format!("Quorum {{ k: {k}, on_satisfied: {} }}", word(on_satisfied))
        }
    }
}

/// Returns the form of the waits that a worker suspends for.
pub(crate) fn waits_form(waits: &[WaitDraft]) -> String {
    let waits = joined(", ", waits, |WaitDraft { step, condition, timeout_ms, on_timeout }| {
        let step = step.as_ref().map(|(name, kind)| format!("({}, {})", quoted(name), step_kind_form(*kind)));
        let on_timeout = match on_timeout {
            OnTimeout::Fail => "Fail",
            OnTimeout::Cancel => "Cancel",
            OnTimeout::Expire => "Expire",
            OnTimeout::Resume => "Resume",
            OnTimeout::Escalate => "Escalate",
        };
        let (step, timeout_ms) = (optional(step), optional(*timeout_ms));
        let condition = condition_form(condition);
        format!(
            "WaitDraft {{ step: {step}, condition: {condition}, timeout_ms: {timeout_ms}, on_timeout: {on_timeout} }}"
        )
    });
    format!("[{waits}]")
}

/// Returns the form of the waitpoints that a worker asks for.
pub(crate) fn waitpoints_form(waitpoints: &[WaitpointDraft]) -> String {
    let waitpoints =
        joined(", ", waitpoints, |WaitpointDraft { name, source, expires_ms, signals, prompt }| {
            let (name, source) = (quoted(name), optional(source.as_ref().map(quoted)));
            let expires_ms = optional(*expires_ms);
            // Earlier builds did not have these fields, so they are left out where they are not given.
            let signals =
                signals.as_ref().map(|signals| format!(", signals: [{}]", joined(", ", signals, quoted)));
            let prompt = prompt.as_ref().map(|prompt| format!(", prompt: {}", json(prompt)));
            let more = signals.unwrap_or_default() + &prompt.unwrap_or_default();
            format!("WaitpointDraft {{ name: {name}, source: {source}, expires_ms: {expires_ms}{more} }}")
        });
    format!("[{waitpoints}]")
}

fn step_kind_form(kind: StepKind) -> &'static str {
    match kind {
        StepKind::Step => "Step",
        StepKind::Sleep => "Sleep",
        StepKind::Wait => "Wait",
        StepKind::Spawn => "Spawn",
        StepKind::Join => "Join",
        StepKind::Race => "Race",
    }
}

fn condition_form(condition: &Condition) -> String {
    match condition {
        Condition::Any(parts) => format!("Any([{}])", joined(", ", parts, condition_form)),
        Condition::All(parts) => format!("All([{}])", joined(", ", parts, condition_form)),
        Condition::Signal { name, received } => {
            format!("Signal {{ name: {}, heard: {} }}", quoted(name), optional(*received))
        }
        Condition::Count { n, of, distinct, received } => {
            let distinct = match distinct {
                Distinct::Signals => "Signals",
                Distinct::Waitpoints => "Waitpoints",
                Distinct::Sources => "Sources",
            };
            let received = joined(", ", received, |(name, number)| format!("({}, {number})", quoted(name)));
            let of = joined(", ", of, quoted);
            format!("Count {{ n: {n}, of: [{of}], distinct: {distinct}, heard: [{received}] }}")
        }
        Condition::Until { at, passed } => {
            let at = match at {
                When::At(at) => format!("At(Timestamp({}))", at.micros()),
                When::AfterMs(ms) => format!("AfterMs({ms})"),
            };
            format!("Until {{ at: {at}, passed: {passed} }}")
        }
        Condition::Operator { resumed } => format!("Operator {{ said: {resumed} }}"),
        Condition::Children { ended } => format!("Children {{ ended: {ended} }}"),
        // Only the engine waits for a gate, and its suspensions have no digest.
        Condition::Gate { gate, open } => format!("Gate {{ gate: {}, open: {open} }}", quoted(&gate.name)),
    }
}

/// Returns a JSON object of these fields, whose values are JSON already.
fn object(fields: &[(&str, String)]) -> String {
    format!("{{{}}}", joined(",", fields, |(name, value)| format!("\"{name}\":{value}")))
}

fn json(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Returns text in quotes, with the escapes of a Rust string literal.
fn quoted(text: &Name) -> String {
    format!("{:?}", text.as_str())
}

fn optional(value: Option<impl std::fmt::Display>) -> String {
    value.map_or_else(|| "None".to_owned(), |value| format!("Some({value})"))
}

fn joined<T>(separator: &str, entries: &[T], form: impl Fn(&T) -> String) -> String {
    entries.iter().map(form).collect::<Vec<_>>().join(separator)
}

#[cfg(test)]
mod tests {
    use crate::amount::Amount;
    use crate::gate::RequiredGates;
    use crate::join::{EdgeCondition, JoinPolicy, OnSatisfied};
    use crate::plan::{EdgeDraft, GraphDraft, GraphTarget, GroupDraft, NodeDraft};
    use crate::rules::flows::submit::FlowDraft;
    use crate::rules::report::{Fence, Op, Report};
    use crate::rules::signal::{SignalDraft, SignalSender};
    use crate::rules::step::StepDraft;
    use crate::rules::suspend::Suspend;
    use crate::rules::waitpoint::WaitpointDraft;
    use crate::step::StepKind;
    use crate::submission::When;
    use crate::suspension::{Condition, Distinct, OnTimeout, WaitDraft};
    use crate::{
        Backoff, Draft, ExecutionId, FailureClass, LeaseId, Name, NamespaceId, Policy, Retry, Timestamp,
    };
    use uuid::Uuid;

    fn name(text: &str) -> Name {
        Name::trusted(text)
    }

    fn plain() -> Draft {
        Draft::new("report.build")
    }

    /// A draft that gives every field, with text that JSON escapes.
    fn full() -> Draft {
        Draft {
            gives_retention: true,
            namespace_retention_ms: Some(9),
            gives_retry: false,
            server_retry: Some(std::sync::Arc::new(Retry { max_retries: 9, ..Retry::default() })),
            server_window_ms: Some(9),
            id: Some(Uuid::from_u128(7)),
            kind: "kind \"é\"".into(),
            lane: "lane".into(),
            input: r#"{"a":[1,2,"\u0000"]}"#.into(),
            idempotency_key: Some("key".into()),
            idempotency_window_ms: Some(300),
            unique_while_active: Some("unique".into()),
            debounce: None,
            priority: -5,
            capabilities: vec!["gpu".into(), "eu".into()],
            tags: [("team".into(), "a\\b".into()), ("env".into(), "".into())].into(),
            delay: Some(When::At(Timestamp::from_millis(1_700_000_000_000))),
            policy: Policy {
                retry: Retry {
                    max_retries: 0,
                    max_interruptions: 300,
                    retry_on: FailureClass::ALL.to_vec(),
                    backoff: Backoff::Exponential {
                        initial_ms: 250,
                        multiplier: 1.5,
                        max_ms: 90_000,
                        jitter: false,
                    },
                },
                attempt_timeout_ms: Some(60_000),
                deadline_ms: Some(3_600_000),
                start_by_ms: Some(5),
                retention_ms: 0,
            },
            required_gates: RequiredGates {
                budgets: vec![
                    (name("tokens"), [("usd".into(), Amount::parse("0.25").expect("is valid"))].into()),
                    (name("b\"2/é"), Default::default()),
                ],
                quotas: vec![name("calls"), name("q2")],
                concurrency: Some((name("customer\\7"), 3)),
                fairness_key: Some(name("tenant/é")),
            },
            gate_pointers: None,
            trace: None,
        }
    }

    fn fixed() -> Draft {
        let retry =
            Retry { retry_on: Vec::new(), backoff: Backoff::Fixed { delay_ms: 750 }, ..Retry::default() };
        Draft {
            delay: Some(When::AfterMs(70_000)),
            policy: Policy { retry, ..Policy::default() },
            required_gates: RequiredGates { quotas: vec![name("calls")], ..RequiredGates::default() },
            ..plain()
        }
    }

    fn graph() -> GraphDraft {
        let node = |name: &str, draft: Draft| NodeDraft { name: name.into(), draft };
        let edge = |from: &str, to: &str, when| EdgeDraft { from: from.into(), to: to.into(), when };
        let keyless =
            Draft { idempotency_key: None, idempotency_window_ms: None, unique_while_active: None, ..full() };
        GraphDraft {
            nodes: vec![node("a", plain()), node("b", keyless), node("any", fixed()), node("two", plain())],
            edges: vec![
                edge("a", "any", EdgeCondition::Success),
                edge("b", "any", EdgeCondition::Failure),
                edge("a", "two", EdgeCondition::Finished),
                edge("b", "two", EdgeCondition::Success),
            ],
            groups: vec![
                GroupDraft {
                    node: "any".into(),
                    policy: JoinPolicy::AnyOf { on_satisfied: OnSatisfied::CancelRemaining },
                },
                GroupDraft {
                    node: "two".into(),
                    policy: JoinPolicy::Quorum { k: 2, on_satisfied: OnSatisfied::LetRun },
                },
            ],
        }
    }

    fn all_of() -> GraphDraft {
        let mut graph = graph();
        graph.groups = vec![GroupDraft { node: "any".into(), policy: JoinPolicy::AllOf }];
        graph
    }

    fn flow() -> FlowDraft {
        FlowDraft {
            id: Some(Uuid::from_u128(9)),
            idempotency_key: Some("flow key".into()),
            name: Some("nightly".into()),
            tags: [("team".into(), "a".into())].into(),
            deadline_ms: Some(1_000_000),
            retention_ms: Some(64),
            server_window_ms: Some(9),
            graph: graph(),
        }
    }

    fn plain_flow() -> FlowDraft {
        let nodes = vec![NodeDraft { name: "only".into(), draft: plain() }];
        FlowDraft { graph: GraphDraft { nodes, ..GraphDraft::default() }, ..FlowDraft::default() }
    }

    fn report(op: Op) -> u64 {
        let fence = Fence {
            execution: ExecutionId(Uuid::from_u128(1)),
            attempt: 0,
            lease_id: LeaseId(Uuid::from_u128(2)),
            epoch: 1,
        };
        Report { namespace: NamespaceId(1), fence, op_id: None, op }.digest()
    }

    fn suspend(waits: Vec<WaitDraft>, waitpoints: Vec<WaitpointDraft>) -> u64 {
        report(Op::Suspend(Box::new(Suspend { waits, waitpoints, fingerprint: 5, default_timeout_ms: None })))
    }

    fn wait(condition: Condition) -> WaitDraft {
        WaitDraft::new(condition)
    }

    /// Waits for a condition that has every kind of part.
    fn every_condition() -> Vec<WaitDraft> {
        let count = |distinct| Condition::count(2, vec![name("a"), name("it's \"b\"\n")], distinct);
        let all = Condition::All(vec![
            Condition::signal(name("go \u{301}é")),
            Condition::Any(Distinct::ALL.map(count).to_vec()),
            Condition::until(When::AfterMs(5000)),
            Condition::until(When::At(Timestamp::from_millis(1_700_000_000_000))),
            Condition::operator(),
            Condition::children(),
        ]);
        let mut waits = vec![
            WaitDraft {
                step: Some((name("step one"), StepKind::Race)),
                condition: all,
                timeout_ms: Some(60_000),
                on_timeout: OnTimeout::Resume,
            },
            // Workers send no condition of these forms; the digest has a form for them all the same.
            wait(Condition::Signal { name: name("go"), received: Some(4) }),
            wait(Condition::Count {
                n: 1,
                of: vec![name("x")],
                distinct: Distinct::Sources,
                received: vec![(name("x"), 3), (name("y"), 4)],
            }),
            wait(Condition::Until { at: When::AfterMs(-1), passed: true }),
            wait(Condition::Operator { resumed: true }),
            wait(Condition::Children { ended: true }),
            wait(Condition::Any(Vec::new())),
        ];
        for (kind, on_timeout) in StepKind::ALL.into_iter().zip(OnTimeout::ALL) {
            waits.push(WaitDraft {
                step: Some((name("s"), kind)),
                on_timeout,
                ..wait(Condition::operator())
            });
        }
        waits
    }

    // Stored digests were computed from these forms: a literal below never changes.

    #[test]
    fn the_digest_of_a_submission_is_stable() {
        assert_eq!(plain().digest(), 0x754f_fb55_03d0_04c3);
        assert_eq!(full().digest(), 0x4a79_1c5b_ac5a_4489);
        assert_eq!(fixed().digest(), 0xf292_3e43_50b4_56a2);
        let keyed = Draft { idempotency_key: Some("k".into()), ..plain() };
        assert_eq!(keyed.digest(), 0xadd6_d6c2_590e_c7bb);
    }

    #[test]
    fn the_digests_of_a_graph_and_of_its_nodes_are_stable() {
        let digests = |graph: GraphDraft| {
            let plan = graph.check(GraphTarget::NewFlow).expect("is valid");
            (plan.digest(), plan.nodes().iter().map(|node| node.digest).collect::<Vec<_>>())
        };
        let (a, b) = (0x9894_7911_cb08_eecc, 0xd0f9_5ab7_729e_fa34);
        let nodes = vec![a, b, 0xee4a_8505_5ab0_fda7, 0x48a4_0288_29a8_3504];
        assert_eq!(digests(graph()), (0xcfa9_fab5_4c7a_ec7b, nodes));
        let nodes = vec![a, b, 0x4892_e417_f45b_b37b, 0xf19d_cf94_96ac_b8db];
        assert_eq!(digests(all_of()), (0x6893_41bf_1d1a_0931, nodes));
        assert_eq!(digests(plain_flow().graph), (0x2f8c_c266_7160_b807, vec![a]));
    }

    #[test]
    fn the_digest_of_a_flow_is_stable() {
        let digest = |draft: FlowDraft| draft.check().expect("is valid").0.digest();
        assert_eq!(digest(flow()), 0xfa95_f4d0_d31f_8f83);
        assert_eq!(digest(plain_flow()), 0x04ec_f950_0cfb_db9c);
    }

    #[test]
    fn the_digest_of_a_suspension_is_stable() {
        assert_eq!(suspend(every_condition(), Vec::new()), 0x061c_e5b7_bf6f_2632);
        let waitpoints = vec![
            WaitpointDraft::new(name("approval")),
            WaitpointDraft {
                source: Some(name("ann")),
                expires_ms: Some(9),
                ..WaitpointDraft::new(name("two"))
            },
        ];
        let waits = || vec![wait(Condition::signal(name("approval")))];
        assert_eq!(suspend(waits(), waitpoints), 0xfacf_aa47_ab92_5472);
        let plain = || WaitpointDraft::new(name("approval"));
        let forms = [
            plain(),
            WaitpointDraft { signals: Some(vec![name("approval")]), ..plain() },
            WaitpointDraft { prompt: Some("Go?".into()), ..plain() },
        ];
        let digests: std::collections::BTreeSet<u64> =
            forms.into_iter().map(|form| suspend(waits(), vec![form])).collect();
        assert_eq!(digests.len(), 3, "the signals and the prompt are part of the digest");
    }

    #[test]
    fn the_digests_of_other_reports_are_stable() {
        let fail =
            |retry_after_ms| Op::Fail { message: "m".into(), class: FailureClass::Permanent, retry_after_ms };
        let step = StepDraft { name: name("s"), kind: StepKind::Step, result: "1".into(), duration_ms: 1 };
        for (op, digest) in [
            (Op::Complete { result: "{}".into() }, 0xcb16_e938_1523_e677),
            (fail(None), 0xa76d_d23d_486e_fc40),
            (fail(Some(5)), 0x0ff3_5c29_4faa_056e),
            (Op::Delay { until: When::At(Timestamp::from_millis(5)) }, 0x3a1e_38e5_0d54_5671),
            (Op::Delay { until: When::AfterMs(5) }, 0x902d_0c08_e984_5412),
            (Op::Release, 0xc928_3a60_a9ea_ce6e),
            (Op::Step(step), 0xe8f1_4d11_3743_bd9d),
        ] {
            assert_eq!(report(op.clone()), digest, "{op:?}");
        }
    }

    #[test]
    fn the_digest_of_a_signal_is_stable() {
        let (signal, source) = (name("go"), name("ann"));
        let draft = SignalDraft { name: Some("go".into()), payload: "1".into(), key: None };
        let sender = SignalSender::Caller { namespace: NamespaceId(1), source: source.clone() };
        let deliver = draft.check(ExecutionId(Uuid::from_u128(1)), sender).expect("is valid");
        assert_eq!(deliver.digest(&signal, &source), 0x3073_264f_2769_4819);
    }
}
