//! Conditions: trees whose leaves are fulfilled by signals, times, operators, children and gates.

use crate::gate::GateName;
use crate::name::NAME_LIMIT;
use crate::submission::{When, check_duration};
use crate::{Name, Refusal, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The deepest nesting of `any` and `all`.
pub const DEPTH_MAX: usize = 4;
/// The most leaves of a condition.
pub const LEAVES_MAX: usize = 100;
/// The most names in a count.
pub const NAMES_MAX: usize = 1000;

/// The property by which a count distinguishes signals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Distinct {
    /// The signal's name.
    Signals,
    /// The name of the waitpoint through which the signal was delivered.
    Waitpoints,
    Sources,
}

impl Distinct {
    pub const ALL: [Distinct; 3] = [Self::Signals, Self::Waitpoints, Self::Sources];

    /// Returns the name in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Signals => "signals",
            Self::Waitpoints => "waitpoints",
            Self::Sources => "sources",
        }
    }

    /// Returns the property with this name.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == word)
    }
}

/// A condition of a wait, and its fulfilment so far. A fulfilled leaf stays fulfilled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Condition {
    /// Holds once a signal of this name was received.
    Signal {
        /// The signal's name.
        name: Name,
        /// The number of the first received signal.
        received: Option<u32>,
    },
    /// Holds once one of these conditions holds.
    Any(Vec<Condition>),
    /// Holds once all of these conditions hold.
    All(Vec<Condition>),
    /// Holds once `n` distinct signals were received.
    Count {
        /// The number of distinct signals.
        n: u32,
        /// The names of the signals that count. If waitpoints are distinguished, also the names of waitpoints.
        of: Vec<Name>,
        /// The property that distinguishes signals.
        distinct: Distinct,
        /// The first received signal for each distinct value, at most `n`: (value, number of the signal).
        received: Vec<(Name, u32)>,
    },
    /// Holds once a time has passed.
    Until {
        /// The time. A duration becomes a time when the wait begins.
        at: When,
        /// True once the time has passed.
        passed: bool,
    },
    /// Holds once an operator resumes the execution.
    Operator {
        /// True once an operator has resumed it.
        resumed: bool,
    },
    /// Holds once all attached children have ended.
    Children {
        /// True once they have ended.
        ended: bool,
    },
    /// Holds once a gate admits the execution again. Only the engine itself creates this condition.
    Gate {
        gate: GateName,
        /// True once the gate admits the execution.
        open: bool,
    },
}

/// A signal, as conditions match it.
#[derive(Clone, Copy, Debug)]
pub struct IncomingSignal<'a> {
    pub number: u32,
    pub name: &'a Name,
    pub source: &'a Name,
    /// The name of the waitpoint through which it was delivered, if it was.
    pub waitpoint: Option<&'a Name>,
}

impl Condition {
    /// Creates a condition that waits for a signal.
    pub fn signal(name: Name) -> Condition {
        Condition::Signal { name, received: None }
    }

    /// Creates a condition that waits for a time.
    pub fn until(at: When) -> Condition {
        Condition::Until { at, passed: false }
    }

    /// Creates a condition that waits for `n` distinct signals of these names.
    pub fn count(n: u32, of: Vec<Name>, distinct: Distinct) -> Condition {
        Condition::Count { n, of, distinct, received: Vec::new() }
    }

    /// Creates a condition that waits for an operator.
    pub fn operator() -> Condition {
        Condition::Operator { resumed: false }
    }

    /// Creates a condition that waits for the end of the children.
    pub fn children() -> Condition {
        Condition::Children { ended: false }
    }

    /// Reports whether the condition holds at some time, whatever happens.
    pub fn ends_by_time(&self) -> bool {
        match self {
            Condition::Until { .. } => true,
            Condition::Any(parts) => parts.iter().any(Condition::ends_by_time),
            Condition::All(parts) => parts.iter().all(Condition::ends_by_time),
            Condition::Signal { .. }
            | Condition::Count { .. }
            | Condition::Operator { .. }
            | Condition::Children { .. }
            | Condition::Gate { .. } => false,
        }
    }

    /// Refuses a condition that is too deep, too large, or can never hold. The refusal names the part.
    pub fn check(&self, pointer: &str) -> Result<(), Refusal> {
        let leaves = self.check_part(pointer, 0)?;
        if leaves > LEAVES_MAX {
            let detail = format!("has {leaves} leaves; at most {LEAVES_MAX} are allowed");
            return Err(Refusal::field(pointer, detail));
        }
        Ok(())
    }

