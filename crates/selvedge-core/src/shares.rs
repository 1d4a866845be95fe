//! Whose turn it is among several that share something by weight.

use std::collections::HashMap;
use std::hash::Hash;

/// What one turn costs a member of weight one.
const COST: u64 = 1_000_000;

/// How far each member is with its share. Kept by a process, and only ever a matter of taste: it decides nothing but whose
/// turn it is.
#[derive(Clone, Debug)]
pub struct Shares<K> {
    now: u64,
    members: HashMap<K, u64>,
}

impl<K> Default for Shares<K> {
    fn default() -> Self {
        Shares { now: 0, members: HashMap::new() }
    }
}

impl<K: Clone + Eq + Hash> Shares<K> {
    /// How far a member is: the one that is least far has its turn. One that wanted nothing for a while has no more coming to
    /// it than the others.
    pub fn of(&self, member: &K) -> u64 {
        self.members.get(member).copied().unwrap_or_default().max(self.now)
    }

    /// A member of this weight had a turn.
    pub fn serve(&mut self, member: &K, weight: u32) {
        self.now = self.of(member);
        self.members.insert(member.clone(), self.now + COST / u64::from(weight.max(1)));
    }
}

#[cfg(test)]
mod tests {
    use super::Shares;

    fn turns(shares: &mut Shares<char>, members: &[(char, u32)], count: usize) -> String {
        let mut had = String::new();
        for _ in 0..count {
            let next = members.iter().min_by_key(|(member, _)| shares.of(member)).expect("there is one");
            shares.serve(&next.0, next.1);
            had.push(next.0);
        }
        had
    }

    #[test]
    fn members_have_turns_by_their_weights_and_none_waits_for_long() {
        let mut shares = Shares::default();
        let had = turns(&mut shares, &[('a', 3), ('b', 1)], 40);
        assert_eq!(had.matches('a').count(), 30);
        assert!(had.as_bytes().windows(5).all(|turns| turns.contains(&b'b')));
    }

    #[test]
    fn one_that_wanted_nothing_for_a_while_does_not_catch_up() {
        let mut shares = Shares::default();
        turns(&mut shares, &[('a', 1)], 100);
        let had = turns(&mut shares, &[('a', 1), ('b', 1)], 10);
        assert!(had.matches('b').count() <= 6, "{had}");
    }
}
