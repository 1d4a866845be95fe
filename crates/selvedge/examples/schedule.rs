//! A report every night at two, Berlin time; and once now. Arguments: see `run`.

mod run;

use run::ExampleError;
use selvedge::schedules::{CatchUp, Overlap, ScheduleSettings};
use selvedge::{Context, Failure, Namespace, Submission, Worker};
use std::time::Duration;

fn worker(namespace: Namespace) -> Worker {
    Worker::new(namespace, "reports").handler("report", |ctx: Context| async move {
        Ok::<_, Failure>(format!("the report of {}", ctx.input::<String>()?))
    })
}

async fn program(namespace: Namespace) -> Result<(), ExampleError> {
    let nightly = ScheduleSettings::cron("0 2 * * *", Submission::new("report").input("Europe")?)
        .time_zone("Europe/Berlin")
        .overlap(Overlap::Skip)
        .catch_up(CatchUp::One);
    namespace.set_schedule("nightly", nightly).await?;
    println!("{} reports are planned", namespace.schedule_times("nightly", 3).await?.len());

    let run = namespace.run_schedule("nightly").await?;
    let id = run.execution().ok_or("the schedule submits an execution")?;
    let ended = namespace.result(id, Duration::from_secs(30)).await?.ok_or("the execution has not ended")?;
    println!("{}", ended.json::<String>()?);
    namespace.remove_schedule("nightly").await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), ExampleError> {
    run::example(worker, program).await
}