    fn check_part(&self, pointer: &str, depth: usize) -> Result<usize, Refusal> {
        match self {
            Condition::Any(parts) | Condition::All(parts) => {
                let word = if matches!(self, Condition::Any(_)) { "any" } else { "all" };
                let pointer = format!("{pointer}/{word}");
                if depth == DEPTH_MAX {
                    let detail = format!(
                        "is nested too deeply; any and all may be nested at most {DEPTH_MAX} levels deep"
                    );
                    return Err(Refusal::field(&pointer, detail));
                }
                if parts.is_empty() {
                    return Err(Refusal::field(&pointer, "is empty; give at least one condition"));
                }
                let check = |(index, part): (usize, &Condition)| {
                    part.check_part(&format!("{pointer}/{index}"), depth + 1)
                };
                parts.iter().enumerate().map(check).sum()
            }
            Condition::Signal { name, .. } => {
                Name::parse(&format!("{pointer}/signal"), name, NAME_LIMIT).map(|_| 1)
            }
            Condition::Count { n, of, distinct, .. } => {
                let of_pointer = format!("{pointer}/count/of");
                if of.is_empty() || of.len() > NAMES_MAX {
                    let detail = format!("has {} names; it must have between 1 and {NAMES_MAX}", of.len());
                    return Err(Refusal::field(&of_pointer, detail));
                }
                for (index, name) in of.iter().enumerate() {
                    let pointer = format!("{of_pointer}/{index}");
                    Name::parse(&pointer, name, NAME_LIMIT)?;
                    if of[..index].contains(name) {
                        return Err(Refusal::field(
                            &pointer,
                            format!("names {name:?} twice; name each signal once"),
                        ));
                    }
                }
                // One name may be sent by many sources and through many waitpoints.
                let most = if *distinct == Distinct::Signals { of.len() } else { NAMES_MAX };
                if *n == 0 || *n as usize > most {
                    let detail = format!("is {n}; it must be between 1 and {most}");
                    return Err(Refusal::field(&format!("{pointer}/count/n"), detail));
                }
                Ok(1)
            }
            Condition::Until { at: When::AfterMs(ms), .. } => {
                check_duration(&format!("{pointer}/delay_ms"), *ms).map(|()| 1)
            }
            Condition::Until { .. }
            | Condition::Operator { .. }
            | Condition::Children { .. }
            | Condition::Gate { .. } => Ok(1),
        }
    }

    /// Calls `visit` for every leaf, from left to right.
    pub(super) fn leaves<'a>(&'a self, visit: &mut impl FnMut(&'a Condition)) {
        match self {
            Condition::Any(parts) | Condition::All(parts) => {
                parts.iter().for_each(|part| part.leaves(visit));
            }
            leaf => visit(leaf),
        }
    }

    /// Calls `visit` for every leaf, from left to right, with mutable access.
    pub(super) fn leaves_mut(&mut self, visit: &mut impl FnMut(&mut Condition)) {
        match self {
            Condition::Any(parts) | Condition::All(parts) => {
                parts.iter_mut().for_each(|part| part.leaves_mut(visit));
            }
            leaf => visit(leaf),
        }
    }

    /// Returns the names that its counts list: a count is a vote, which ends once.
    pub fn counted_names(&self) -> Vec<&Name> {
        let mut names = Vec::new();
        self.leaves(&mut |leaf| {
            if let Condition::Count { of, .. } = leaf {
                names.extend(of);
            }
        });
        names
    }

    /// Returns the names of all signals that it may wait for.
    pub fn names(&self) -> Vec<&Name> {
        let mut names = self.counted_names();
        self.leaves(&mut |leaf| {
            if let Condition::Signal { name, .. } = leaf {
                names.push(name);
            }
        });
        names
    }

    /// Turns durations into times, counted from `since`.
    pub(super) fn resolve(&mut self, since: Timestamp) {
        self.leaves_mut(&mut |leaf| {
            if let Condition::Until { at, .. } = leaf {
                *at = When::At(at.at(since));
            }
        });
    }

    /// Reports whether a leaf is about children.
    pub fn waits_for_children(&self) -> bool {
        let mut waits = false;
        self.leaves(&mut |leaf| waits |= matches!(leaf, Condition::Children { .. }));
        waits
    }

    /// Reports whether the condition holds.
    pub fn holds(&self) -> bool {
        match self {
            Condition::Any(parts) => parts.iter().any(Condition::holds),
            Condition::All(parts) => parts.iter().all(Condition::holds),
            Condition::Signal { received, .. } => received.is_some(),
            Condition::Count { n, received, .. } => received.len() >= *n as usize,
            Condition::Until { passed, .. } => *passed,
            Condition::Operator { resumed } => *resumed,
            Condition::Children { ended } => *ended,
            Condition::Gate { open, .. } => *open,
        }
    }

