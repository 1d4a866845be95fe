//! Every join policy over every vector of outcomes up to in-degree 6: the decision, the update that leads to it, and
//! that it is final.
//!
//! The reference is written from the table of the specification and shares no code with the implementation: it
//! evaluates the edges one by one, whereas the implementation counts them.

use selvedge_core::join::{Edge, EdgeCondition, GroupDecision, JoinPolicy, OnSatisfied, Resolution};
use selvedge_core::{Join, Outcome};

/// The outcome of an upstream; none while it is live.
type UpstreamOutcome = Option<Outcome>;

const UPSTREAM_OUTCOMES: [UpstreamOutcome; 6] = [
    Some(Outcome::Completed),
    Some(Outcome::Failed),
    Some(Outcome::Cancelled),
    Some(Outcome::Expired),
    Some(Outcome::Skipped),
    None,
];

/// Returns whether an edge holds; none while it is pending.
fn edge_holds(when: EdgeCondition, outcome: UpstreamOutcome) -> Option<bool> {
    let outcome = outcome?;
    Some(match when {
        EdgeCondition::Success => outcome == Outcome::Completed,
        EdgeCondition::Failure => [Outcome::Failed, Outcome::Cancelled, Outcome::Expired].contains(&outcome),
        EdgeCondition::FailureOrSkipped => outcome != Outcome::Completed,
        EdgeCondition::Finished => true,
    })
}

/// Returns whether the downstream runs; none while the group is undecided.
fn runs(policy: JoinPolicy, edges: &[Option<bool>]) -> Option<bool> {
    let held = edges.iter().filter(|edge| **edge == Some(true)).count();
    let can_hold = edges.iter().filter(|edge| **edge != Some(false)).count();
    match policy {
        // Satisfied if every edge holds; impossible as soon as one is dead.
        JoinPolicy::AllOf if edges.contains(&Some(false)) => Some(false),
        JoinPolicy::AllOf => (!edges.contains(&None)).then_some(true),
        // Satisfied if one edge holds; impossible once none can.
        JoinPolicy::AnyOf { .. } if edges.contains(&Some(true)) => Some(true),
        JoinPolicy::AnyOf { .. } => (can_hold == 0).then_some(false),
        // Satisfied if k edges hold; impossible once fewer than k can.
        JoinPolicy::Quorum { k, .. } if held >= k as usize => Some(true),
        JoinPolicy::Quorum { k, .. } => (can_hold < k as usize).then_some(false),
    }
}

fn verdict_of(runs: Option<bool>) -> GroupDecision {
    match runs {
        None => GroupDecision::Pending,
        Some(true) => GroupDecision::Satisfied,
        Some(false) => GroupDecision::Impossible,
    }
}

/// Returns every policy for a group of this many edges.
fn policies(degree: usize) -> Vec<JoinPolicy> {
    let mut policies = vec![JoinPolicy::AllOf];
    for on_satisfied in [OnSatisfied::CancelRemaining, OnSatisfied::LetRun] {
        policies.push(JoinPolicy::AnyOf { on_satisfied });
        policies.extend((1..=degree as u32).map(|k| JoinPolicy::Quorum { k, on_satisfied }));
    }
    policies
}

/// Returns conditions for this many edges: every combination up to three edges; beyond that, all equal, and all three
/// alternating.
fn conditions(degree: usize) -> Vec<Vec<EdgeCondition>> {
    if degree <= 3 {
        return vectors(&EdgeCondition::ALL, degree);
    }
    let mut conditions: Vec<Vec<EdgeCondition>> = EdgeCondition::ALL.map(|when| vec![when; degree]).to_vec();
    conditions.push((0..degree).map(|index| EdgeCondition::ALL[index % 3]).collect());
    conditions
}

/// Returns every vector of this length over `of`.
fn vectors<T: Copy>(of: &[T], length: usize) -> Vec<Vec<T>> {
    let mut vectors = vec![Vec::new()];
    for _ in 0..length {
        let longer =
            |vector: &Vec<T>| of.iter().map(|next| [&vector[..], &[*next]].concat()).collect::<Vec<_>>();
        vectors = vectors.iter().flat_map(longer).collect();
    }
    vectors
}

/// Returns orders of this many updates: all orders up to four; beyond that forwards, backwards and one shuffled.
fn orders(degree: usize) -> Vec<Vec<usize>> {
    let forwards: Vec<usize> = (0..degree).collect();
    if degree > 4 {
        let backwards = forwards.iter().rev().copied().collect();
        let shuffled = (0..degree).map(|index| (index * (degree - 1) + 2) % degree).collect();
        return vec![forwards, backwards, shuffled];
    }
    let mut orders: Vec<Vec<usize>> = vectors(&forwards, degree);
    orders.retain(|order| forwards.iter().all(|index| order.contains(index)));
    orders
}

fn fresh(policy: JoinPolicy, degree: usize) -> Join {
    Join { policy, edges: vec![Edge::default(); degree], decision: GroupDecision::Pending }
}

