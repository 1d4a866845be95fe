//! Conditions: trees that signals, times, operators and children make hold, leaf by leaf.

use crate::gate::GateName;
use crate::name::NAME_LIMIT;
use crate::submission::{When, check_duration};
use crate::{Name, Refusal, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// How deep `any` and `all` may be nested.
pub const DEPTH_MAX: usize = 4;
/// How many leaves a condition may have.
pub const LEAVES_MAX: usize = 100;
/// How many names a count may speak of.
pub const NAMES_MAX: usize = 1000;

/// What a count tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Distinct {
    /// The names of signals.
    Signals,
    /// The names of the waitpoints through which they came.
    Waitpoints,
    /// Who sent them.
    Sources,
}

impl Distinct {
    /// Every one.
    pub const ALL: [Distinct; 3] = [Self::Signals, Self::Waitpoints, Self::Sources];

    /// Its word in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Signals => "signals",
            Self::Waitpoints => "waitpoints",
            Self::Sources => "sources",
        }
    }

    /// The one with this word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == word)
    }
}

/// What a suspended execution waits for, and what of it has come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Condition {
    /// A signal of this name.
    Signal {
        /// The name.
        name: Name,
        /// The number of the first that came.
        heard: Option<u32>,
    },
    /// One of these holds.
    Any(Vec<Condition>),
    /// All of these hold.
    All(Vec<Condition>),
    /// So many distinct ones have come.
    Count {
        /// How many.
        n: u32,
        /// Of these names: of signals; where waitpoints are told apart, of those or of signals through them.
        of: Vec<Name>,
        /// What is told apart.
        distinct: Distinct,
        /// The first signal of each that came, at most `n`.
        heard: Vec<(Name, u32)>,
    },
    /// This time has come.
    Until {
        /// When. After it was resolved against the clock, a time.
        at: When,
        /// Whether it has come.
        passed: bool,
    },
    /// An operator says so.
    Operator {
        /// Whether one has.
        said: bool,
    },
    /// Its children have ended, those aside that were spawned detached.
    Children {
        /// Whether they have.
        ended: bool,
    },
    /// A gate is open again. Only the engine itself waits for that.
    Gate {
        /// Which.
        gate: GateName,
        /// Whether it is.
        open: bool,
    },
}

/// A signal, as conditions hear of it.
#[derive(Clone, Copy, Debug)]
pub struct IncomingSignal<'a> {
    /// Its number.
    pub number: u32,
    /// Its name.
    pub name: &'a Name,
    /// Who sent it.
    pub source: &'a Name,
    /// The name of the waitpoint through which it came.
    pub waitpoint: Option<&'a Name>,
}

impl Condition {
    /// A signal of this name.
    pub fn signal(name: Name) -> Condition {
        Condition::Signal { name, heard: None }
    }

    /// This time.
    pub fn until(at: When) -> Condition {
        Condition::Until { at, passed: false }
    }

    /// `n` distinct ones of these names.
    pub fn count(n: u32, of: Vec<Name>, distinct: Distinct) -> Condition {
        Condition::Count { n, of, distinct, heard: Vec::new() }
    }

    /// An operator's word.
    pub fn operator() -> Condition {
        Condition::Operator { said: false }
    }

    /// The end of the children.
    pub fn children() -> Condition {
        Condition::Children { ended: false }
    }

