//! Typed tasks, and layers around handlers.

use super::handler::{Handler, HandlerFuture, OneFn};
use super::{Context, Failure, IntoReturn, Return};
use crate::{Error, Submission};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;

/// A kind of execution with the types of its input and output. Its fields are the state that all its attempts share.
///
/// ```
/// use selvedge::{Context, Engine, Failure, Submission, Task, Worker};
/// use std::time::Duration;
///
/// struct Greet {
///     greeting: String,
/// }
///
/// impl Task for Greet {
///     const KIND: &'static str = "greet";
///     type Input = String;
///     type Output = String;
///
///     async fn run(&self, _ctx: Context, name: String) -> Result<String, Failure> {
///         Ok(format!("{}, {name}!", self.greeting))
///     }
/// }
///
/// # #[tokio::main]
/// # async fn main() -> Result<(), selvedge::Error> {
/// # let engine = Engine::open("memory:").await?;
/// # let namespace = engine.namespace("default").await?;
/// let worker = Worker::new(namespace.clone(), "w").task(Greet { greeting: "Hello".into() }).start()?;
/// let id = Submission::task::<Greet>(&"Ada".into())?.submit(&namespace).await?.execution.id;
/// let ended = namespace.result(id, Duration::from_secs(10)).await?.expect("the execution ends");
/// assert_eq!(ended.json::<String>()?, "Hello, Ada!");
/// # worker.drain().await;
/// # Ok(())
/// # }
/// ```
pub trait Task: Send + Sync + 'static {
    /// The kind of the executions.
    const KIND: &'static str;
    /// The type into which the input is parsed. Other input is a permanent failure.
    type Input: DeserializeOwned + Send;
    /// The result: a value that serialises to JSON, or a [`Return`].
    type Output: IntoReturn;

    /// Runs one attempt.
    fn run(
        &self,
        ctx: Context,
        input: Self::Input,
    ) -> impl Future<Output = Result<Self::Output, Failure>> + Send;
}

impl Submission {
    /// Creates a submission of a task with this input and default settings. Fails if the input cannot be serialised.
    pub fn task<T: Task>(input: &T::Input) -> Result<Submission, Error>
    where
        T::Input: Serialize,
    {
        Submission::new(T::KIND).input(input)
    }
}

/// A layer with its type erased.
pub(super) type Layer = Arc<dyn Fn(Context, Next) -> HandlerFuture + Send + Sync>;

/// The rest of the layers and the handler.
pub struct Next(OneFn);

impl Next {
    /// Runs the rest.
    pub async fn run(self, ctx: Context) -> Result<Return, Failure> {
        (self.0)(ctx).await
    }
}

/// Erases the type of a layer.
pub(super) fn erase_layer<F, Fut>(layer: F) -> Layer
where
    F: Fn(Context, Next) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Return, Failure>> + Send + 'static,
{
    Arc::new(move |ctx, next| Box::pin(layer(ctx, next)))
}

/// Wraps the handlers of single executions into these layers, the first outermost.
pub(super) fn add_layers(handlers: &mut HashMap<String, Handler>, layers: Vec<Layer>) {
    for handler in handlers.values_mut() {
        let Handler::One(run) = handler else { continue };
        for layer in layers.iter().rev() {
            let (layer, inner) = (layer.clone(), run.clone());
            *run = Arc::new(move |ctx| layer(ctx, Next(inner.clone())));
        }
    }
}