/// Updates the edges one after the other, and compares the group with the reference after each.
fn update_in_order(
    policy: JoinPolicy,
    when: &[EdgeCondition],
    outcomes: &[UpstreamOutcome],
    order: &[usize],
) -> GroupDecision {
    let degree = when.len();
    let mut join = fresh(policy, degree);
    let mut edges: Vec<Option<bool>> = vec![None; degree];
    let mut decided = 0;
    for index in order.iter().copied().filter(|index| outcomes[*index].is_some()) {
        assert!(
            join.update_edge(index, when[index], 0, outcomes[index]),
            "the first update changes the edge"
        );
        edges[index] = edge_holds(when[index], outcomes[index]);
        let verdict = join.verdict();
        let expected = verdict_of(runs(policy, &edges));
        assert_eq!(verdict, expected, "{policy:?} {when:?} {outcomes:?} {order:?} at {index}");
        if join.decision == GroupDecision::Pending && verdict != GroupDecision::Pending {
            join.decision = verdict;
            decided += 1;
        }
        assert_eq!(join.decision, expected, "a late update does not change the decision");
        assert!(
            !join.update_edge(index, when[index], 0, outcomes[index]),
            "the same update again changes nothing"
        );
    }
    let counts =
        [Resolution::Holds, Resolution::Dead, Resolution::Pending].map(|one| join.count(one) as usize);
    let counted =
        [Some(true), Some(false), None].map(|one| edges.iter().filter(|edge| **edge == one).count());
    assert_eq!(counts, counted);
    assert_eq!(counts.iter().sum::<usize>(), degree);
    assert_eq!(decided, u32::from(join.decision != GroupDecision::Pending), "the group decides once");
    join.decision
}

/// Checks all groups of this in-degree. Returns how often each decision was taken.
fn walk(degree: usize) -> [usize; 3] {
    let (orders, vectors) = (orders(degree), vectors(&UPSTREAM_OUTCOMES, degree));
    let mut taken = [0; 3];
    for when in conditions(degree) {
        for (number, outcomes) in vectors.iter().enumerate() {
            for (index, policy) in policies(degree).into_iter().enumerate() {
                // `on_satisfied` does not affect the decision. With many edges, a sample of the vectors suffices for
                // its second value, and a sample of the vectors is checked in all orders.
                let many = degree > 4;
                if many && index > degree + 1 && number % 8 != 0 {
                    continue;
                }
                let chosen = if many && number % 7 != 0 { &orders[number % 3..][..1] } else { &orders[..] };
                let mut decisions =
                    chosen.iter().map(|order| update_in_order(policy, &when, outcomes, order));
                let first = decisions.next().unwrap_or_default();
                assert!(
                    decisions.all(|other| other == first),
                    "the order of updates does not affect the decision"
                );
                taken[first as usize] += 1;
            }
        }
    }
    taken
}

#[test]
fn every_policy_decides_every_outcome_vector_up_to_in_degree_four_in_every_order() {
    for degree in 1..=4 {
        assert!(walk(degree).iter().all(|taken| *taken > 0), "every decision was taken");
    }
}

#[test]
fn every_policy_decides_every_outcome_vector_of_in_degree_five() {
    assert!(walk(5).iter().all(|taken| *taken > 0), "every decision was taken");
}

#[test]
fn every_policy_decides_every_outcome_vector_of_in_degree_six() {
    assert!(walk(6).iter().all(|taken| *taken > 0), "every decision was taken");
}

#[test]
fn a_satisfied_group_keeps_its_counted_edges_and_updates_its_pending_ones() {
    for policy in policies(2).into_iter().filter(|policy| policy.tolerates_failures()) {
        let mut join = fresh(policy, 3);
        let wanted = match policy {
            JoinPolicy::Quorum { k, .. } => k as usize,
            JoinPolicy::AllOf | JoinPolicy::AnyOf { .. } => 1,
        };
        for index in 0..wanted {
            assert!(join.update_edge(index, EdgeCondition::Success, 0, Some(Outcome::Completed)));
        }
        assert_eq!(join.verdict(), GroupDecision::Satisfied);
        join.decision = GroupDecision::Satisfied;
        let counted = join.clone();
        for generation in 0..3 {
            for outcome in UPSTREAM_OUTCOMES {
                assert!(
                    !join.update_edge(0, EdgeCondition::Success, generation, outcome),
                    "a counted edge does not change"
                );
            }
        }
        assert_eq!(join, counted);
        assert!(
            join.update_edge(2, EdgeCondition::Success, 1, None),
            "a newer generation of a pending edge is recorded"
        );
        assert!(join.update_edge(2, EdgeCondition::Success, 1, Some(Outcome::Failed)));
        assert_eq!((join.verdict(), join.count(Resolution::Dead)), (GroupDecision::Satisfied, 1));
    }
}

#[test]
fn an_update_of_an_older_generation_is_ignored_and_of_a_newer_one_replaces_the_edge() {
    for first in UPSTREAM_OUTCOMES {
        for second in UPSTREAM_OUTCOMES {
            let mut join = fresh(JoinPolicy::AllOf, 2);
            join.update_edge(0, EdgeCondition::Success, 1, first);
            let before = join.clone();
            assert!(!join.update_edge(0, EdgeCondition::Success, 0, second), "the generation is older");
            assert_eq!(join, before);
            assert!(join.update_edge(0, EdgeCondition::Success, 2, second), "the generation is newer");
            let expected = match edge_holds(EdgeCondition::Success, second) {
                None => Resolution::Pending,
                Some(true) => Resolution::Holds,
                Some(false) => Resolution::Dead,
            };
            assert_eq!(join.edges[0], Edge { resolution: expected, generation: 2 });
            assert_eq!(join.edges[1], before.edges[1]);
        }
    }
}

#[test]
fn an_update_of_an_unknown_edge_is_ignored() {
    let mut join = fresh(JoinPolicy::AllOf, 1);
    assert!(!join.update_edge(1, EdgeCondition::Success, 0, Some(Outcome::Completed)));
    assert_eq!(join, fresh(JoinPolicy::AllOf, 1));
}

#[test]
fn a_join_survives_a_round_trip_through_its_encoding() {
    for policy in policies(3) {
        let mut join = fresh(policy, 3);
        join.update_edge(1, EdgeCondition::Failure, 7, Some(Outcome::Expired));
        join.decision = join.verdict();
        assert_eq!(Join::decode(&join.encode()).expect("it can be read"), join);
    }
}
