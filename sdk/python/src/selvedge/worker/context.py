"""The first argument of a handler: its attempt, its durable steps and waits, its children, its stream."""

from __future__ import annotations

import asyncio
import contextvars
import json
import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, cast, overload

from ..client import Client
from ..conversion import REFUSALS, Converter, converter
from ..errors import ControlFlow, Permanent, Problem
from ..flow import Flow
from ..hints import of_result
from ..options import SpawnOptions
from ..signal_type import SignalType
from ..task import TaskType
from ..values import Seconds, dumps, milliseconds
from .approval import Approval, Ask, run_approval
from .attempt import Attempt, refuses_content
from .branches import Group, run_all, run_race
from .calls import call
from .cancellation import Cancellation
from .middleware import Next, around_step
from .relatives import Upstream
from .signals import (
    Child,
    Condition,
    ReceivedSignal,
    Until,
    Usage,
    Waitpoint,
    WaitResult,
    read_wait,
    typed_signal,
)
from .waitpoints import create_waitpoints

if TYPE_CHECKING:
    import typing_extensions
    from typing_extensions import ParamSpec, Unpack

    P = ParamSpec("P")
    S_co = typing_extensions.TypeVar("S_co", covariant=True, default=None)
else:
    S_co = TypeVar("S_co", covariant=True)

T = TypeVar("T")
I = TypeVar("I")  # noqa: E741

log = logging.getLogger("selvedge.worker")

usage_of_step: contextvars.ContextVar[list[bytes] | None] = contextvars.ContextVar("usage_of_step", default=None)
"""The usage that the running step has reported, to be sent with its record. None outside of a step."""


