//! Recording of steps: a worker records each step of its handler once, with its result.

use crate::fact::{self, Fact};
use crate::name::NAME_LIMIT;
use crate::step::{RECORD_LIMIT, STEPS_MAX, Step, StepKind};
use crate::submission::{check_duration, check_payload};
use crate::{Execution, Name, Refusal, Work};
use bytes::Bytes;

/// A step as a worker records it.
#[derive(Clone, Debug, PartialEq)]
pub struct StepDraft {
    /// The name, unique in its execution.
    pub name: Name,
    pub kind: StepKind,
    /// The result: JSON, kept byte for byte.
    pub result: Bytes,
    /// The duration, in milliseconds.
    pub duration_ms: i64,
}

impl StepDraft {
    /// Checks every field. The refusal names the first invalid one.
    pub fn check(&self) -> Result<(), Refusal> {
        Name::parse("/name", &self.name, NAME_LIMIT)?;
        check_duration("/duration_ms", self.duration_ms)?;
        check_payload("/result", &self.result)
    }

    /// Records the step. A repeat changes nothing; another result under the same name is refused.
    pub fn decide(&self, row: &Execution, work: &mut Work) -> Result<(), Refusal> {
        if let Some(known) = work.step(row.id, &self.name) {
            let same = known.kind == self.kind && known.result.as_ref() == Some(&self.result);
            return if same { Ok(()) } else { Err(mismatch("/name", known, self.kind)) };
        }
        let number = row.detail.record.steps + 1;
        let bytes = self.result.len();
        check_room(row, number, bytes)?;
        let (now, attempt) = (work.now(), row.attempt().unwrap_or_default());
        work.put(Step {
            execution: row.id,
            number,
            name: self.name.clone(),
            kind: self.kind,
            attempt,
            started_at: now.minus_ms(self.duration_ms),
            recorded_at: Some(now),
            result: Some(self.result.clone()),
        });
        let fact = Fact::Stepped(fact::Stepped {
            name: self.name.clone(),
            kind: self.kind,
            attempt,
            duration_ms: self.duration_ms,
            bytes: bytes as u32,
        });
        work.apply(row.id, fact, None, |row| {
            row.detail.record.steps += 1;
            row.detail.record.bytes += bytes as u64;
            row.detail.note_progress();
        });
        Ok(())
    }
}

/// Refuses a step beyond the limits of an execution.
pub fn check_room(row: &Execution, number: u32, bytes: usize) -> Result<(), Refusal> {
    if number > STEPS_MAX {
        let (what, limit) = ("steps".into(), STEPS_MAX.into());
        return Err(Refusal::LimitReached { execution: row.id, what, limit });
    }
    check_bytes(row, bytes)
}

/// Refuses bytes that would make the steps and signals of an execution too large for its claims.
pub fn check_bytes(row: &Execution, bytes: usize) -> Result<(), Refusal> {
    if row.detail.record.bytes + bytes as u64 > RECORD_LIMIT {
        let what = "bytes of steps and signals".into();
        return Err(Refusal::LimitReached { execution: row.id, what, limit: RECORD_LIMIT });
    }
    Ok(())
}

/// Returns the refusal for a step that was recorded or opened with another kind or result.
pub fn mismatch(pointer: &str, known: &Step, kind: StepKind) -> Refusal {
    let (name, was) = (&known.name, known.kind.as_str());
    let detail = match known.recorded_at {
        _ if known.kind != kind => {
            format!(
                "is {name:?}, which attempt {} began as a {was}, not as a {}; choose another name",
                known.attempt,
                kind.as_str()
            )
        }
        None => format!("is {name:?}, an open wait since attempt {}; choose another name", known.attempt),
        Some(_) => {
            let attempt = known.attempt;
            format!(
                "is {name:?}, which attempt {attempt} recorded with another result; give each step its own name"
            )
        }
    };
    Refusal::IdempotencyMismatch { pointer: pointer.into(), detail }
}
