"""The worker, and what its handlers use."""

from .approval import Approval, Vote
from .cancellation import Cancellation, SyncCancellation
from .context import Context
from .middleware import Middleware, Next
from .runner import Item
from .signals import Child, ReceivedSignal, Until, Usage, Waitpoint, WaitResult
from .sync_context import SyncContext
from .worker import Worker

__all__ = [
    "Approval",
    "Cancellation",
    "Child",
    "Context",
    "Item",
    "Middleware",
    "Next",
    "ReceivedSignal",
    "SyncCancellation",
    "SyncContext",
    "Until",
    "Usage",
    "Vote",
    "WaitResult",
    "Waitpoint",
    "Worker",
]
