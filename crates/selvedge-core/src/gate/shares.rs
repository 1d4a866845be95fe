//! Weighted fair sharing: selects the next member to serve, in proportion to the weights.

use std::collections::HashMap;
use std::hash::Hash;

/// Virtual time that one turn costs a member of weight 1.
const COST: u64 = 1_000_000;

/// The state of a fair share: a virtual time for each member, which advances with every turn of the member. Kept in
/// memory by each process: losing it affects only the order of turns.
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
    /// Returns the virtual time of a member. The member with the smallest is served next. An idle member does not
    /// accumulate a claim to extra turns.
    pub fn virtual_time(&self, member: &K) -> u64 {
        self.members.get(member).copied().unwrap_or_default().max(self.now)
    }

    /// Records a turn of a member with this weight. A weight of 0 counts as 1.
    pub fn serve(&mut self, member: &K, weight: u32) {
        self.now = self.virtual_time(member);
        self.members.insert(member.clone(), self.now + COST / u64::from(weight.max(1)));
    }
}

#[cfg(test)]
mod tests {
    use super::Shares;

    fn turns(shares: &mut Shares<char>, members: &[(char, u32)], count: usize) -> String {
        let mut served = String::new();
        for _ in 0..count {
            let next = members
                .iter()
                .min_by_key(|(member, _)| shares.virtual_time(member))
                .expect("there are members");
            shares.serve(&next.0, next.1);
            served.push(next.0);
        }
        served
    }

    #[test]
    fn turns_are_proportional_to_weights_and_no_member_starves() {
        let mut shares = Shares::default();
        let served = turns(&mut shares, &[('a', 3), ('b', 1)], 40);
        assert_eq!(served.matches('a').count(), 30);
        assert!(served.as_bytes().windows(5).all(|turns| turns.contains(&b'b')));
    }

    #[test]
    fn an_idle_member_gets_no_extra_turns_when_it_returns() {
        let mut shares = Shares::default();
        turns(&mut shares, &[('a', 1)], 100);
        let served = turns(&mut shares, &[('a', 1), ('b', 1)], 10);
        assert!(served.matches('b').count() <= 6, "{served}");
    }
}
