//! Recording of steps and progress: a worker records each step of its handler once, with its result, and says how far the
//! attempt is.

use super::report::{Attempt, Operation, Report, Reported, check_message};
use crate::digest::Digest;
use crate::execution::Progress;
use crate::fact::{self, Fact};
use crate::name::NAME_LIMIT;
use crate::rows::Needs;
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

impl Operation for StepDraft {
    fn check(&self) -> Result<(), Refusal> {
        Name::parse("/name", &self.name, NAME_LIMIT)?;
        check_duration("/duration_ms", self.duration_ms)?;
        check_payload("/result", &self.result)
    }

    fn needs(&self, report: &Report, _held: Option<&Execution>, _work: &Work, needs: &mut Needs) {
        needs.steps.read([(report.fence.execution, self.name.clone())]);
    }

    fn add_to(&self, digest: &mut Digest) {
        digest.raw(b"step");
        digest.raw(self.name.as_bytes());
    }

    /// Records the step. A repeat changes nothing; another result under the same name is refused.
    fn apply(&self, of: &Attempt<'_>, work: &mut Work) -> Result<Reported, Refusal> {
        let row = of.row;
        if let Some(known) = work.step(row.id, &self.name) {
            let same = known.kind == self.kind && known.result.as_ref() == Some(&self.result);
            return if same { Ok(Reported::active()) } else { Err(mismatch("/name", known, self.kind)) };
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
        Ok(Reported::active())
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

/// Records progress, if it is new.
pub(super) struct NewProgress<'a> {
    pub percent: Option<f64>,
    pub message: &'a Option<String>,
}

impl Operation for NewProgress<'_> {
    fn check(&self) -> Result<(), Refusal> {
        if let Some(percent) = self.percent.filter(|percent| !(0.0..=100.0).contains(percent)) {
            return Err(Refusal::field("/percent", format!("is {percent}; it must be between 0 and 100")));
        }
        self.message.as_deref().map_or(Ok(()), check_message)
    }

    fn add_to(&self, digest: &mut Digest) {
        digest.raw(b"progress");
    }

    fn apply(&self, of: &Attempt<'_>, work: &mut Work) -> Result<Reported, Refusal> {
        if let Some(progress) = self.after(of.row.detail.progress.as_ref(), of.report) {
            let fact = fact::Progressed { percent: self.percent, message: self.message.clone() };
            work.apply(of.row.id, Fact::Progressed(fact), None, |row| row.detail.progress = Some(progress));
        }
        Ok(Reported::active())
    }
}

impl NewProgress<'_> {
    /// Returns the progress after this report; none if the report changes nothing: it has the content of the current
    /// progress, or it repeats an earlier report with the same `op_id`.
    fn after(&self, known: Option<&Progress>, report: &Report) -> Option<Progress> {
        let mut reports = known.map(|known| known.reports.clone()).unwrap_or_default();
        // 32 bits suffice to tell the latest reports of one lease apart.
        let digest = report.op_id.is_some().then(|| report.digest() as u32);
        let same = known.is_some_and(|known| known.percent == self.percent && known.message == *self.message);
        match digest {
            Some(digest) if reports.contains(&digest) => return None,
            Some(digest) => reports.push(digest),
            None if same => return None,
            None => {}
        }
        let surplus = reports.len().saturating_sub(Progress::REPORTS_MAX);
        reports.drain(..surplus);
        Some(Progress { percent: self.percent, message: self.message.clone(), reports })
    }
}
