//! Fairness lines: executions with the same fairness key take turns with those of other keys.
//!
//! Each key has a line in each class. Only the head of a line is waiting, at the priority that all heads share; the
//! others are held by the line in claim order. The line moves up when its head leaves.

use super::check_by;
use super::machine::CHECK_AGAIN_MS;
use crate::Work;
use crate::fact::{self, Fact};
use crate::gate::GateName;
use crate::gate::draws::fairness_line_of;
use crate::state::State;

/// Puts every waiting execution with a fairness key that is not a head into its line, before a claim can take it. Then
/// moves up these lines and the `opened` ones, whose head has left.
pub(super) fn line_up(work: &mut Work, opened: Vec<GateName>) {
    let mut changed_lines = opened;
    for id in work.waiting_out_of_line() {
        let Ok(Some(row)) = work.find(id) else { continue };
        let Some(line) = fairness_line_of(row).filter(|line| work.has_requested_gate(line.id())) else {
            continue;
        };
        let (class, is_changed) = (row.class, work.is_changed(id));
        if is_changed && work.gate(&line).active == 0 && !work.has_loaded_held(line.id()) {
            work.make_head(id, &line);
            continue;
        }
        if !is_changed {
            work.mark_passed_over(class);
        }
        let reason = format!("another with its {line} comes first");
        let fact = Fact::Held(fact::Held { gate: line.clone(), reason, until: None });
        work.apply(id, fact, None, |row| row.state = State::Held(line.clone().into()));
        work.add_held(line.id(), id);
        changed_lines.push(line);
    }
    changed_lines.iter().for_each(|line| move_up(work, line));
}

/// Makes the next execution of a line its head, if the line has none.
pub fn move_up(work: &mut Work, line: &GateName) {
    if work.gate(line).active > 0 {
        return;
    }
    let Some(id) = work.next_held(line.id()) else {
        // Other transactions may have locked the next executions of the line.
        if work.may_hold_more(line.id()) {
            check_by(work, line, work.now().plus_ms(CHECK_AGAIN_MS));
        }
        return;
    };
    work.apply(id, Fact::Admitted(fact::Admitted { gate: line.clone() }), None, |row| {
        row.state = State::Waiting
    });
    work.make_head(id, line);
    // The last loaded execution is withheld if the line may have more: after its claim, no loaded execution could move
    // up.
    if work.is_last_held(line.id()) {
        work.withhold(id);
    }
}
