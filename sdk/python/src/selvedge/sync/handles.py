# Generated from client/handles.py by scripts/generate.py.
"""Handles of what was submitted: `Run` for an execution, `FlowRun` for a flow."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from .. import types
from ..conversion import Converter
from ..errors import NotCompleted
from ..signal_type import SignalType
from ..values import Seconds

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..flow import Flow, Node
    from .client import Client
    from .executions import CancelOptions, SignalOptions

T = TypeVar("T")
S = TypeVar("S")


class Run(Generic[T]):
    """An execution. `id` is its id; `execution` the document that the submission returned, if there was one."""

    def __init__(
        self,
        client: Client,
        id: str,
        execution: types.Execution | None = None,
        duplicate: bool = False,
        convert: Converter | None = None,
    ) -> None:
        self.client = client
        self.id = id
        self.execution = execution
        self.duplicate = duplicate
        self._convert = convert

    def __repr__(self) -> str:
        return f"<Run {self.id}>"

    def result(self, timeout: Seconds | None = None) -> T:
        """Waits for the end and returns the result.

        Raises `NotCompleted` if the execution ended otherwise, and `WaitTimeout` if it has not ended in time.
        """
        return self.client._result(self.id, timeout, self._convert)  # type: ignore[no-any-return]

    def get(self) -> types.Execution:
        """Returns the execution as it is now."""
        return self.client.get(self.id)

    def explain(self) -> types.Explanation:
        """Says why it does not run."""
        return self.client.explain(self.id)

    def cancel(self, **options: Unpack[CancelOptions]) -> types.Execution:
        """Cancels it. With a grace period its worker is asked first."""
        return self.client.cancel(self.id, **options)

    def replay(self) -> types.Execution:
        """Runs it again after its end, in a new generation."""
        return self.client.replay(self.id)

    def reschedule(self, when: Seconds | datetime) -> types.Execution:
        """Moves its start."""
        return self.client.reschedule(self.id, when)

    @overload
    def signal(
        self, name: SignalType[S], payload: S, **options: Unpack[SignalOptions]
    ) -> types.SendSignalAnswer: ...
    @overload
    def signal(
        self, name: str, payload: Any = None, **options: Unpack[SignalOptions]
    ) -> types.SendSignalAnswer: ...

    def signal(self, name: Any, payload: Any = None, **options: Unpack[SignalOptions]) -> types.SendSignalAnswer:
        """Sends it a signal."""
        return self.client.signal(self.id, name, payload, **options)

    def priority(self, priority: int) -> types.Execution:
        """Changes its priority."""
        return self.client.priority(self.id, priority)

    def tags(self, set: Mapping[str, str] | None = None, remove: Sequence[str] | None = None) -> types.Execution:
        """Changes its tags."""
        return self.client.tags(self.id, set, remove)

    def resume(self) -> types.Execution:
        """Resumes it, whatever it waits for."""
        return self.client.resume(self.id)

    def steps(self) -> list[types.Step]:
        """Returns its durable steps, in the order of their start."""
        return self.client.steps(self.id)

    def attempts(self) -> list[types.Attempt]:
        """Returns its attempts."""
        return self.client.attempts(self.id)

    def waitpoints(self) -> list[types.Waitpoint]:
        """Returns its waitpoints, without tokens."""
        return self.client.execution_waitpoints(self.id)

    def frames(self, **options: Any) -> list[types.Frame]:
        """Returns the frames of its latest attempt so far."""
        return self.client.frames(self.id, **options)

    def tail(self, **options: Any) -> Generator[types.Frame, None, None]:
        """Yields frames as they come, until the attempt has ended."""
        return self.client.tail(self.id, **options)

    def summary(self) -> types.Summary:
        """Returns the document into which its summary frames were merged."""
        return self.client.summary(self.id)


@dataclass(frozen=True)
class FlowResult:
    """The end of a flow: its outcome, and the outcomes and results of the nodes without downstreams, by name."""

    outcome: str
    results: dict[str, types.FlowResultResultsValue]
    result_refs: dict[str, str]
    flow: types.Flow

    @overload
    def __getitem__(self, node: Node[T]) -> T: ...
    @overload
    def __getitem__(self, node: str) -> Any: ...

    def __getitem__(self, node: Node[T] | str) -> Any:
        """Returns the result of a node: with the type of its task for the node that `flow.add` returned, otherwise as
        parsed JSON. Raises `NotCompleted` if that node has not completed."""
        if isinstance(node, str):
            return self.results[node]["result"]
        found = self.results[node.name]
        if found["outcome"] != "completed":
            raise NotCompleted(f"{self.flow['id']}/{node.name}", str(found["outcome"]), found["error"])
        return node._convert(found["result"]) if node._convert else found["result"]


class FlowRun:
    """A flow. `id` is its id; `executions` the ids of its nodes by name, as far as this handle submitted them."""

    def __init__(self, client: Client, id: str, executions: dict[str, str], duplicate: bool = False) -> None:
        self.client = client
        self.id = id
        self.executions = executions
        self.duplicate = duplicate

    def __repr__(self) -> str:
        return f"<FlowRun {self.id}>"

    def node(self, name: str) -> Run[Any]:
        """Returns the handle of a node."""
        return Run(self.client, self.executions[name])

    def result(self, timeout: Seconds | None = None) -> FlowResult:
        """Waits for the end, whatever the outcome. Raises `WaitTimeout` if the flow has not ended in time."""
        return self.client.flow_result(self.id, timeout)

    def get(self) -> types.Flow:
        """Returns the flow with its counts."""
        return self.client.get_flow(self.id)

    def graph(self) -> types.Graph:
        """Returns its graph with the current states."""
        return self.client.flow_graph(self.id)

    def explain(self) -> types.Explanation:
        """Says why it has not ended, or how its outcome came about."""
        return self.client.explain_flow(self.id)

    def grow(self, flow: Flow) -> dict[str, str]:
        """Adds the nodes, edges and groups of `flow`. Its edges may name existing nodes."""
        added = self.client.grow_flow(self.id, flow)
        self.executions.update(added)
        return added

    def cancel(self, **options: Any) -> types.Flow:
        """Cancels its members."""
        return self.client.cancel_flow(self.id, **options)
