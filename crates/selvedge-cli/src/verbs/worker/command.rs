//! Runs one command for one execution.
//!
//! The command is the leader of a process group of its own, so that its children receive its signals too. Whatever ends the
//! handler (completion, a panic, a lost lease) kills what is left of the group.

use super::output::{StderrFrames, read_result};
use crate::failure::Failure;
use crate::{admin_key, secret};
use rustix::process::{Pid, Signal, kill_process_group};
use selvedge::{Context, Failure as HandlerFailure, FailureClass, Outcome, Return};
use serde_json::{Map, Value};
use std::fmt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// Exit codes of a shell for a command that cannot be run.
const CANNOT_RUN: [i32; 2] = [126, 127];
/// Variables that a command must not see: they would let it act as the worker or sign tokens.
const HIDDEN: [&str; 3] = ["SELVEDGE_KEY", secret::VARIABLE, admin_key::VARIABLE];
/// The time for which output is read after the command has ended: a child that it left behind may keep the pipe open.
const AFTER_END: Duration = Duration::from_secs(1);

/// A command with its arguments.
#[derive(Debug)]
pub struct CommandLine {
    program: String,
    arguments: Vec<String>,
    permanent: Vec<i32>,
    grace: Duration,
}

/// The end of a command that succeeded: its result as JSON.
pub struct Ended(Vec<u8>);

impl From<Ended> for Return {
    fn from(ended: Ended) -> Return {
        Return::Complete(ended.0.into())
    }
}

/// The end of a command that failed.
#[derive(Clone, Debug)]
pub struct Failed {
    class: FailureClass,
    message: String,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<Failed> for HandlerFailure {
    fn from(failed: Failed) -> HandlerFailure {
        HandlerFailure::new(failed.class, failed.message)
    }
}

impl Failed {
    fn new(class: FailureClass, message: impl Into<String>) -> Failed {
        Failed { class, message: message.into() }
    }
}

/// Kills a process group when it is dropped.
struct Group(Option<Pid>);

impl Group {
    fn signal(&self, signal: Signal) {
        if let Some(leader) = self.0 {
            // Fails if no process of the group is left.
            let _ = kill_process_group(leader, signal);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

impl CommandLine {
    /// Returns the command. It must exist, so that a typing error is noticed before executions fail by it.
    pub fn new(words: &[String], permanent: &[i32], grace: Duration) -> Result<CommandLine, Failure> {
        let Some((program, arguments)) = words.split_first() else {
            return Err(Failure::Usage("name the command after --".into()));
        };
        if !can_be_found(program) {
            return Err(Failure::Usage(format!(
                "there is no command {program:?}; check its path, or run it with a shell: -- sh -c '…'"
            )));
        }
        let (program, arguments) = (program.clone(), arguments.to_vec());
        Ok(CommandLine { program, arguments, permanent: permanent.to_vec(), grace })
    }

    /// Returns the file name of the program.
    pub fn name(&self) -> String {
        let name = Path::new(&self.program).file_name();
        name.map_or_else(|| self.program.clone(), |name| name.to_string_lossy().into_owned())
    }

    /// Runs the command for an execution.
    pub async fn run(&self, ctx: &Context) -> Result<Ended, Failed> {
        let input = standard_input(ctx).await?;
        let mut child = self.spawn(ctx)?;
        let group = Group(child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)));
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let writing = async {
            if let Some(mut stdin) = stdin {
                // A command that does not read its input closes the pipe.
                let _ = stdin.write_all(&input).await;
            }
        };
        let mut frames = StderrFrames::new(ctx);
        let output = async { tokio::join!(writing, read_result(stdout), frames.forward(stderr)).1 };
        let mut output = Box::pin(output);
        let mut early = None;
        let status = tokio::select! {
            read = &mut output => {
                early = Some(read);
                self.wait(&mut child, ctx, &group).await?
            }
            status = self.wait(&mut child, ctx, &group) => status?,
        };
        let result = match early {
            Some(result) => result,
            None => timeout(AFTER_END, &mut output).await.map_err(|_elapsed| {
                Failed::new(
                    FailureClass::Transient,
                    "a process that the command left behind keeps its output open",
                )
            })?,
        };
        drop(output);
        match status.code() {
            Some(0) => result.map(Ended).map_err(|message| Failed::new(FailureClass::Permanent, message)),
            code => Err(self.failed(status, code, frames.tail())),
        }
    }

    fn spawn(&self, ctx: &Context) -> Result<Child, Failed> {
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .env("SELVEDGE_EXECUTION", ctx.execution().to_string())
            .env("SELVEDGE_ATTEMPT", ctx.attempt().to_string())
            .env("SELVEDGE_KIND", ctx.kind())
            .env("SELVEDGE_LANE", ctx.lane())
            .env("SELVEDGE_NODE", ctx.node().unwrap_or_default())
            .env("SELVEDGE_IDEMPOTENCY_KEY", ctx.idempotency_key())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        if let Some(trace) = ctx.trace() {
            command.env("TRACEPARENT", trace.to_string());
        }
        for name in HIDDEN {
            command.env_remove(name);
        }
        command.spawn().map_err(|error| {
            Failed::new(FailureClass::Infrastructure, format!("cannot start {}: {error}", self.program))
        })
    }

    /// Waits for the end of the command. After a cancellation it gets SIGTERM, and SIGKILL after the grace period.
    async fn wait(&self, child: &mut Child, ctx: &Context, group: &Group) -> Result<ExitStatus, Failed> {
        let unknown = |error: std::io::Error| {
            Failed::new(FailureClass::Infrastructure, format!("the end of the command is unknown: {error}"))
        };
        tokio::select! {
            status = child.wait() => return status.map_err(unknown),
            () = ctx.cancelled() => group.signal(Signal::TERM),
        }
        if timeout(self.grace, child.wait()).await.is_err() {
            group.signal(Signal::KILL);
            child.wait().await.map_err(unknown)?;
        }
        Err(Failed::new(FailureClass::Transient, "cancelled while the command was running"))
    }

    fn failed(&self, status: ExitStatus, code: Option<i32>, tail: &str) -> Failed {
        let is_permanent =
            code.is_some_and(|code| self.permanent.contains(&code) || CANNOT_RUN.contains(&code));
        let class = if is_permanent { FailureClass::Permanent } else { FailureClass::Transient };
        let message = match tail.trim() {
            "" => status.to_string(),
            tail => format!("{status}: {tail}"),
        };
        Failed::new(class, message)
    }
}

/// Reports whether the program is a file, or a name in a directory of `PATH`.
fn can_be_found(program: &str) -> bool {
    if program.contains('/') {
        return Path::new(program).is_file();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}

/// Returns the input of the execution; where it is null, the results of its upstreams by name.
async fn standard_input(ctx: &Context) -> Result<Vec<u8>, Failed> {
    if ctx.input_json().as_ref() != b"null" || ctx.upstreams().is_empty() {
        return Ok(ctx.input_json().to_vec());
    }
    let mut results = Map::new();
    for upstream in ctx.upstreams() {
        if upstream.outcome == Some(Outcome::Completed) {
            let result: Value = ctx
                .fetch_upstream(&upstream.name)
                .await
                .map_err(|failure| Failed::new(FailureClass::Infrastructure, format!("{failure:?}")))?;
            results.insert(upstream.name.to_string(), result);
        }
    }
    Ok(Value::Object(results).to_string().into_bytes())
}
