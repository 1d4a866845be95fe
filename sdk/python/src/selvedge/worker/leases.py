"""The leases of a worker: from the claim until the end of the attempt is accepted.

The event loop adds and removes leases, the thread of the heartbeats reads them. A lock protects the registry, so that
the heartbeats go on while a handler blocks the event loop.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

Fence = tuple[str, int, str, int]
"""The proof of a lease: execution, attempt, lease id, epoch."""


def fence_fields(fence: Fence) -> dict[str, str | int]:
    """Returns a fence as the API has it."""
    execution, attempt, lease_id, epoch = fence
    return {"execution": execution, "attempt": attempt, "lease_id": lease_id, "epoch": epoch}


@dataclass
class Lease:
    """A lease, with the functions that the heartbeats call from their own thread."""

    fence: Fence
    on_lost: Callable[[str], None]
    on_cancel: Callable[[], None]
    since: float = field(default_factory=time.monotonic)
    cancel_requested: bool = False
    renewed: bool = True
    """False once the lease has ended on purpose: heartbeats do not name it."""


class Leases:
    """The leases of a worker, by fence."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._leases: dict[Fence, Lease] = {}

    def __len__(self) -> int:
        return len(self._leases)

    def add(self, lease: Lease) -> None:
        """Adds the lease of a claimed execution."""
        with self._lock:
            self._leases[lease.fence] = lease

    def remove(self, fence: Fence) -> Lease | None:
        """Removes the lease of an attempt that is settled."""
        with self._lock:
            return self._leases.pop(fence, None)

    def stop_renewing(self, fence: Fence) -> None:
        """Keeps a lease out of the heartbeats, because the server has ended it on purpose."""
        with self._lock:
            if fence in self._leases:
                self._leases[fence].renewed = False

    def named(self) -> set[Fence]:
        """Returns the fences that a heartbeat names."""
        with self._lock:
            return {fence for fence, lease in self._leases.items() if lease.renewed}

    def any_older_than(self, age: float, except_for: set[Fence]) -> bool:
        """Returns true if a heartbeat should begin for a lease of this age that the outstanding one does not name."""
        limit = time.monotonic() - age
        with self._lock:
            return any(
                lease.renewed and lease.since <= limit and fence not in except_for
                for fence, lease in self._leases.items()
            )

    def lose(self, fence: Fence, reason: str) -> None:
        """Processes the loss of a lease."""
        with self._lock:
            lease = self._leases.get(fence)
            if lease is None or not lease.renewed:
                return
            lease.renewed = False
        lease.on_lost(reason)

    def request_cancel(self, fence: Fence) -> None:
        """Processes the request to cancel an execution, once."""
        with self._lock:
            lease = self._leases.get(fence)
            if lease is None or lease.cancel_requested:
                return
            lease.cancel_requested = True
        lease.on_cancel()

    def any_cancel_requested(self) -> bool:
        """Returns true while a handler has been asked to cancel and has not ended."""
        with self._lock:
            return any(lease.cancel_requested for lease in self._leases.values())
