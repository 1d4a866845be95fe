//! What the commands of a batch will make ready, known before they are decided: so claims that wait for it share the commit.

use crate::command::Command;
use selvedge_core::join::Verdict;
use selvedge_core::outbox::OutboxKind;
use selvedge_core::rules::join::News;
use selvedge_core::rules::report::{Op, Report};
use selvedge_core::{ClassId, ExecutionId, State, Work};
use std::collections::BTreeMap;

/// The blocked and suspended executions at hand that these commands let run, if all goes well, and their classes.
pub fn expected(commands: &[Command], work: &Work) -> Vec<(ExecutionId, ClassId)> {
    let mut news: BTreeMap<ExecutionId, Vec<News>> = BTreeMap::new();
    let mut tell = |id: ExecutionId, ends_as: Option<selvedge_core::Outcome>| {
        let Ok(Some(row)) = work.find(id) else { return };
        for downstream in &row.wiring().downstreams {
            let mut one = News::of(row, downstream.edge);
            one.outcome = ends_as.or(one.outcome);
            news.entry(downstream.execution).or_default().push(one);
        }
    };
    let mut resumed: Vec<(ExecutionId, ClassId)> = Vec::new();
    for command in commands {
        match command {
            Command::Deliver(deliver) => {
                let row = work.find(deliver.execution).ok().flatten();
                let row = row.filter(|row| deliver.may_resume(row, work));
                resumed.extend(row.map(|row| (row.id, row.class)));
            }
            Command::Report(reports) => {
                for Report { fence, op, .. } in reports {
                    match op {
                        Op::Complete { .. } => tell(fence.execution, Some(selvedge_core::Outcome::Success)),
                        Op::Fail { .. } => tell(fence.execution, Some(selvedge_core::Outcome::Failed)),
                        _ => {}
                    }
                }
            }
            Command::Dispatch(dispatch) if dispatch.row.name.kind == OutboxKind::Edges => {
                tell(ExecutionId(dispatch.row.name.id), None);
            }
            _ => {}
        }
    }
    let ready = |(id, news): (ExecutionId, Vec<News>)| {
        let row = work.find(id).ok().flatten().filter(|row| row.state == State::Blocked)?;
        let delayed = row.spec.node.as_ref().is_some_and(|node| node.delay.is_some());
        let mut join = row.join.clone().filter(|_| !delayed)?;
        for News { edge, generation, outcome } in news {
            let when = row.wiring().upstreams.get(edge as usize)?.when;
            join.hear(edge as usize, when, generation, outcome);
        }
        (join.verdict() == Verdict::Satisfied).then_some((id, row.class))
    };
    resumed.sort_unstable();
    resumed.dedup();
    news.into_iter().filter_map(ready).chain(resumed).collect()
}