    /// Applies a signal. Returns true if a leaf was waiting for it.
    pub fn receive(&mut self, signal: IncomingSignal<'_>) -> bool {
        let mut used = false;
        self.leaves_mut(&mut |leaf| match leaf {
            Condition::Signal { name, received } if received.is_none() && name == signal.name => {
                *received = Some(signal.number);
                used = true;
            }
            Condition::Count { n, of, distinct, received } if received.len() < *n as usize => {
                let named = of.contains(signal.name);
                let key = match distinct {
                    Distinct::Signals => Some(signal.name).filter(|_| named),
                    Distinct::Sources => Some(signal.source).filter(|_| named),
                    Distinct::Waitpoints => signal.waitpoint.filter(|name| named || of.contains(name)),
                };
                if let Some(key) = key.filter(|key| received.iter().all(|(known, _)| known != *key)) {
                    received.push((key.clone(), signal.number));
                    used = true;
                }
            }
            _ => {}
        });
        used
    }

    /// Collects the signals that make the condition hold. Of an `any`, only the first part that holds counts.
    pub(super) fn taken(&self, taken: &mut Vec<u32>) {
        match self {
            Condition::Any(parts) => {
                if let Some(part) = parts.iter().find(|part| part.holds()) {
                    part.taken(taken);
                }
            }
            Condition::All(parts) => parts.iter().for_each(|part| part.taken(taken)),
            leaf => leaf.received(taken),
        }
    }

    /// Collects all signals that it has received.
    pub(super) fn received(&self, into: &mut Vec<u32>) {
        self.leaves(&mut |leaf| match leaf {
            Condition::Signal { received, .. } => into.extend(received),
            Condition::Count { received, .. } => into.extend(received.iter().map(|(_, number)| *number)),
            _ => {}
        });
    }

    /// Returns the condition as the API shows it. Times are in milliseconds; the server formats them as text.
    pub fn public_data(&self) -> Value {
        match self {
            Condition::Any(parts) => {
                json!({ "any": parts.iter().map(Condition::public_data).collect::<Vec<_>>() })
            }
            Condition::All(parts) => {
                json!({ "all": parts.iter().map(Condition::public_data).collect::<Vec<_>>() })
            }
            Condition::Signal { name, .. } => json!({ "signal": name }),
            Condition::Count { n, of, distinct, .. } => {
                json!({ "count": { "n": n, "of": of, "distinct": distinct.as_str() } })
            }
            Condition::Until { at: When::At(at), .. } => json!({ "until_at": at.millis() }),
            Condition::Until { at: When::AfterMs(ms), .. } => json!({ "delay_ms": ms }),
            Condition::Operator { .. } => json!({ "operator": true }),
            Condition::Children { .. } => json!({ "children": true }),
            Condition::Gate { gate, .. } => {
                json!({ "gate": { "kind": gate.kind.as_str(), "name": gate.name } })
            }
        }
    }

    /// Describes the condition in words.
    pub fn describe(&self) -> String {
        let list = |parts: &[Condition], word: &str| {
            let parts: Vec<String> = parts
                .iter()
                .map(|part| match part {
                    Condition::Any(_) | Condition::All(_) => format!("({})", part.describe()),
                    leaf => leaf.describe(),
                })
                .collect();
            parts.join(word)
        };
        match self {
            Condition::Any(parts) => list(parts, " or "),
            Condition::All(parts) => list(parts, " and "),
            Condition::Signal { name, received: None } => format!("signal {name:?}"),
            Condition::Signal { name, received: Some(_) } => format!("signal {name:?} (received)"),
            Condition::Count { n, of, distinct, received } => {
                let names: Vec<&str> = of.iter().take(10).map(Name::as_str).collect();
                let more = if of.len() > names.len() { ", ..." } else { "" };
                let (distinct, received) = (distinct.as_str(), received.len());
                format!("{n} distinct {distinct} of {}{more} ({received} received)", names.join(", "))
            }
            Condition::Until { passed: true, .. } => "a time (passed)".into(),
            Condition::Until { .. } => "a time".into(),
            Condition::Operator { .. } => "an operator".into(),
            Condition::Children { .. } => "the end of its children".into(),
            Condition::Gate { gate, .. } => format!("room in {gate}"),
        }
    }

    /// Returns the earliest time that a leaf still waits for.
    pub(super) fn next_time(&self) -> Option<Timestamp> {
        let mut next: Option<Timestamp> = None;
        self.leaves(&mut |leaf| {
            if let Condition::Until { at: When::At(at), passed: false } = leaf {
                next = Some(next.map_or(*at, |next| next.min(*at)));
            }
        });
        next
    }
}
