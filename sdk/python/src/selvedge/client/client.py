"""The client: submits executions and flows, reads them, and operates the server."""

from __future__ import annotations

import contextlib
import os
import ssl
import time as clock
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast, overload

from .. import types
from ..conversion import Converter
from ..errors import NotCompleted, SelvedgeError, WaitTimeout, problem
from ..flow import Flow
from ..http import Settings
from ..options import ClientOptions, new_id, submission
from ..submission import Submission
from ..task import TaskType
from ..tracing import headers
from ..values import Seconds, milliseconds, timestamp
from .executions import Executions
from .handles import FlowResult, FlowRun, Run
from .resources import Budgets, BulkJobs, Lanes, Quotas, Schedules, Waitpoints, Webhooks, present
from .streams import resumed
from .transport import Transport

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

I = TypeVar("I")  # noqa: E741
O = TypeVar("O")  # noqa: E741

LONGEST_WAIT = 30.0
"""The longest time in seconds for which one request waits for an end."""
EXPLAIN_TIMEOUT = 2.0
"""The longest time in seconds for asking why an execution or flow has not ended."""
REASONS_MAX = 3
"""The most reasons in the message of a wait that was too long."""


class Client(Executions):
    """Talks to a server. Safe to share between tasks; connections are opened when they are needed.

    `server`, `key`, `namespace` and `ca_file` default to the environment variables SELVEDGE_SERVER, SELVEDGE_KEY,
    SELVEDGE_NAMESPACE and SELVEDGE_CA_FILE. `server` may be several addresses, separated by commas: where one cannot be
    reached, the next is tried. A request that gets no answer, or 429 or 503, is repeated for `retry_for` seconds.
    `timeout` limits one request, in seconds. `ca_file` has the authorities of a server's certificate; `ssl_context`
    takes its place where more is to be set, such as a certificate of the client. `proxy` is the address of a proxy.
    """

    def __init__(
        self,
        server: str | None = None,
        key: str | None = None,
        *,
        namespace: str | None = None,
        timeout: Seconds = 30.0,
        retry_for: Seconds = 30.0,
        ca_file: str | os.PathLike[str] | None = None,
        ssl_context: ssl.SSLContext | None = None,
        proxy: str | None = None,
    ) -> None:
        settings = Settings.create(
            server,
            key,
            namespace,
            timeout=milliseconds(timeout) / 1000,
            retry_for=milliseconds(retry_for) / 1000,
            ca_file=None if ca_file is None else os.fspath(ca_file),
            ssl_context=ssl_context,
            proxy=proxy,
        )
        self._use(settings)

    def _use(self, settings: Settings) -> None:
        self._settings = settings
        self._transport = Transport(settings)
        self.lanes = Lanes(self._transport)
        self.quotas = Quotas(self._transport)
        self.budgets = Budgets(self._transport)
        self.schedules = Schedules(self._transport)
        self.webhooks = Webhooks(self._transport)
        self.waitpoints = Waitpoints(self._transport)
        self.bulk_jobs = BulkJobs(self._transport)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes the connections. The client can still be used; it opens others."""
        await self._transport.aclose()

    @overload
    async def submit(self, kind: TaskType[None, O], input: None = None, **options: Unpack[ClientOptions]) -> Run[O]: ...
    @overload
    async def submit(self, kind: TaskType[I, O], input: I, **options: Unpack[ClientOptions]) -> Run[O]: ...
    @overload
    async def submit(self, kind: str, input: Any = None, **options: Unpack[ClientOptions]) -> Run[Any]: ...

    async def submit(self, kind: Any, input: Any = None, **options: Unpack[ClientOptions]) -> Run[Any]:
        """Submits an execution. Safe to repeat: with an `id` or `idempotency_key` also over restarts of the caller."""
        name, convert = kind_of(kind)
        fields: dict[str, Any] = dict(options)
        trace = headers(fields.pop("traceparent", None))
        body = {**submission(name, fields), "input": input}
        if not body.keys() & {"idempotency_key", "unique_while_active", "debounce"}:
            body.setdefault("id", new_id())
        answer = await self._transport.post("/v1/executions", body, headers=trace)
        return Run(self, answer["execution"]["id"], answer["execution"], answer["duplicate"], convert)

    async def submit_batch(
        self, items: Sequence[Submission | Mapping[str, Any]], *, traceparent: str | None = None
    ) -> list[Run[Any] | Exception]:
        """Submits up to 1000 executions in one call. An item is a `Submission`, or a mapping with `kind`, `input` and
        the options of `submit`.

        Returns a handle, or the `Problem` of an item that was refused, for each item in order.
        """
        executions = []
        converters = []
        for item in items:
            each = item if isinstance(item, Submission) else Submission(**item)
            body, convert = each.to_json(), each._convert
            if not body.keys() & {"idempotency_key", "unique_while_active", "debounce"}:
                body.setdefault("id", new_id())
            executions.append(body)
            converters.append(convert)
        body = {"executions": executions}
        answer = await self._transport.post("/v1/executions/batch", body, headers=headers(traceparent))
        runs: list[Run[Any] | Exception] = []
        for result, convert in zip(answer["results"], converters, strict=True):
            if "error" in result:
                runs.append(problem(result["error"]))
            else:
                execution = result["execution"]
                runs.append(Run(self, execution["id"], execution, result["duplicate"], convert))
        return runs

    @overload
    def run(self, id: str) -> Run[Any]: ...
    @overload
    def run(self, id: str, task: TaskType[Any, O]) -> Run[O]: ...

    def run(self, id: str, task: TaskType[Any, O] | None = None) -> Run[Any]:
        """Returns the handle of an execution, whose result is converted as the task says."""
        return Run(self, id, convert=task._convert_output if task else None)

    async def result(self, id: str, timeout: Seconds | None = None) -> Any:
        """Waits for the end of an execution and returns its result, like `Run.result`."""
        return await self._result(id, timeout, None)

    async def _result(self, id: str, timeout: Seconds | None, convert: Converter | None) -> Any:
        ended = await self.outcome(id, timeout)
        if ended is None:
            raise await self._still_running("execution", id, timeout)
        outcome = ended["outcome"]
        if outcome != "completed":
            raise NotCompleted(id, str(outcome), ended["error"])
        return convert(ended["result"]) if convert else ended["result"]

    async def outcome(self, id: str, timeout: Seconds | None = None) -> types.ExecutionResult | None:
        """Waits for the end of an execution. Returns its outcome, result and error, or None if it goes on."""
        answer = await self._wait(f"/v1/executions/{id}/result", timeout)
        return cast("types.ExecutionResult | None", answer)

    async def _wait(self, path: str, timeout: Seconds | None) -> Any:
        """Asks for an end until there is one, or until the time is over."""
        deadline = None if timeout is None else clock.monotonic() + milliseconds(timeout) / 1000
        while True:
            left = LONGEST_WAIT if deadline is None else max(0.0, deadline - clock.monotonic())
            wait = min(left, LONGEST_WAIT)
            answer = await self._transport.get(path, {"wait_ms": milliseconds(wait)}, wait=wait)
            if answer["outcome"] is not None:
                return answer
            if deadline is not None and clock.monotonic() >= deadline:
                return None

    async def _still_running(self, noun: Literal["execution", "flow"], id: str, timeout: Seconds | None) -> WaitTimeout:
        """Returns the exception for a wait that was too long, with the reason if the server says one."""
        message = f"the {noun} {id} has not ended after {timeout} s."
        with contextlib.suppress(SelvedgeError):
            path = f"/v1/{noun}s/{id}/explain"
            explained = await self._transport.call("GET", path, timeout=EXPLAIN_TIMEOUT, retry_for=0)
            message += f" {state_and_reasons(explained)}."
        command = "selvedge explain" if noun == "execution" else "selvedge flow explain"
        return WaitTimeout(f"{message} `{command} {id}` says more")

    async def submit_flow(self, flow: Flow, *, traceparent: str | None = None) -> FlowRun:
        """Submits a flow."""
        body = flow.to_json()
        if "idempotency_key" not in body:
            body.setdefault("id", new_id())
        answer = await self._transport.post("/v1/flows", body, headers=headers(traceparent))
        return FlowRun(self, answer["flow"]["id"], answer["executions"], answer["duplicate"])

    def flow(self, id: str, executions: Mapping[str, str] | None = None) -> FlowRun:
        """Returns the handle of a flow."""
        return FlowRun(self, id, dict(executions or {}))

    async def flow_result(self, id: str, timeout: Seconds | None = None) -> FlowResult:
        """Waits for the end of a flow. Raises `WaitTimeout` if it has not ended in time."""
        ended = await self._wait(f"/v1/flows/{id}/result", timeout)
        if ended is None:
            raise await self._still_running("flow", id, timeout)
        return FlowResult(ended["outcome"], ended["results"], ended.get("result_refs", {}), ended["flow"])

    async def get_flow(self, id: str) -> types.Flow:
        """Returns a flow with its counts."""
        return cast(types.Flow, await self._transport.get(f"/v1/flows/{id}"))

    async def list_flows(
        self,
        *,
        state: str | None = None,
        name: str | None = None,
        tags: Mapping[str, str] | None = None,
        submitted_after: datetime | None = None,
        submitted_before: datetime | None = None,
    ) -> AsyncGenerator[types.Flow, None]:
        """Yields flows, newest first."""
        params = {
            "state": state,
            "name": name,
            "tag": [f"{tag}:{value}" for tag, value in (tags or {}).items()] or None,
            "submitted_after": None if submitted_after is None else timestamp(submitted_after),
            "submitted_before": None if submitted_before is None else timestamp(submitted_before),
        }
        async for item in self._transport.pages("/v1/flows", params):
            yield cast(types.Flow, item)

    async def flow_graph(self, id: str) -> types.Graph:
        """Returns the graph of a flow with the current states."""
        return cast(types.Graph, await self._transport.get(f"/v1/flows/{id}/graph"))

    async def flow_drawing(self, id: str, format: Literal["dot", "svg"] = "svg") -> str:
        """Returns the graph of a flow as a picture."""
        return await self._transport.text(f"/v1/flows/{id}/graph", {"format": format})

    async def explain_flow(self, id: str) -> types.Explanation:
        """Says why a flow has not ended, or how its outcome came about."""
        return cast(types.Explanation, await self._transport.get(f"/v1/flows/{id}/explain"))

    async def grow_flow(self, id: str, flow: Flow) -> dict[str, str]:
        """Adds nodes, edges and groups to a running flow. Returns the executions of the new nodes."""
        answer = await self._transport.post(f"/v1/flows/{id}/nodes", flow._graph())
        return cast("dict[str, str]", answer["executions"])

    async def cancel_flow(
        self,
        id: str,
        *,
        mode: Literal["all", "pending"] = "all",
        reason: str | None = None,
        wait: Seconds = 0,
    ) -> types.Flow:
        """Cancels the members of a flow that have not ended, or only those that have not started."""
        body = present({"mode": mode, "reason": reason, "wait_ms": milliseconds(wait)})
        answer = await self._transport.post(f"/v1/flows/{id}/cancel", body, wait=milliseconds(wait) / 1000)
        return cast(types.Flow, answer["flow"])

    async def events(
        self,
        after: str | None = None,
        types: Sequence[str] | None = None,
        *,
        start: datetime | Literal["now", "beginning"] = "now",
        execution: str | None = None,
        flow: str | None = None,
        tag: str | None = None,
    ) -> AsyncGenerator[types.Event, None]:
        """Yields events as they happen, from behind the cursor `after`, or from `start` (default: now).

        Resumes by itself after a broken connection, without a gap or a repetition. Save `event["cursor"]` to continue
        after a restart. Raises `Gone` if the cursor is older than the log.
        """
        params = {
            "types": ",".join(types) if types else None,
            "execution": execution,
            "flow": flow,
            "tag": tag,
        }
        cursor = after
        if cursor is None and start == "now":
            # The position is fixed before the first connection, so that a broken one loses nothing.
            page = await self._transport.get("/v1/events", {"from": "now", "limit": 1})
            cursor = page["resume_cursor"]
        if cursor is None:
            params["from"] = timestamp(start) if isinstance(start, datetime) else "beginning"
        async with aclosing(resumed(self._transport, "/v1/events", params, cursor)) as messages:
            async for _, data in messages:
                yield data

    async def list_workers(self) -> AsyncGenerator[types.Worker, None]:
        """Yields the workers."""
        async for item in self._transport.pages("/v1/workers"):
            yield cast(types.Worker, item)

    async def drain_worker(self, instance: str) -> None:
        """Asks a worker to finish what it holds and to exit."""
        await self._transport.post(f"/v1/workers/{instance}/drain")


def kind_of(kind: Any) -> tuple[str, Converter | None]:
    """Returns the kind of a task, and the conversion of its result."""
    if isinstance(kind, TaskType):
        return kind.kind, kind._convert_output
    return str(kind), None


def state_and_reasons(explained: types.Explanation) -> str:
    """Returns the state of an execution or a flow, and the first reasons why it does not go on, as sentences."""
    # A flow says first how many members are open, and then what each waits for.
    reasons = [reason["message"] for reason in explained["reasons"] if reason["code"] != "members_open"]
    state = f"It is {explained['state'].replace('_', ' ')}"
    return ". ".join([state, *reasons[:REASONS_MAX]])
