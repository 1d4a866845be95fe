//! Conditions that are refused, each with the exact pointer to the invalid part; and conditions just within the limits.

use selvedge_core::rules::suspend::Suspend;
use selvedge_core::step::StepKind;
use selvedge_core::submission::{DURATION_LIMIT_MS, When};
use selvedge_core::suspension::{
    Condition, DEPTH_MAX, Distinct, LEAVES_MAX, NAMES_MAX, WAITS_MAX, WaitDraft,
};
use selvedge_core::{Name, Refusal};

fn signal(name: &str) -> Condition {
    Condition::signal(Name::trusted(name))
}

/// Nests `any` and `all` alternately around a leaf, this many levels deep.
fn nested(depth: usize) -> Condition {
    let wrap = |inner: Condition, level: usize| match level % 2 {
        0 => Condition::Any(vec![signal("beside"), inner]),
        _ => Condition::All(vec![inner]),
    };
    (0..depth).rev().fold(signal("inside"), wrap)
}

fn count(n: u32, of: &[&str], distinct: Distinct) -> Condition {
    Condition::count(n, of.iter().copied().map(Name::trusted).collect(), distinct)
}

/// Returns the pointer in the refusal of a condition at `/condition`.
fn refused_at(condition: &Condition) -> String {
    match condition.check("/condition") {
        Err(Refusal::InvalidField { pointer, detail }) if !detail.is_empty() => pointer,
        other => panic!("{condition:?} gives {other:?}"),
    }
}

#[test]
fn a_condition_is_nested_four_deep_at_most() {
    assert_eq!(DEPTH_MAX, 4);
    for depth in 0..=DEPTH_MAX {
        assert_eq!(nested(depth).check("/condition"), Ok(()), "{depth}");
    }
    assert_eq!(refused_at(&nested(5)), "/condition/any/1/all/0/any/1/all/0/any");
    assert_eq!(
        refused_at(&nested(50)),
        "/condition/any/1/all/0/any/1/all/0/any",
        "the outermost part that is too deep"
    );
}

#[test]
fn an_empty_any_or_all_is_refused_at_its_own_pointer() {
    assert_eq!(refused_at(&Condition::Any(vec![])), "/condition/any");
    assert_eq!(refused_at(&Condition::All(vec![])), "/condition/all");
    let inside = Condition::All(vec![signal("a"), Condition::Any(vec![signal("b"), Condition::All(vec![])])]);
    assert_eq!(refused_at(&inside), "/condition/all/1/any/1/all");
}

#[test]
fn a_count_that_can_never_hold_or_always_does_is_refused() {
    for n in 1..=2 {
        assert_eq!(count(n, &["a", "b"], Distinct::Signals).check(""), Ok(()), "{n} of 2");
    }
    for n in [0, 3, u32::MAX] {
        assert_eq!(refused_at(&count(n, &["a", "b"], Distinct::Signals)), "/condition/count/n", "{n} of 2");
    }
    // One name may be sent by many sources and through many waitpoints.
    for distinct in [Distinct::Sources, Distinct::Waitpoints] {
        for n in [1, 3, NAMES_MAX as u32] {
            assert_eq!(count(n, &["a"], distinct).check(""), Ok(()), "{n}");
        }
        for n in [0, NAMES_MAX as u32 + 1] {
            assert_eq!(refused_at(&count(n, &["a"], distinct)), "/condition/count/n", "{n}");
        }
    }
    let inside = Condition::Any(vec![signal("a"), count(0, &["a"], Distinct::Signals)]);
    assert_eq!(refused_at(&inside), "/condition/any/1/count/n");
}

#[test]
fn the_names_of_a_count_must_be_valid_distinct_and_within_the_limit() {
    let many = |number: usize| {
        let names = (0..number).map(|index| Name::trusted(&format!("name {index}"))).collect();
        Condition::count(1, names, Distinct::Signals)
    };
    assert_eq!(many(NAMES_MAX).check(""), Ok(()));
    assert_eq!(refused_at(&many(0)), "/condition/count/of");
    assert_eq!(refused_at(&many(NAMES_MAX + 1)), "/condition/count/of");
    for distinct in Distinct::ALL {
        assert_eq!(refused_at(&count(1, &["a", "b", "a"], distinct)), "/condition/count/of/2");
        assert_eq!(refused_at(&count(1, &["a", ""], distinct)), "/condition/count/of/1");
    }
}

