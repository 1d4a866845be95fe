//! Workers record the steps of their handlers: once each, with its result.

use crate::fact::Fact;
use crate::name::NAME_LIMIT;
use crate::step::{RECORD_LIMIT, STEPS_MAX, Step, StepKind};
use crate::submission::{check_duration, check_payload};
use crate::{Execution, Name, Refusal, Work};
use bytes::Bytes;

/// A step as a worker records it.
#[derive(Clone, Debug, PartialEq)]
pub struct StepDraft {
    /// Its name.
    pub name: Name,
    /// What it is.
    pub kind: StepKind,
    /// Its result, JSON kept byte for byte.
    pub result: Bytes,
    /// How long it took.
    pub duration_ms: i64,
}

impl StepDraft {
    /// Checks every field; the first wrong one is named.
    pub fn check(&self) -> Result<(), Refusal> {
        Name::parse("/name", &self.name, NAME_LIMIT)?;
        check_duration("/duration_ms", self.duration_ms)?;
        check_payload("/result", &self.result)
    }

    /// Records it. The same again changes nothing; another result under the same name is refused.
    pub fn decide(&self, row: &Execution, work: &mut Work) -> Result<(), Refusal> {
        if let Some(known) = work.step(row.id, &self.name) {
            let same = known.kind == self.kind && known.result.as_ref() == Some(&self.result);
            return if same { Ok(()) } else { Err(mismatch("/name", known, self.kind)) };
        }
        let number = row.detail.record.steps + 1;
        let bytes = self.result.len();
        check_room(row, number, bytes)?;
        let (now, attempt) = (work.now(), row.attempt().unwrap_or_default());
        work.put_step(Step {
            execution: row.id,
            number,
            name: self.name.clone(),
            kind: self.kind,
            attempt,
            started_at: now.minus_ms(self.duration_ms),
            recorded_at: Some(now),
            result: Some(self.result.clone()),
        });
        let fact = Fact::Stepped {
            name: self.name.clone(),
            kind: self.kind,
            attempt,
            duration_ms: self.duration_ms,
            bytes: bytes as u32,
        };
        work.apply(row.id, fact, None, |row| {
            row.detail.record.steps += 1;
            row.detail.record.bytes += bytes as u64;
        });
        Ok(())
    }
}

/// Refuses a step, or a signal, for which there is no room.
pub fn check_room(row: &Execution, number: u32, bytes: usize) -> Result<(), Refusal> {
    if number > STEPS_MAX {
        let (what, limit) = ("steps".into(), STEPS_MAX.into());
        return Err(Refusal::LimitReached { execution: row.id, what, limit });
    }
    check_bytes(row, bytes)
}

/// Refuses what would make the record of an execution too large to be carried by its claims.
pub fn check_bytes(row: &Execution, bytes: usize) -> Result<(), Refusal> {
    if row.detail.record.bytes + bytes as u64 > RECORD_LIMIT {
        let what = "bytes of steps and signals".into();
        return Err(Refusal::LimitReached { execution: row.id, what, limit: RECORD_LIMIT });
    }
    Ok(())
}

/// A step that was recorded, or is waited for, as something else.
pub fn mismatch(pointer: &str, known: &Step, kind: StepKind) -> Refusal {
    let (name, was) = (&known.name, known.kind.as_str());
    let detail = match known.recorded_at {
        _ if known.kind != kind => {
            format!("is {name:?}, which is a {was} of attempt {} and not a {}", known.attempt, kind.as_str())
        }
        None => format!("is {name:?}, which is waited for since attempt {}", known.attempt),
        Some(_) => {
            let attempt = known.attempt;
            format!(
                "is {name:?}, which attempt {attempt} recorded with another result; each step needs a name of its own"
            )
        }
    };
    Refusal::IdempotencyMismatch { pointer: pointer.into(), detail }
}
