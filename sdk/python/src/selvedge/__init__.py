"""The Python SDK of Selvedge, a durable execution engine.

- `Client` submits executions and flows; `selvedge.sync.Client` is the same without asyncio.
- `Worker` runs tasks. A handler gets a `Context`, with durable steps and waits.
- `Flow` is a graph of executions.
- `submit_in` submits within a transaction of Postgres.
- `selvedge.testing` runs a real server whose clock a test moves.
"""

from . import webhooks
from .client import Client, FlowResult, FlowRun, Run
from .errors import (
    AlreadyTerminal,
    AttemptOver,
    BadRequest,
    Cancelled,
    Conflict,
    ConnectionFailed,
    ControlFlow,
    Delay,
    Forbidden,
    Gone,
    IdempotencyMismatch,
    Invalid,
    NotCompleted,
    NotFound,
    PayloadTooLarge,
    Permanent,
    Problem,
    RateLimited,
    Release,
    Retry,
    SelvedgeError,
    StaleLease,
    Superseded,
    Suspended,
    Unauthorized,
    Unavailable,
    VersionMismatch,
    WaitTimeout,
)
from .flow import Flow, Node, any_of, quorum
from .options import RetryPolicy
from .signal_type import SignalType
from .sql import submit_in
from .submission import Submission
from .task import Fields, Task, TaskType, task_type
from .version import VERSION
from .worker import (
    Approval,
    Cancellation,
    Child,
    Context,
    Item,
    Middleware,
    Next,
    ReceivedSignal,
    SyncCancellation,
    SyncContext,
    Until,
    Usage,
    Vote,
    Waitpoint,
    WaitResult,
    Worker,
)

__version__ = VERSION

__all__ = [
    "AlreadyTerminal",
    "Approval",
    "AttemptOver",
    "BadRequest",
    "Cancellation",
    "Cancelled",
    "Child",
    "Client",
    "Conflict",
    "ConnectionFailed",
    "Context",
    "ControlFlow",
    "Delay",
    "Fields",
    "Flow",
    "FlowResult",
    "FlowRun",
    "Forbidden",
    "Gone",
    "IdempotencyMismatch",
    "Invalid",
    "Item",
    "Middleware",
    "Next",
    "Node",
    "NotCompleted",
    "NotFound",
    "PayloadTooLarge",
    "Permanent",
    "Problem",
    "RateLimited",
    "ReceivedSignal",
    "Release",
    "Retry",
    "RetryPolicy",
    "Run",
    "SelvedgeError",
    "SignalType",
    "StaleLease",
    "Submission",
    "Superseded",
    "Suspended",
    "SyncCancellation",
    "SyncContext",
    "Task",
    "TaskType",
    "Unauthorized",
    "Unavailable",
    "Until",
    "Usage",
    "VersionMismatch",
    "Vote",
    "WaitResult",
    "WaitTimeout",
    "Waitpoint",
    "Worker",
    "__version__",
    "any_of",
    "quorum",
    "submit_in",
    "task_type",
    "webhooks",
]