#[test]
fn a_signal_with_an_invalid_name_is_refused_at_its_own_pointer() {
    let long = "x".repeat(201);
    for name in ["", "a\u{0}b", "a\nb", &long] {
        assert_eq!(refused_at(&signal(name)), "/condition/signal");
        let inside = Condition::All(vec![signal("a"), signal(name)]);
        assert_eq!(refused_at(&inside), "/condition/all/1/signal");
    }
}

#[test]
fn a_condition_has_a_hundred_leaves_at_most() {
    let wide = |leaves| Condition::Any(vec![signal("a"); leaves]);
    assert_eq!(wide(LEAVES_MAX).check("/condition"), Ok(()));
    assert_eq!(refused_at(&wide(LEAVES_MAX + 1)), "/condition");
    let beside = |leaves| Condition::All(vec![wide(leaves - 1), Condition::operator()]);
    assert_eq!(beside(LEAVES_MAX).check("/condition"), Ok(()));
    assert_eq!(refused_at(&beside(LEAVES_MAX + 1)), "/condition", "leaves count at every level");
}

#[test]
fn a_duration_out_of_range_is_refused_at_its_own_pointer() {
    for ms in [-1, DURATION_LIMIT_MS + 1] {
        let until = Condition::until(When::AfterMs(ms));
        assert_eq!(refused_at(&until), "/condition/delay_ms");
        assert_eq!(refused_at(&Condition::Any(vec![until])), "/condition/any/0/delay_ms");
    }
    for ms in [0, DURATION_LIMIT_MS] {
        assert_eq!(Condition::until(When::AfterMs(ms)).check(""), Ok(()));
    }
}

/// Returns the pointer in the refusal of a suspension.
fn suspend_refused_at(waits: Vec<WaitDraft>) -> String {
    let suspend = Suspend { waits, waitpoints: vec![], fingerprint: 0, default_timeout_ms: None };
    match suspend.check() {
        Err(Refusal::InvalidField { pointer, detail }) if !detail.is_empty() => pointer,
        other => panic!("{suspend:?} gives {other:?}"),
    }
}

#[test]
fn the_pointer_to_a_wait_has_its_index_unless_it_is_the_only_wait() {
    let good = || WaitDraft::new(signal("a"));
    let step = |name: &str| Some((Name::trusted(name), StepKind::Wait));
    let bad = || WaitDraft::new(Condition::Any(vec![]));
    let late = || WaitDraft { timeout_ms: Some(-1), ..good() };
    let unnamed = || WaitDraft { step: step(""), ..good() };
    assert_eq!(suspend_refused_at(vec![]), "/waits");
    assert_eq!(suspend_refused_at(vec![good(); WAITS_MAX + 1]), "/waits");
    assert_eq!(suspend_refused_at(vec![bad()]), "/condition/any");
    assert_eq!(suspend_refused_at(vec![late()]), "/timeout_ms");
    assert_eq!(suspend_refused_at(vec![unnamed()]), "/step");
    assert_eq!(suspend_refused_at(vec![good(), bad()]), "/waits/1/condition/any");
    assert_eq!(suspend_refused_at(vec![good(), late()]), "/waits/1/timeout_ms");
    assert_eq!(suspend_refused_at(vec![unnamed(), good()]), "/waits/0/step");
    let twice = |kind| WaitDraft { step: Some((Name::trusted("s"), kind)), ..good() };
    let waits = vec![twice(StepKind::Wait), good(), twice(StepKind::Sleep)];
    assert_eq!(suspend_refused_at(waits), "/waits/2/step", "each wait needs its own step");
    let most = Suspend {
        waits: vec![good(); WAITS_MAX],
        waitpoints: vec![],
        fingerprint: 0,
        default_timeout_ms: None,
    };
    assert_eq!(most.check(), Ok(()));
}
