//! Explanations: every reason that holds is named, alone and together with every other reason that can hold at the same
//! time.

mod causes;
mod ends;
mod scene;

use causes::{CAUSES, Cause};
use scene::{Scene, Situation};
use selvedge_core::explain::Code;

/// The codes of what a live worker may lack. Only the first thing that all workers lack is named.
const WORKERS: [Code; 4] =
    [Code::NoWorkerInLane, Code::NoWorkerOfKind, Code::NoCapableWorker, Code::WorkersDraining];

/// Codes of the explanations of flows.
const FLOWS: [Code; 5] =
    [Code::MembersOpen, Code::MemberOpen, Code::MemberFailed, Code::FailureHandled, Code::FlowCancelled];

/// Codes of reasons that do not keep an execution from being claimed.
const TIMES: [Code; 2] = [Code::Deadline, Code::StartBy];

/// Returns why two causes never hold together; none if they can.
fn impossible(a: &Cause, b: &Cause) -> Option<&'static str> {
    let codes = [a.code, b.code];
    if common(a, b).is_empty() {
        return Some("each needs the execution in a state that excludes the other");
    }
    if codes.iter().all(|code| WORKERS.contains(code)) {
        return Some("only the first thing that all workers lack is named");
    }
    let blocks = |code: &Code| *code != Code::WaitingForWorker && !TIMES.contains(code);
    if codes.contains(&Code::WaitingForWorker) && codes.iter().any(blocks) {
        return Some("a free worker would not help while something else holds the execution");
    }
    None
}

/// Returns the situations in which both causes can occur.
fn common(a: &Cause, b: &Cause) -> Vec<Situation> {
    a.situations.iter().filter(|one| b.situations.contains(one)).copied().collect()
}

/// Returns the codes that a situation itself causes.
fn base(situation: Situation) -> &'static [Code] {
    match situation {
        Situation::Waiting => &[Code::WaitingForWorker],
        Situation::WaitingForUpstreams => &[Code::WaitingForUpstreams],
        Situation::Delayed => &[Code::Delayed],
        Situation::WaitingForQuiet => &[Code::Debounced],
        Situation::BackingOff => &[Code::Backoff],
        Situation::InLine => &[Code::FairnessTurn],
        Situation::HeldByOpenGate => &[Code::GateOpen],
        Situation::Suspended => &[Code::Suspended],
        Situation::Active => &[Code::Active],
        Situation::Completed => &[Code::Ended],
        Situation::Failed => &[Code::Ended, Code::Failed],
        Situation::Cancelled => &[Code::Ended, Code::Cancelled],
        Situation::Expired => &[Code::Ended, Code::Expired],
        Situation::Skipped => &[Code::Ended, Code::Skipped],
    }
}

/// Explains a scene with these causes, and asserts that each of them is named and nothing else is.
fn assert_named(situation: Situation, causes: &[&Cause]) {
    let mut scene = Scene::new(situation);
    causes.iter().for_each(|cause| (cause.set)(&mut scene));
    let explanation = scene.explain();
    let names: Vec<&str> = causes.iter().map(|cause| cause.name).collect();
    for cause in causes {
        let reference = cause.reference.map(|(kind, id)| (kind.as_str(), id.to_owned()));
        let named = explanation.reasons.iter().filter(|reason| reason.code == cause.code).any(|reason| {
            let about = reason.reference.as_ref().map(|about| (about.kind.as_str(), about.id.clone()));
            reference.is_none() || about == reference
        });
        assert!(named, "{situation:?} with {names:?} does not name {:?}: {explanation:#?}", cause.name);
    }
    for reason in &explanation.reasons {
        let expected =
            causes.iter().any(|cause| cause.code == reason.code || cause.brings == Some(reason.code));
        let of_situation = base(situation).contains(&reason.code);
        assert!(expected || of_situation, "{situation:?} with {names:?} names {reason:?}");
        assert!(
            explanation.next_change.is_none_or(|next| reason.until.is_none_or(|until| next <= until)),
            "{situation:?} with {names:?}: something changes before {:?}",
            explanation.next_change
        );
        assert!(!reason.message.is_empty());
    }
}

#[test]
fn a_situation_without_further_causes_is_explained_by_itself() {
    for situation in Situation::ALL {
        let explanation = Scene::new(situation).explain();
        let codes: Vec<Code> = explanation.reasons.iter().map(|reason| reason.code).collect();
        assert_eq!(codes, base(situation), "{situation:?}");
    }
}

#[test]
fn every_reason_is_named_alone_and_with_every_other_that_can_hold_at_the_same_time() {
    let mut pairs = 0;
    for (index, a) in CAUSES.iter().enumerate() {
        for situation in a.situations {
            assert_named(*situation, &[a]);
        }
        for b in CAUSES[index + 1..].iter().filter(|b| impossible(a, b).is_none()) {
            for situation in common(a, b) {
                assert_named(situation, &[a, b]);
                pairs += 1;
            }
        }
    }
    assert!(pairs > 500, "only {pairs} pairs were walked");
}

#[test]
fn every_code_has_a_cause_and_can_hold_with_another_reason() {
    for code in Code::ALL.iter().filter(|code| !FLOWS.contains(code)) {
        let causes: Vec<&Cause> = CAUSES.iter().filter(|cause| cause.code == *code).collect();
        assert!(!causes.is_empty(), "{code} has no cause in the walk");
        let others = || CAUSES.iter().filter(|other| other.code != *code);
        let possible = causes.iter().any(|cause| others().any(|other| impossible(cause, other).is_none()));
        assert!(possible, "{code} never holds with another reason");
    }
}

#[test]
fn every_code_is_documented() {
    let manual = include_str!("../../../../docs/operating.md");
    for code in Code::ALL {
        assert!(manual.contains(&format!("`{code}`")), "docs/operating.md does not explain {code}");
    }
}
