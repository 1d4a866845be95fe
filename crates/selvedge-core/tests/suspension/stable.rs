//! The numbers of stores and the names of the API, which must never change.

use super::helpers::signal;
use super::test_store::name;
use selvedge_core::fact::LeaseRef;
use selvedge_core::signal::Effect;
use selvedge_core::step::StepKind;
use selvedge_core::submission::When;
use selvedge_core::suspension::{Condition, Distinct, OnTimeout, ResumedBy, WaitDraft};
use selvedge_core::waitpoint::WaitpointState;
use selvedge_core::{LeaseId, Suspension, Timestamp};
use serde_json::json;
use uuid::Uuid;

#[test]
fn the_numbers_of_effects_kinds_of_steps_and_states_of_waitpoints_are_stable() {
    let effects = [(Effect::Buffered, 0), (Effect::Counted, 1), (Effect::Resumed, 2)];
    for (effect, code) in effects {
        assert_eq!((effect.code(), Effect::from_code(code)), (code, Some(effect)));
    }
    assert_eq!((effects.len(), Effect::from_code(3), Effect::from_code(-1)), (Effect::ALL.len(), None, None));
    use StepKind::{Join, Race, Sleep, Spawn, Step, Wait};
    let kinds = [(Step, 0), (Sleep, 1), (Wait, 2), (Spawn, 3), (Join, 4), (Race, 5)];
    for (kind, code) in kinds {
        assert_eq!((kind.code(), StepKind::from_code(code)), (code, Some(kind)));
    }
    assert_eq!((kinds.len(), StepKind::from_code(6)), (StepKind::ALL.len(), None));
    let states = [
        (WaitpointState::Open, (0, None, None)),
        (WaitpointState::Delivered(7, Effect::Counted), (1, Some(7), Some(1))),
        (WaitpointState::Expired, (2, None, None)),
        (WaitpointState::Revoked, (3, None, None)),
    ];
    for (state, codes) in states {
        assert_eq!(state.codes(), codes);
        assert_eq!(WaitpointState::from_codes(codes.0, codes.1, codes.2), Some(state));
    }
    for (state, signal, effect) in
        [(0, Some(1), None), (1, None, None), (1, Some(1), Some(9)), (4, None, None)]
    {
        assert_eq!(WaitpointState::from_codes(state, signal, effect), None);
    }
}

#[test]
fn every_name_parses_back_to_its_value() {
    for kind in StepKind::ALL {
        assert_eq!(StepKind::parse(kind.as_str()), Some(kind));
    }
    for then in OnTimeout::ALL {
        assert_eq!(OnTimeout::parse(then.as_str()), Some(then));
    }
    for distinct in Distinct::ALL {
        assert_eq!(Distinct::parse(distinct.as_str()), Some(distinct));
    }
    for by in [ResumedBy::Condition, ResumedBy::Operator, ResumedBy::Timeout] {
        assert_eq!(serde_json::to_value(by).expect("is JSON"), by.as_str());
    }
    for effect in Effect::ALL {
        assert_eq!(serde_json::to_value(effect).expect("is JSON"), effect.as_str());
    }
    assert_eq!((StepKind::parse(""), OnTimeout::parse("stop"), Distinct::parse("names")), (None, None, None));
}

fn everything() -> Condition {
    let names = ["a", "b"].map(name).to_vec();
    Condition::Any(vec![
        Condition::All(vec![signal("a"), Condition::until(When::AfterMs(5)), Condition::operator()]),
        Condition::count(2, names, Distinct::Sources),
        Condition::children(),
    ])
}

#[test]
fn the_public_data_of_a_suspension_has_absolute_times() {
    let since = Timestamp::from_millis(1_000);
    let draft =
        WaitDraft { timeout_ms: Some(9), on_timeout: OnTimeout::Escalate, ..WaitDraft::new(everything()) };
    let [worker, instance] = ["worker", "instance"].map(name);
    let lease = LeaseRef { id: LeaseId(Uuid::nil()), epoch: 3, worker, instance };
    let suspension = Suspension { number: 4, since, lease, waits: vec![draft.begin(since, None)] };
    let condition = json!({ "any": [
        { "all": [{ "signal": "a" }, { "until_at": 1_005 }, { "operator": true }] },
        { "count": { "n": 2, "of": ["a", "b"], "distinct": "sources" } },
        { "children": true },
    ] });
    let wait = json!({
        "step": null, "condition": condition, "on_timeout": "escalate", "escalated": false, "timeout_at": 1_009,
    });
    let expected = json!({ "number": 4, "since_at": 1_000, "attempt": 2, "waits": [wait] });
    assert_eq!(suspension.public_data(), expected);
}

#[test]
fn the_description_of_a_condition_includes_its_fulfilment() {
    let fresh = "(signal \"a\" and a time and an operator) or 2 distinct sources of a, b (0 received) or the end of its \
                 children";
    let mut condition = everything();
    assert_eq!(condition.describe(), fresh);
    let (text, source) = (name("a"), name("ann"));
    condition.receive(selvedge_core::suspension::IncomingSignal {
        number: 1,
        name: &text,
        source: &source,
        waitpoint: None,
    });
    let received = condition.describe();
    assert!(received.starts_with("(signal \"a\" (received) and a time"), "{received}");
    assert!(received.contains("(1 received)"), "{received}");
}