class Context(Generic[S_co]):
    """The attempt that a handler runs, or a branch of it."""

    def __init__(self, attempt: Attempt, prefix: str = "", group: Group | None = None) -> None:
        self._attempt = attempt
        self._prefix = prefix
        self._group = group
        self.upstream = Upstream(attempt.client, attempt.claim)
        """The results of the upstreams that completed, by node name."""

    @property
    def execution_id(self) -> str:
        """The id of the execution. The same in every attempt."""
        return self._attempt.execution_id

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 0. Every claim counts, also one after a wait."""
        return self._attempt.claim["attempt"]

    @property
    def generation(self) -> int:
        """How many times the execution has been replayed."""
        return self._attempt.claim["execution"]["generation"]

    @property
    def idempotency_key(self) -> str:
        """A key for calls to other services: the id of the execution. The same in every attempt, also after a replay.

        A handler that makes several calls to one service needs a key for each: `step_key`.
        """
        return self.execution_id

    def step_key(self, name: str) -> str:
        """Returns a key for the effect of the step of this name in this branch.

        The same in every attempt, also after a replay. No other step of any execution has it.
        """
        return f"{self.execution_id}/{self._name(name)}"

    @property
    def kind(self) -> str:
        """The kind of the execution."""
        return self._attempt.claim["execution"]["kind"]

    @property
    def lane(self) -> str:
        """The lane of the execution."""
        return self._attempt.claim["execution"]["lane"]

    @property
    def flow_id(self) -> str | None:
        """The id of the flow to which the execution belongs, if there is one."""
        return self._attempt.claim["execution"]["flow_id"]

    @property
    def node(self) -> str | None:
        """The name of the execution in its flow."""
        return self._attempt.claim["execution"]["node"]

    @property
    def tags(self) -> Mapping[str, str]:
        """The tags of the execution."""
        return self._attempt.claim["execution"]["tags"]

    @property
    def execution(self) -> Mapping[str, Any]:
        """The whole execution, as it was claimed."""
        return cast("Mapping[str, Any]", self._attempt.claim["execution"])

    @property
    def traceparent(self) -> str | None:
        """The parent of the handler's spans (W3C Trace Context), if there is a trace."""
        return self._attempt.claim["traceparent"]

    @property
    def input(self) -> Any:
        """The input, as parsed JSON."""
        return self._attempt.claim["execution"].get("input")

    @property
    def children(self) -> Mapping[str, Child]:
        """The children that earlier attempts spawned, by name, without those whose results are too large."""
        found = self._attempt.claim["children"]
        return {name: Child(name, child["outcome"], child["result"]) for name, child in found.items()}

    @property
    def signals(self) -> Sequence[ReceivedSignal[Any]]:
        """The signals that ended the latest suspension."""
        found = self._attempt.claim["signals"]
        return [ReceivedSignal(item["name"], item["payload"], item["source"], item["waitpoint"]) for item in found]

    @property
    def state(self) -> S_co:
        """What the lifespan of the worker has made, such as a pool of connections. Annotate the
        context with its type, `ctx: Context[State]`. None without a lifespan."""
        return cast(S_co, self._attempt.state)

    @property
    def client(self) -> Client:
        """The client of the worker, for calls about other executions."""
        return self._attempt.client

    @property
    def cancelled(self) -> Cancellation:
        """True once the execution should stop: its cancel was requested, or its lease is lost."""
        return Cancellation(self._attempt.cancelled)

    # Steps

    @overload
    async def step(
        self, name: str, function: Callable[P, Awaitable[T]], /, *arguments: P.args, **named: P.kwargs
    ) -> T: ...
    @overload
    async def step(self, name: str, function: Callable[P, T], /, *arguments: P.args, **named: P.kwargs) -> T: ...

    async def step(self, name: str, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Any:
        """Runs a function once and records its result. Later attempts get the recorded result without running it.

        The name must be unique in the execution. The result is stored as JSON, and the returned value is read back from
        that JSON, so that every attempt sees the same value; a return annotation converts it. An exception is not
        recorded. A plain function runs in a thread.

        If the process dies after the effect of the function and before the record, a later attempt runs it again. Where
        that matters, pass `ctx.step_key(name)` to the other service. A replay keeps the recorded steps with their
        results and runs only the others.
        """
        full_name = self._request(name)
        tracker = self._attempt.tracker
        with tracker.reserve(full_name) as keep:
            convert = _result_converter(function)
            if full_name in tracker.recorded:
                keep()
                return _read_back(full_name, convert, tracker.recorded[full_name])
            await self._may_begin()
            with tracker.busy(), Group.counted(self._group):
                begun = time.monotonic()
                usage: list[bytes] = []
                token = usage_of_step.set(usage)
                try:
                    result = await self._run_step(full_name, lambda: call(function, *arguments, **named))
                    encoded = _encoded(full_name, result)
                except (Exception, ControlFlow):
                    await self._report_spent(usage)
                    raise
                finally:
                    usage_of_step.reset(token)
                keep()
                await self._record(full_name, "step", encoded, time.monotonic() - begun, usage)
                return _read_back(full_name, convert, json.loads(encoded))

    async def _report_spent(self, usage: list[bytes]) -> None:
        """Reports the usage of a step that failed. A refusal does not replace the error of the step."""
        if not usage:
            return
        try:
            await self._attempt.report(*usage)
        except Problem as refusal:
            self._attempt.log.warning("%s: the usage of a failed step was refused: %s", self._attempt, refusal)

    async def _run_step(self, full_name: str, run: Next) -> Any:
        middleware = self._attempt.middleware
        return await (around_step(middleware, self, full_name, run) if middleware else run())

    def allow_vanished_steps(self) -> None:
        """Lets this attempt return without every recorded step, for steps that were removed on purpose."""
        self._attempt.tracker.all_optional = True

    def _name(self, name: str) -> str:
        return self._prefix + name

    def _request(self, name: str) -> str:
        """Requests a step of this branch and returns its full name."""
        full_name = self._name(name)
        self._attempt.tracker.request(full_name)
        return full_name

    async def _may_begin(self) -> None:
        """Raises if the attempt is over. Never returns if another branch of the group has failed."""
        self._attempt.check()
        if self._group is not None and self._group.is_stopped():
            await asyncio.get_running_loop().create_future()

    async def _record(
        self, full_name: str, kind: str, result: bytes, seconds: float, usage: Sequence[bytes] = ()
    ) -> None:
        fields = {"name": full_name, "kind": kind, "duration_ms": milliseconds(seconds)}
        op = self._attempt.encode("step", fields, ("result", result))
        try:
            await self._attempt.report(op, *usage)
        except Problem as refusal:
            if refuses_content(refusal):
                raise Permanent(f"the step {full_name!r} was refused: {refusal}") from refusal
            raise

    # Waits

    async def sleep(self, name: str, duration: Seconds) -> None:
        """Sleeps without holding a worker. The time counts from the first attempt that reached the sleep."""
        await self._wait(name, "sleep", Until.after(duration), None)

    async def sleep_until(self, name: str, time: datetime) -> None:
        """Sleeps until a time, without holding a worker."""
        await self._wait(name, "sleep", Until.at(time), None)

    @overload
    async def wait_for_signal(
        self, signal: SignalType[T], *, timeout: Seconds | None = None, name: str | None = None
    ) -> ReceivedSignal[T] | None: ...
    @overload
    async def wait_for_signal(
        self, signal: str, *, timeout: Seconds | None = None, name: str | None = None
    ) -> ReceivedSignal[Any] | None: ...

    async def wait_for_signal(
        self, signal: str | SignalType[Any], *, timeout: Seconds | None = None, name: str | None = None
    ) -> ReceivedSignal[Any] | None:
        """Waits for a signal, without holding a worker. Returns None after the timeout, or if an operator resumed it.

        A signal that came earlier counts if no other wait has taken it. `name` is the name of the step, by default that
        of the signal; give one to wait for the same signal twice. A `SignalType` converts the payload.
        """
        default = signal if isinstance(signal, str) else signal.name
        waited = await self._wait(name or default, "wait", Until.signal(signal), timeout)
        if not waited.signals:
            return None
        return waited.signals[0] if isinstance(signal, str) else typed_signal(waited.signals[0], signal)

    async def wait(self, name: str, until: Condition, *, timeout: Seconds | None = None) -> WaitResult:
        """Waits until a condition holds, such as `Until.all(Until.signal("paid"), Until.signal("packed"))`."""
        return await self._wait(name, "wait", until, timeout)

    async def join(self, name: str = "join") -> dict[str, Child]:
        """Waits for the end of all children that were not detached. Returns all children by name, with results."""
        await self._wait(name, "join", Until.children(), None)
        children = dict(self.children)
        for child, execution in self._attempt.claim["children_refs"].items():
            ended = await self.client.outcome(execution, 0)
            children[child] = Child(child, ended["outcome"] if ended else None, ended["result"] if ended else None)
        return children

    async def _wait(self, name: str, kind: str, condition: Condition, timeout: Seconds | None) -> WaitResult:
        full_name = self._request(name)
        tracker = self._attempt.tracker
        with tracker.reserve(full_name) as keep:
            if full_name in tracker.recorded:
                keep()
                return read_wait(tracker.recorded[full_name], full_name)
            self._attempt.check()
            wait: dict[str, Any] = {"step": full_name, "kind": kind, "condition": condition, "on_timeout": "resume"}
            if timeout is not None:
                wait["timeout_ms"] = milliseconds(timeout)
            with tracker.open_wait(wait):
                await asyncio.get_running_loop().create_future()
                raise AssertionError("an open wait never returns")

    # People

    async def waitpoint(
        self,
        name: str,
        *,
        source: str | None = None,
        expires: Seconds | None = None,
        signals: Sequence[str] | None = None,
        prompt: str | None = None,
    ) -> Waitpoint:
        """Creates an address at which the holder of its token delivers one signal, by default of the same name.

        The same name again, also in a later attempt, returns the same waitpoint.
        """
        fields: dict[str, Any] = {"name": name, "source": source, "signals": signals, "prompt": prompt}
        fields["expires_ms"] = None if expires is None else milliseconds(expires)
        found = {field: value for field, value in fields.items() if value is not None}
        return (await create_waitpoints(self._attempt, [found]))[0]

    async def approval(
        self,
        name: str,
        *,
        of: Sequence[str],
        ask: Ask,
        at_least: int | None = None,
        timeout: Seconds | None = None,
        prompt: str | None = None,
    ) -> Approval:
        """Asks several people and waits until enough have agreed, or so many have declined that not enough are left.

        `ask(person, waitpoint)` is a durable step for each person; it sends the token of the waitpoint. `at_least` is
        the number that must agree, by default all. A delivery agrees, unless it names the signal `NAME/reject`.
        """
        return await run_approval(self, name, list(of), ask, at_least, timeout, prompt)

    # Branches

    async def race(self, name: str, branches: Mapping[str, Callable[[Context[S_co]], Awaitable[T]]]) -> T:
        """Runs branches concurrently, and returns the result of the first that ends. The others are cancelled.

        A branch is a function that takes a context of its own. The winner is recorded, so that later attempts take the
        same branch.
        """
        return await run_race(self, name, branches)

    async def all(self, name: str, branches: Mapping[str, Callable[[Context[S_co]], Awaitable[T]]]) -> dict[str, T]:
        """Runs branches concurrently until all have ended, and returns their results by name.

        After a failure no branch begins another step; when the running steps have ended, the failure is raised.
        """
        return await run_all(self, name, branches)

    # Children

    @overload
    async def spawn(self, kind: TaskType[None, Any], input: None = None, **options: Unpack[SpawnOptions]) -> str: ...
    @overload
    async def spawn(self, kind: TaskType[I, Any], input: I, **options: Unpack[SpawnOptions]) -> str: ...
    @overload
    async def spawn(self, kind: str, input: Any = None, **options: Unpack[SpawnOptions]) -> str: ...

    async def spawn(self, kind: str | TaskType[Any, Any], input: Any = None, **options: Unpack[SpawnOptions]) -> str:
        """Adds a child to the flow of this execution, and returns its id. The same name again changes nothing.

        Children are cancelled if this execution ends other than completed, unless they are detached. The name is by
        default the kind.
        """
        kind = kind if isinstance(kind, str) else kind.kind
        fields: dict[str, Any] = dict(options)
        name, detach = fields.pop("name", None) or kind, bool(fields.pop("detach", False))
        flow = Flow()
        flow.add(name, kind, input, **fields)
        return (await self.spawn_flow(flow, detach=detach))[name]

    async def spawn_flow(self, flow: Flow, *, detach: bool = False) -> dict[str, str]:
        """Adds several children with edges between them, and returns their ids by name."""
        op = self._attempt.encode("spawn", {**flow._graph(), "detach": detach})
        (result,) = await self._attempt.report(op)
        return cast("dict[str, str]", result["executions"])

    # Reports

    async def frame(
        self,
        data: Any,
        kind: Literal["stdout", "stderr", "event", "blob"] = "event",
        *,
        mode: Literal["durable", "best_effort", "summary"] = "durable",
        correlation_id: str | None = None,
    ) -> None:
        """Appends to the stream of this attempt: output, or a token of a language model."""
        fields = {"kind": kind, "mode": mode, "op_id": self._attempt.op_id()}
        if correlation_id is not None:
            fields["correlation_id"] = correlation_id
        await self._attempt.report(self._attempt.encode("frame", fields, ("data", dumps(data))))

    async def summarise(self, patch: Mapping[str, Any]) -> None:
        """Applies a JSON merge patch to the summary of this attempt, which readers get as a whole."""
        await self.frame(patch, mode="summary")

    async def progress(self, percent: float | None = None, message: str | None = None) -> None:
        """Reports progress: a percentage from 0 to 100, and a message."""
        fields: dict[str, Any] = {"op_id": self._attempt.op_id()}
        if percent is not None:
            fields["percent"] = percent
        if message is not None:
            fields["message"] = message
        await self._attempt.report(self._attempt.encode("progress", fields))

    async def usage(
        self, budget: str, amounts: Mapping[str, float] | None = None, /, *, dedup_key: str | None = None, **more: float
    ) -> Usage:
        """Counts spending on a budget, by dimension: `await ctx.usage("tokens", tokens=3120)`. Dimensions that are no
        names in Python are given as a mapping.

        Within a step the usage is sent together with the record of the step, so that a breach does not lose the result
        that was paid for. Outside of one it is sent at once, and the answer says which limits are reached. If the
        budget suspends or fails the execution, the handler ends at its next durable operation; a result that it returns
        before that still counts. Each call counts, unless `dedup_key` was used before.
        """
        fields = {"budget": budget, "usage": {**(amounts or {}), **more}, "dedup_key": dedup_key or str(uuid.uuid4())}
        op = self._attempt.encode("usage", fields)
        deferred = usage_of_step.get()
        if deferred is not None:
            deferred.append(op)
            return Usage(None, None)
        (result,) = await self._attempt.report(op)
        return Usage(result.get("breached", []), result["state"])


_unconverted: set[str] = set()
"""The functions whose results stay parsed JSON, and of which the log says so."""


def _result_converter(function: Callable[..., Any]) -> Converter | None:
    """Returns the conversion of a step's result, by the return annotation. A result whose type is not known at run time
    stays parsed JSON."""
    try:
        return converter(of_result(function))
    except TypeError as error:
        name = getattr(function, "__qualname__", repr(function))
        if name not in _unconverted:
            _unconverted.add(name)
            log.warning("a step gets the result of %s as parsed JSON: %s", name, error)
        return None


def _encoded(name: str, result: Any) -> bytes:
    try:
        return dumps(result)
    except (TypeError, ValueError) as error:
        raise Permanent(f"the result of the step {name!r} is not JSON: {error}") from error


def _read_back(name: str, convert: Callable[[Any], Any] | None, value: Any) -> Any:
    if convert is None:
        return value
    try:
        return convert(value)
    except REFUSALS as error:
        raise Permanent(
            f"the recorded result of the step {name!r} is not what the handler expects: {error}; give a step whose "
            "result type has changed another name"
        ) from error
