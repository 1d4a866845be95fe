//! Suspended rows in every variation that a rule distinguishes, and the signals, waitpoints and token keys beside the
//! rows.

use super::rows::{FLOW, ID, LEASE, NAMESPACE, UPSTREAMS, cancel_requests, now, row, states};
use selvedge_core::fact::LeaseRef;
use selvedge_core::signal::Effect;
use selvedge_core::submission::When;
use selvedge_core::suspension::{Condition, Distinct, OnTimeout, Wait};
use selvedge_core::token::{Secret, TokenKey, TokenKeyId};
use selvedge_core::waitpoint::WaitpointState;
use selvedge_core::wiring::Child;
use selvedge_core::{
    Execution, ExecutionId, Name, Policy, Signal, State, Suspension, Waitpoint, WaitpointId, Wiring,
};
use std::sync::{Arc, LazyLock};
use uuid::Uuid;

/// The signal that suspended rows wait for.
pub const GO: &str = "go";
/// The signal that some rows received before they wait for it.
pub const EARLY: &str = "early";
/// A signal that is never sent.
pub const NEVER: &str = "never";
/// The child of the rows that have one.
pub const CHILD: ExecutionId = UPSTREAMS[1];

const KEY: TokenKeyId = TokenKeyId(1);
const RETIRED_KEY: TokenKeyId = TokenKeyId(2);

/// Returns the root secret.
pub fn secret() -> Arc<Secret> {
    static SECRET: LazyLock<Arc<Secret>> =
        LazyLock::new(|| Arc::new(Secret::new(vec![7; 32]).expect("is long enough")));
    SECRET.clone()
}

/// Returns the fingerprint of the root secret.
pub fn fingerprint() -> i64 {
    static FINGERPRINT: LazyLock<i64> = LazyLock::new(|| secret().fingerprint());
    *FINGERPRINT
}

/// Returns a signing key and a retired one.
pub fn token_keys() -> Vec<TokenKey> {
    let signs = TokenKey { id: KEY, fingerprint: fingerprint(), created_at: now(), retires_at: None };
    vec![signs, TokenKey { id: RETIRED_KEY, retires_at: Some(now()), ..signs }]
}

/// Returns the waitpoints of every row: an open one, and one whose token is no longer accepted.
pub fn waitpoints() -> Vec<Waitpoint> {
    let waitpoint = |number: u32, name: &str, key| Waitpoint {
        id: WaitpointId(Uuid::from_u128(100 + u128::from(number))),
        namespace: NAMESPACE,
        execution: ID,
        number,
        name: Name::trusted(name),
        source: Name::trusted(name),
        key,
        created_at: now().minus_ms(1_000),
        expires_at: None,
        state: WaitpointState::Open,
        signals: Some(vec![Name::trusted(name)]),
        prompt: None,
        issue: 0,
    };
    vec![waitpoint(1, GO, KEY), waitpoint(2, "unsigned", RETIRED_KEY)]
}

/// Returns the waitpoints of this row. Those of an overdue row have expired, but the expiry is not recorded yet.
pub fn waitpoints_of(row: &Execution) -> Vec<Waitpoint> {
    let expires_at = row.detail.record.expires_at;
    waitpoints().into_iter().map(|one| Waitpoint { expires_at, ..one }).collect()
}

/// Returns the signals of this row.
pub fn signals_of(row: &Execution) -> Vec<Signal> {
    let signal = |number| Signal {
        execution: ID,
        number,
        name: Name::trusted(EARLY),
        source: Name::trusted("somebody"),
        waitpoint: None,
        key: None,
        digest: 0,
        at: now().minus_ms(1),
        effect: Effect::Buffered,
        taken: None,
        payload: Some("null".into()),
    };
    (1..=row.detail.record.signals).map(signal).collect()
}

/// Returns a wait without a timeout.
fn wait(condition: Condition) -> Wait {
    Wait { step: None, condition, timeout_at: None, on_timeout: OnTimeout::Fail, escalated: false }
}

fn overdue(condition: Condition, on_timeout: OnTimeout) -> Wait {
    Wait { timeout_at: Some(now()), on_timeout, ..wait(condition) }
}

/// Returns a state that is suspended until one of these waits ends.
pub fn suspended(waits: Vec<Wait>) -> State {
    let [worker, instance] = ["worker", "instance"].map(Name::trusted);
    let lease = LeaseRef { id: LEASE, epoch: 1, worker, instance };
    State::Suspended(Suspension { number: 1, since: now().minus_ms(1_000), lease, waits }.into())
}

fn signal(name: &str) -> Condition {
    Condition::signal(Name::trusted(name))
}

/// Returns a state that is suspended until a signal is received.
pub fn waits_for_a_signal() -> State {
    suspended(vec![wait(signal(GO))])
}

/// Returns suspended states in every variation that a rule distinguishes.
fn suspensions() -> Vec<State> {
    let until = |ms| Condition::until(When::At(now().plus_ms(ms)));
    let both = |left, right| Condition::All(vec![left, right]);
    let names = |names: &[&str]| names.iter().copied().map(Name::trusted).collect();
    let conditions = vec![
        signal(GO),
        until(-1),
        until(1),
        both(until(-1), until(1)),
        both(until(-1), signal(GO)),
        Condition::operator(),
        both(Condition::operator(), signal(GO)),
        Condition::children(),
        both(Condition::children(), signal(GO)),
        Condition::count(1, names(&[GO, NEVER]), Distinct::Waitpoints),
        Condition::count(2, names(&[GO, NEVER]), Distinct::Signals),
        Condition::Any(vec![signal(NEVER), signal(GO)]),
    ];
    let alone = conditions.into_iter().map(|condition| vec![wait(condition)]);
    let late = OnTimeout::ALL.into_iter().map(|then| vec![overdue(signal(NEVER), then)]);
    let several = [
        vec![wait(signal(GO)), wait(Condition::operator())],
        vec![overdue(signal(NEVER), OnTimeout::Resume), wait(signal(GO))],
        vec![overdue(signal(NEVER), OnTimeout::Escalate), overdue(signal(GO), OnTimeout::Fail)],
    ];
    alone.chain(late).chain(several).map(suspended).collect()
}

/// Returns suspended rows, with and without a child; rows of every state whose waitpoints have expired; and rows of
/// every state with signals that no wait has taken.
pub fn recorded_rows() -> Vec<Execution> {
    let plain =
        |state, cancel_until| row(state, Policy { retention_ms: 0, ..Policy::default() }, 0, cancel_until);
    let mut rows = Vec::new();
    for state in suspensions() {
        let children = vec![Child { execution: CHILD, detached: false }];
        let wiring = Some(Wiring { children, ..Wiring::default() }.into());
        rows.push(plain(state.clone(), None));
        rows.push(Execution { flow: Some(FLOW), wiring, ..plain(state, None) });
    }
    for state in states() {
        for cancel_until in cancel_requests(&state) {
            let mut overdue = plain(state.clone(), cancel_until);
            overdue.detail.record.expires_at = Some(now());
            let mut signalled = plain(state.clone(), cancel_until);
            (signalled.detail.record.signals, signalled.detail.record.untaken) = (2, 2);
            rows.extend([overdue, signalled]);
        }
    }
    rows
}
