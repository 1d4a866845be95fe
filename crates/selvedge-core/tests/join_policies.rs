//! Every policy over every vector of outcomes up to in-degree 6: what a group decides, at which arrival, and that it never
//! decides again.
//!
//! The reference is written from the table of the specification and shares nothing with the code: it looks at the edges one
//! by one, where the code goes by counts.

use selvedge_core::join::{Edge, EdgeCondition, GroupDecision, JoinPolicy, OnSatisfied, Resolution};
use selvedge_core::{Join, Outcome};

/// How an upstream stands in the end; none if it is still live.
type Standing = Option<Outcome>;

const STANDINGS: [Standing; 6] = [
    Some(Outcome::Completed),
    Some(Outcome::Failed),
    Some(Outcome::Cancelled),
    Some(Outcome::Expired),
    Some(Outcome::Skipped),
    None,
];

/// Whether an edge holds, is dead, or can still do either.
fn edge_holds(when: EdgeCondition, standing: Standing) -> Option<bool> {
    let outcome = standing?;
    Some(match when {
        EdgeCondition::Success => outcome == Outcome::Completed,
        EdgeCondition::Failure => [Outcome::Failed, Outcome::Cancelled, Outcome::Expired].contains(&outcome),
        EdgeCondition::Finished => true,
    })
}

