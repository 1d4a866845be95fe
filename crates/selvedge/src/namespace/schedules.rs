//! Schedules: save, read, list, run at once, pause and remove.

use super::{Connected, Namespace, actor, after_name};
use crate::schedules::{Schedule, ScheduleBody, ScheduleRun, ScheduleRunItem, ScheduleSettings, ScheduledId};
use crate::wire::values::time;
use crate::{Error, Execution, FlowView, Page, Timestamp};
use selvedge_engine::request::cursors;
use serde::Deserialize;
use serde_json::json;

/// The number of tries of a change to a schedule that others change at the same time.
const CHANGE_TRIES: u32 = 20;

#[derive(Deserialize)]
struct RunAnswer {
    execution: Option<Execution>,
    flow: Option<FlowView>,
}

#[derive(Deserialize)]
struct TimeItem {
    #[serde(deserialize_with = "time")]
    scheduled_at: Timestamp,
}

impl Namespace {
    /// Creates or replaces a schedule. Runs that it has started continue.
    ///
    /// ```
    /// # use selvedge::{Engine, Submission};
    /// use selvedge::schedules::ScheduleSettings;
    /// # #[tokio::main]
    /// # async fn main() -> Result<(), selvedge::Error> {
    /// # let engine = Engine::open("memory:").await?;
    /// # let namespace = engine.namespace("default").await?;
    /// let nightly = ScheduleSettings::cron("0 2 * * *", "report").time_zone("Europe/Berlin");
    /// namespace.set_schedule("nightly", nightly).await?;
    /// assert_eq!(namespace.schedule_times("nightly", 3).await?.len(), 3);
    /// let id = namespace.run_schedule("nightly").await?.execution().expect("it submits an execution");
    /// assert_eq!(namespace.get(id).await?.kind, "report");
    /// # engine.shutdown().await;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn set_schedule(&self, name: &str, settings: ScheduleSettings) -> Result<Schedule, Error> {
        let spec = settings.spec()?;
        match &self.connected {
            Connected::Embedded(namespace) => {
                let saved = namespace.save_schedule(name, spec, None, &actor()).await?;
                saved.map(|(schedule, _)| schedule.into()).ok_or_else(|| too_many_changes(name))
            }
            Connected::Remote(client) => {
                let request = client.put(&["schedules", name]).json(&ScheduleBody::new(&spec)?);
                Ok(request.send().await?.json()?)
            }
        }
    }

    /// Reads a schedule.
    pub async fn schedule(&self, name: &str) -> Result<Schedule, Error> {
        match &self.connected {
            Connected::Embedded(namespace) => Ok(namespace.schedule(name).await?.into()),
            Connected::Remote(client) => Ok(client.get(&["schedules", name]).send().await?.json()?),
        }
    }

    /// Returns a page of at most `limit` schedules (up to 500), by name. `cursor` is the `next_cursor` of the page before.
    pub async fn schedules(&self, cursor: Option<&str>, limit: u32) -> Result<Page<Schedule>, Error> {
        match &self.connected {
            Connected::Embedded(namespace) => {
                let after = after_name(cursor)?;
                let (found, more) = namespace.schedules(after.as_ref(), limit).await?;
                let next_cursor =
                    found.last().filter(|_| more).map(|last| cursors::name_cursor(&last.name.name));
                Ok(Page { items: found.into_iter().map(Schedule::from).collect(), next_cursor })
            }
            Connected::Remote(client) => {
                let request =
                    client.get(&["schedules"]).query("limit", limit).query_optional("cursor", cursor);
                Ok(request.send().await?.json()?)
            }
        }
    }

    /// Removes a schedule. The executions and flows that it has submitted stay.
    pub async fn remove_schedule(&self, name: &str) -> Result<(), Error> {
        match &self.connected {
            Connected::Embedded(namespace) => namespace.delete_schedule(name, &actor()).await?,
            Connected::Remote(client) => {
                client.delete(&["schedules", name]).send().await?;
            }
        }
        Ok(())
    }

    /// Submits the work of a schedule at once, also if the schedule is paused, and beside a run that lives.
    pub async fn run_schedule(&self, name: &str) -> Result<ScheduledId, Error> {
        match &self.connected {
            Connected::Embedded(namespace) => Ok(namespace.run_schedule(name, &actor()).await?.into()),
            Connected::Remote(client) => {
                let answer: RunAnswer = client.post(&["schedules", name, "run"]).send().await?.json()?;
                match (answer.execution, answer.flow) {
                    (Some(execution), _) => Ok(ScheduledId::Execution(execution.id)),
                    (None, Some(flow)) => Ok(ScheduledId::Flow(flow.id)),
                    (None, None) => Err(Error::Failed("a run names neither an execution nor a flow".into())),
                }
            }
        }
    }

    /// Returns the next times of a schedule, at most `count` (up to 1000), also if the schedule is paused.
    pub async fn schedule_times(&self, name: &str, count: u32) -> Result<Vec<Timestamp>, Error> {
        match &self.connected {
            Connected::Embedded(namespace) => {
                let (schedule, now) = (namespace.schedule(name).await?, namespace.now().await?);
                Ok(schedule.next_times(now, count as usize))
            }
            Connected::Remote(client) => {
                let request = client.get(&["schedules", name, "next"]).query("count", count);
                let page: Page<TimeItem> = request.send().await?.json()?;
                Ok(page.items.into_iter().map(|item| item.scheduled_at).collect())
            }
        }
    }

    /// Returns the last runs of a schedule, newest first, at most 20.
    pub async fn schedule_runs(&self, name: &str) -> Result<Vec<ScheduleRun>, Error> {
        match &self.connected {
            Connected::Embedded(namespace) => {
                Ok(namespace.schedule_runs(name).await?.into_iter().map(ScheduleRun::from).collect())
            }
            Connected::Remote(client) => {
                let request = client.get(&["schedules", name, "runs"]);
                let page: Page<ScheduleRunItem> = request.send().await?.json()?;
                page.items.into_iter().map(ScheduleRun::try_from).collect()
            }
        }
    }

    /// Pauses a schedule: no time fires until it is resumed.
    pub async fn pause_schedule(&self, name: &str) -> Result<Schedule, Error> {
        self.set_schedule_paused(name, true).await
    }

    /// Resumes a paused schedule. Times that passed during the pause do not fire.
    pub async fn resume_schedule(&self, name: &str) -> Result<Schedule, Error> {
        self.set_schedule_paused(name, false).await
    }

    async fn set_schedule_paused(&self, name: &str, paused: bool) -> Result<Schedule, Error> {
        match &self.connected {
            Connected::Embedded(namespace) => {
                for _ in 0..CHANGE_TRIES {
                    let before = namespace.schedule(name).await?;
                    let mut spec = (*before.spec).clone();
                    spec.paused = paused;
                    let version = Some(before.version);
                    if let Some((schedule, _)) =
                        namespace.save_schedule(name, spec, version, &actor()).await?
                    {
                        return Ok(schedule.into());
                    }
                }
                Err(too_many_changes(name))
            }
            Connected::Remote(client) => {
                let request = client.patch(&["schedules", name]).json(&json!({ "paused": paused }));
                Ok(request.send().await?.json()?)
            }
        }
    }
}

fn too_many_changes(name: &str) -> Error {
    Error::Unavailable(format!("the schedule {name:?} changes too often; repeat the call"))
}