    /// Refuses a condition that is too deep, too large, or can never hold; the offender is named.
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
                    let detail = format!("is nested too deep; at most {DEPTH_MAX} of any and all");
                    return Err(Refusal::field(&pointer, detail));
                }
                if parts.is_empty() {
                    return Err(Refusal::field(&pointer, "is empty; name at least one condition"));
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
                        return Err(Refusal::field(&pointer, format!("is {name:?} for the second time")));
                    }
                }
                // One name may come from many sources and through many waitpoints.
                let most = if *distinct == Distinct::Signals { of.len() } else { NAMES_MAX };
                if *n == 0 || *n as usize > most {
                    let detail = format!("is {n}; it must lie between 1 and {most}");
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

    /// The same, to change them.
    pub(super) fn leaves_mut(&mut self, visit: &mut impl FnMut(&mut Condition)) {
        match self {
            Condition::Any(parts) | Condition::All(parts) => {
                parts.iter_mut().for_each(|part| part.leaves_mut(visit));
            }
            leaf => visit(leaf),
        }
    }

    /// Times that were given as durations become times, counted from `since`.
    pub(super) fn resolve(&mut self, since: Timestamp) {
        self.leaves_mut(&mut |leaf| {
            if let Condition::Until { at, .. } = leaf {
                *at = When::At(at.at(since));
            }
        });
    }

    /// Whether it waits for children anywhere.
    pub fn waits_for_children(&self) -> bool {
        let mut waits = false;
        self.leaves(&mut |leaf| waits |= matches!(leaf, Condition::Children { .. }));
        waits
    }

    /// Whether it holds.
    pub fn holds(&self) -> bool {
        match self {
            Condition::Any(parts) => parts.iter().any(Condition::holds),
            Condition::All(parts) => parts.iter().all(Condition::holds),
            Condition::Signal { heard, .. } => heard.is_some(),
            Condition::Count { n, heard, .. } => heard.len() >= *n as usize,
            Condition::Until { passed, .. } => *passed,
            Condition::Operator { said } => *said,
            Condition::Children { ended } => *ended,
            Condition::Gate { open, .. } => *open,
        }
    }

    /// Tells it of a signal. Says whether a leaf had waited for it.
    pub fn receive(&mut self, arrival: IncomingSignal<'_>) -> bool {
        let mut used = false;
        self.leaves_mut(&mut |leaf| match leaf {
            Condition::Signal { name, heard } if heard.is_none() && name == arrival.name => {
                *heard = Some(arrival.number);
                used = true;
            }
            Condition::Count { n, of, distinct, heard } if heard.len() < *n as usize => {
                let named = of.contains(arrival.name);
                let key = match distinct {
                    Distinct::Signals => Some(arrival.name).filter(|_| named),
                    Distinct::Sources => Some(arrival.source).filter(|_| named),
                    Distinct::Waitpoints => arrival.waitpoint.filter(|name| named || of.contains(name)),
                };
                if let Some(key) = key.filter(|key| heard.iter().all(|(known, _)| known != *key)) {
                    heard.push((key.clone(), arrival.number));
                    used = true;
                }
            }
            _ => {}
        });
        used
    }

    /// The signals by which it holds; of an `any`, those of the first part that does.
    pub(super) fn taken(&self, taken: &mut Vec<u32>) {
        match self {
            Condition::Any(parts) => {
                if let Some(part) = parts.iter().find(|part| part.holds()) {
                    part.taken(taken);
                }
            }
            Condition::All(parts) => parts.iter().for_each(|part| part.taken(taken)),
            leaf => leaf.heard(taken),
        }
    }

    /// All signals that it has heard.
    pub(super) fn heard(&self, into: &mut Vec<u32>) {
        self.leaves(&mut |leaf| match leaf {
            Condition::Signal { heard, .. } => into.extend(heard),
            Condition::Count { heard, .. } => into.extend(heard.iter().map(|(_, number)| *number)),
            _ => {}
        });
    }

    /// As the API shows it. Times are in milliseconds; the edge writes them as text.
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

    /// In words, for people.
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
            Condition::Signal { name, heard: None } => format!("signal {name:?}"),
            Condition::Signal { name, heard: Some(_) } => format!("signal {name:?}, which has come,"),
            Condition::Count { n, of, distinct, heard } => {
                let names: Vec<&str> = of.iter().take(10).map(Name::as_str).collect();
                let more = if of.len() > names.len() { ", ..." } else { "" };
                let (distinct, came) = (distinct.as_str(), heard.len());
                format!("{n} distinct {distinct} of {}{more} ({came} have come)", names.join(", "))
            }
            Condition::Until { passed: true, .. } => "a time that has come".into(),
            Condition::Until { .. } => "a time".into(),
            Condition::Operator { .. } => "an operator".into(),
            Condition::Children { .. } => "the end of its children".into(),
            Condition::Gate { gate, .. } => format!("room in {gate}"),
        }
    }

    /// The earliest time that it still waits for.
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
