# Generated from client/executions.py by scripts/generate.py.
"""Calls about one execution, by its id."""

from __future__ import annotations

import builtins
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, cast, overload

from .. import types
from ..options import delay
from ..signal_type import SignalType
from ..values import Seconds, milliseconds, timestamp
from .resources import present
from .streams import resumed
from .transport import Transport

if TYPE_CHECKING:
    from typing_extensions import Unpack


S = TypeVar("S")


class CancelOptions(TypedDict, total=False):
    """The options of a cancel. With a grace period (seconds) the worker is asked first."""

    reason: str
    grace: Seconds
    if_version: int


class SignalOptions(TypedDict, total=False):
    """The options of a signal. Default source: the caller. The same idempotency key delivers once."""

    source: str | None
    idempotency_key: str | None


class ExecutionFilter(TypedDict, total=False):
    """The filters of a list of executions. All must match."""

    lane: str
    kind: str
    state: str | Sequence[str]
    outcome: str
    flow: str
    worker: str
    tags: Mapping[str, str]
    error: str
    submitted_after: datetime | str
    submitted_before: datetime | str
    ended_after: datetime | str
    ended_before: datetime | str


class Executions:
    """The calls of `Client` about one execution."""

    _transport: Transport

    def get(self, id: str) -> types.Execution:
        """Returns an execution."""
        return cast(types.Execution, self._transport.get(f"/v1/executions/{id}"))

    def list(
        self, *, include: Sequence[str] = (), page: int = 50, **filter: Unpack[ExecutionFilter]
    ) -> Generator[types.Execution, None, None]:
        """Yields executions, newest first. `include` names the fields input, result or progress; `page` is their number
        in one request."""
        params = {**filter_fields(filter), "include": ",".join(include) or None, "limit": page}
        for item in self._transport.pages("/v1/executions", params):
            yield cast(types.Execution, item)

    def explain(self, id: str) -> types.Explanation:
        """Says why an execution does not run."""
        return cast(types.Explanation, self._transport.get(f"/v1/executions/{id}/explain"))

    def _act(self, id: str, action: str, body: Mapping[str, Any]) -> types.Execution:
        answer = self._transport.post(f"/v1/executions/{id}/{action}", present(body))
        return cast(types.Execution, answer["execution"])

    def cancel(self, id: str, **options: Unpack[CancelOptions]) -> types.Execution:
        """Cancels an execution. With a grace period its worker is asked first."""
        body: dict[str, Any] = {"reason": options.get("reason"), "if_version": options.get("if_version")}
        body["grace_ms"] = milliseconds(options.get("grace", 0))
        return self._act(id, "cancel", body)

    def replay(self, id: str, *, if_version: int | None = None) -> types.Execution:
        """Runs an ended execution again, in a new generation."""
        return self._act(id, "replay", {"if_version": if_version})

    def replay_preview(self, id: str) -> builtins.list[str]:
        """Returns the ids of the skipped downstreams that a replay would open again."""
        answer = self._transport.post(f"/v1/executions/{id}/replay", {"dry_run": True})
        return cast("builtins.list[str]", answer["would_reopen"])

    def reschedule(self, id: str, when: Seconds | datetime, *, if_version: int | None = None) -> types.Execution:
        """Moves the start of an execution that has not started to a time, or by some seconds from now."""
        return self._act(id, "reschedule", {**delay(when), "if_version": if_version})

    def priority(self, id: str, priority: int, *, if_version: int | None = None) -> types.Execution:
        """Changes the priority: −100 to 100, higher first."""
        return self._act(id, "priority", {"priority": priority, "if_version": if_version})

    def tags(
        self,
        id: str,
        set: Mapping[str, str] | None = None,
        remove: Sequence[str] | None = None,
        *,
        if_version: int | None = None,
    ) -> types.Execution:
        """Changes the tags."""
        return self._act(id, "tags", {"set": set, "remove": remove, "if_version": if_version})

    def revoke_lease(self, id: str, reason: str | None = None) -> types.Execution:
        """Takes an active execution away from its worker. Charges nothing."""
        return self._act(id, "revoke-lease", {"reason": reason})

    def resume(self, id: str) -> types.Execution:
        """Resumes a suspended execution."""
        return self._act(id, "resume", {})

    @overload
    def signal(
        self, id: str, name: SignalType[S], payload: S, **options: Unpack[SignalOptions]
    ) -> types.SendSignalAnswer: ...
    @overload
    def signal(
        self, id: str, name: str, payload: Any = None, **options: Unpack[SignalOptions]
    ) -> types.SendSignalAnswer: ...

    def signal(
        self, id: str, name: Any, payload: Any = None, **options: Unpack[SignalOptions]
    ) -> types.SendSignalAnswer:
        """Sends a signal. It is kept until a wait takes it."""
        body = present({"name": name if isinstance(name, str) else name.name, **options})
        answer = self._transport.post(f"/v1/executions/{id}/signals", {**body, "payload": payload})
        return cast(types.SendSignalAnswer, answer)

    def _all(self, path: str) -> Any:
        return list(self._transport.pages(path, {"limit": 500}))

    def steps(self, id: str) -> builtins.list[types.Step]:
        """Returns the durable steps, in the order of their start."""
        return cast("builtins.list[types.Step]", self._all(f"/v1/executions/{id}/steps"))

    def attempts(self, id: str) -> builtins.list[types.Attempt]:
        """Returns the attempts."""
        return cast("builtins.list[types.Attempt]", self._all(f"/v1/executions/{id}/attempts"))

    def signals(self, id: str) -> builtins.list[types.Signal]:
        """Returns the signals that were sent to the execution."""
        return cast("builtins.list[types.Signal]", self._all(f"/v1/executions/{id}/signals"))

    def execution_waitpoints(self, id: str) -> builtins.list[types.Waitpoint]:
        """Returns the waitpoints of an execution, without tokens."""
        return cast("builtins.list[types.Waitpoint]", self._all(f"/v1/executions/{id}/waitpoints"))

    def execution_events(self, id: str) -> builtins.list[types.Event]:
        """Returns the history of an execution."""
        return cast("builtins.list[types.Event]", self._all(f"/v1/executions/{id}/events"))

    def usage(self, id: str) -> builtins.list[types.Spent]:
        """Returns what an execution has spent, by budget."""
        return cast("builtins.list[types.Spent]", self._all(f"/v1/executions/{id}/usage"))

    def upstreams(self, id: str) -> Generator[types.Relative, None, None]:
        """Yields the upstreams with their results, also large ones."""
        for item in self._transport.pages(f"/v1/executions/{id}/upstreams", {"limit": 500}):
            yield cast(types.Relative, item)

    def children(self, id: str) -> Generator[types.Relative, None, None]:
        """Yields the children with their results, also large ones."""
        for item in self._transport.pages(f"/v1/executions/{id}/children", {"limit": 500}):
            yield cast(types.Relative, item)

    def frames(
        self,
        id: str,
        *,
        attempt: int | None = None,
        after: int | None = None,
        mode: Literal["durable"] | None = None,
    ) -> builtins.list[types.Frame]:
        """Returns the frames of an attempt so far. Default: the latest attempt."""
        found: builtins.list[types.Frame] = []
        while True:
            params = {"attempt": attempt, "after": after, "mode": mode, "limit": 500}
            page = self._transport.get(f"/v1/executions/{id}/stream", params)
            found.extend(page["items"])
            if page["next_cursor"] is None:
                return found
            attempt, after = page["attempt"], page["next_cursor"]

    def tail(
        self,
        id: str,
        *,
        attempt: int | None = None,
        after: int | None = None,
        mode: Literal["durable"] | None = None,
    ) -> Generator[types.Frame, None, None]:
        """Yields the frames of an attempt as they come, until the attempt has ended. Default: the latest attempt."""
        params = {"attempt": attempt, "mode": mode}
        last = None if after is None else str(after)
        stream = resumed(self._transport, f"/v1/executions/{id}/stream/tail", params, last)
        with closing(stream) as messages:
            for kind, data in messages:
                if kind == "closed":
                    return
                yield cast(types.Frame, data)

    def summary(self, id: str) -> types.Summary:
        """Returns the document into which summary frames were merged."""
        return cast(types.Summary, self._transport.get(f"/v1/executions/{id}/summary"))

    def bulk(
        self,
        action: Mapping[str, Any],
        *,
        ids: Sequence[str] | None = None,
        filter: ExecutionFilter | None = None,
        all: bool = False,
        dry_run: bool = False,
    ) -> types.ActOnExecutionsAnswer:
        """Applies an action, such as `{"type": "cancel"}`, to up to 10 000 executions."""
        body: dict[str, Any] = {"action": action, "ids": ids, "all": all or None, "dry_run": dry_run}
        body["filter"] = None if filter is None else filter_fields(filter)
        return cast(types.ActOnExecutionsAnswer, self._transport.post("/v1/executions/bulk", present(body)))


def filter_fields(filter: ExecutionFilter) -> dict[str, Any]:
    """Returns a filter as the API has it."""
    fields: dict[str, Any] = dict(filter)
    tags = fields.pop("tags", None)
    if tags is not None:
        fields["tag"] = [f"{name}:{value}" for name, value in tags.items()]
    state = fields.get("state")
    if state is not None and not isinstance(state, str):
        fields["state"] = ",".join(state)
    return {name: timestamp(value) if isinstance(value, datetime) else value for name, value in fields.items()}