/// What the edges mean. `None` where nothing is decided; else whether the downstream runs.
fn runs(policy: JoinPolicy, edges: &[Option<bool>]) -> Option<bool> {
    let held = edges.iter().filter(|edge| **edge == Some(true)).count();
    let can_hold = edges.iter().filter(|edge| **edge != Some(false)).count();
    match policy {
        // Every edge holds; impossible as soon as one is dead.
        JoinPolicy::AllOf if edges.contains(&Some(false)) => Some(false),
        JoinPolicy::AllOf => (!edges.contains(&None)).then_some(true),
        // One holds; impossible when none is left that can.
        JoinPolicy::AnyOf { .. } if edges.contains(&Some(true)) => Some(true),
        JoinPolicy::AnyOf { .. } => (can_hold == 0).then_some(false),
        // k hold; impossible when fewer than k still can.
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

/// Every policy that a group of so many edges may have.
fn policies(degree: usize) -> Vec<JoinPolicy> {
    let mut policies = vec![JoinPolicy::AllOf];
    for on_satisfied in [OnSatisfied::CancelRemaining, OnSatisfied::LetRun] {
        policies.push(JoinPolicy::AnyOf { on_satisfied });
        policies.extend((1..=degree as u32).map(|k| JoinPolicy::Quorum { k, on_satisfied }));
    }
    policies
}

/// Conditions of so many edges: every combination up to three, beyond that all the same, and one of each in turn.
fn conditions(degree: usize) -> Vec<Vec<EdgeCondition>> {
    if degree <= 3 {
        return vectors(&EdgeCondition::ALL, degree);
    }
    let mut conditions: Vec<Vec<EdgeCondition>> = EdgeCondition::ALL.map(|when| vec![when; degree]).to_vec();
    conditions.push((0..degree).map(|place| EdgeCondition::ALL[place % 3]).collect());
    conditions
}

/// Every vector of so many of these.
fn vectors<T: Copy>(of: &[T], length: usize) -> Vec<Vec<T>> {
    let mut vectors = vec![Vec::new()];
    for _ in 0..length {
        let longer =
            |vector: &Vec<T>| of.iter().map(|next| [&vector[..], &[*next]].concat()).collect::<Vec<_>>();
        vectors = vectors.iter().flat_map(longer).collect();
    }
    vectors
}

/// Orders in which so many upstreams may arrive: all of them up to four; beyond that forwards, backwards and from within.
fn orders(degree: usize) -> Vec<Vec<usize>> {
    let forwards: Vec<usize> = (0..degree).collect();
    if degree > 4 {
        let backwards = forwards.iter().rev().copied().collect();
        let within = (0..degree).map(|place| (place * (degree - 1) + 2) % degree).collect();
        return vec![forwards, backwards, within];
    }
    let mut orders: Vec<Vec<usize>> = vectors(&forwards, degree);
    orders.retain(|order| forwards.iter().all(|place| order.contains(place)));
    orders
}

fn fresh(policy: JoinPolicy, degree: usize) -> Join {
    Join { policy, edges: vec![Edge::default(); degree], decision: GroupDecision::Pending }
}

/// Lets the upstreams arrive one after the other, and holds the group to the reference after each.
fn arrive(
    policy: JoinPolicy,
    when: &[EdgeCondition],
    standings: &[Standing],
    order: &[usize],
) -> GroupDecision {
    let degree = when.len();
    let mut join = fresh(policy, degree);
    let mut edges: Vec<Option<bool>> = vec![None; degree];
    let mut decided = 0;
    for place in order.iter().copied().filter(|place| standings[*place].is_some()) {
        assert!(join.update_edge(place, when[place], 0, standings[place]), "it is news");
        edges[place] = edge_holds(when[place], standings[place]);
        let verdict = join.verdict();
        let expected = verdict_of(runs(policy, &edges));
        assert_eq!(verdict, expected, "{policy:?} {when:?} {standings:?} {order:?} at {place}");
        if join.decision == GroupDecision::Pending && verdict != GroupDecision::Pending {
            join.decision = verdict;
            decided += 1;
        }
        assert_eq!(join.decision, expected, "a late arrival does not change what was decided");
        assert!(!join.update_edge(place, when[place], 0, standings[place]), "the same news twice is none");
    }
    let counts =
        [Resolution::Holds, Resolution::Dead, Resolution::Pending].map(|one| join.count(one) as usize);
    let counted =
        [Some(true), Some(false), None].map(|one| edges.iter().filter(|edge| **edge == one).count());
    assert_eq!(counts, counted);
    assert_eq!(counts.iter().sum::<usize>(), degree);
    assert_eq!(decided, u32::from(join.decision != GroupDecision::Pending), "a decision is taken once");
    join.decision
}

/// Walks everything of this in-degree; gives how often each decision was taken.
fn walk(degree: usize) -> [usize; 3] {
    let (orders, vectors) = (orders(degree), vectors(&STANDINGS, degree));
    let mut taken = [0; 3];
    for when in conditions(degree) {
        for (number, standings) in vectors.iter().enumerate() {
            for (place, policy) in policies(degree).into_iter().enumerate() {
                // What happens to the rest decides nothing: with many edges some vectors are enough for the second of each
                // policy, and all orders for some vectors.
                let many = degree > 4;
                if many && place > degree + 1 && number % 8 != 0 {
                    continue;
                }
                let chosen = if many && number % 7 != 0 { &orders[number % 3..][..1] } else { &orders[..] };
                let mut decisions = chosen.iter().map(|order| arrive(policy, &when, standings, order));
                let first = decisions.next().unwrap_or_default();
                assert!(decisions.all(|other| other == first), "the order of arrival decides nothing");
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
fn a_satisfied_group_keeps_what_it_counted_and_still_hears_what_is_pending() {
    for policy in policies(2).into_iter().filter(|policy| policy.absorbs()) {
        let mut join = fresh(policy, 3);
        let wanted = match policy {
            JoinPolicy::Quorum { k, .. } => k as usize,
            JoinPolicy::AllOf | JoinPolicy::AnyOf { .. } => 1,
        };
        for place in 0..wanted {
            assert!(join.update_edge(place, EdgeCondition::Success, 0, Some(Outcome::Completed)));
        }
        assert_eq!(join.verdict(), GroupDecision::Satisfied);
        join.decision = GroupDecision::Satisfied;
        let counted = join.clone();
        for generation in 0..3 {
            for standing in STANDINGS {
                assert!(!join.update_edge(0, EdgeCondition::Success, generation, standing), "it was counted");
            }
        }
        assert_eq!(join, counted);
        assert!(join.update_edge(2, EdgeCondition::Success, 1, None), "it runs again");
        assert!(join.update_edge(2, EdgeCondition::Success, 1, Some(Outcome::Failed)));
        assert_eq!((join.verdict(), join.count(Resolution::Dead)), (GroupDecision::Satisfied, 1));
    }
}

#[test]
fn news_of_an_older_generation_changes_nothing_and_of_a_newer_one_replaces_the_edge() {
    for first in STANDINGS {
        for second in STANDINGS {
            let mut join = fresh(JoinPolicy::AllOf, 2);
            join.update_edge(0, EdgeCondition::Success, 1, first);
            let before = join.clone();
            assert!(!join.update_edge(0, EdgeCondition::Success, 0, second), "that was before");
            assert_eq!(join, before);
            assert!(join.update_edge(0, EdgeCondition::Success, 2, second), "that is newer");
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
fn an_edge_that_is_not_there_hears_nothing() {
    let mut join = fresh(JoinPolicy::AllOf, 1);
    assert!(!join.update_edge(1, EdgeCondition::Success, 0, Some(Outcome::Completed)));
    assert_eq!(join, fresh(JoinPolicy::AllOf, 1));
}

#[test]
fn a_group_survives_its_bytes() {
    for policy in policies(3) {
        let mut join = fresh(policy, 3);
        join.update_edge(1, EdgeCondition::Failure, 7, Some(Outcome::Expired));
        join.decision = join.verdict();
        assert_eq!(Join::decode(&join.encode()).expect("it can be read"), join);
    }
}
