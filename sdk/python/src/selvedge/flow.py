"""A flow to submit: nodes, the edges between them, and the policies that decide when a node runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from .conversion import Converter
from .options import NodeOptions, submission
from .values import Seconds, milliseconds

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .task import TaskType

I = TypeVar("I")  # noqa: E741
O = TypeVar("O")  # noqa: E741
O_co = TypeVar("O_co", covariant=True)

When = Literal["success", "failure", "failure_or_skipped", "finished"]


@dataclass(frozen=True)
class Node(Generic[O_co]):
    """A node of a flow. Name it in `after` of a later node, or use `node.when("failure")` there. `ended[node]` is its
    result, with the type of the task."""

    name: str
    condition: When = "success"
    _convert: Converter | None = field(default=None, repr=False, compare=False)

    def when(self, condition: When) -> Node[O_co]:
        """Returns the node with the outcome for which a downstream waits: success (default), failure, …"""
        return replace(self, condition=condition)


def any_of(*, let_run: bool = False) -> dict[str, Any]:
    """The policy of a node that runs as soon as one edge holds. The other upstreams are cancelled, or run on."""
    return {"type": "any_of", "on_satisfied": "let_run" if let_run else "cancel_remaining"}


def quorum(k: int, *, let_run: bool = False) -> dict[str, Any]:
    """The policy of a node that runs as soon as `k` edges hold. The other upstreams are cancelled, or run on."""
    return {"type": "quorum", "k": k, "on_satisfied": "let_run" if let_run else "cancel_remaining"}


class AddOptions(NodeOptions, total=False):
    """The options of a node: those of a submission, the upstreams, the condition of their edges, and the policy."""

    after: Iterable[Node[Any] | str] | Node[Any] | str
    when: When | None
    policy: Literal["all_of", "any_of"] | dict[str, Any] | None


class Flow:
    """A graph of executions, submitted in one call: `client.submit_flow(flow)`.

    >>> flow = Flow("report")
    >>> sales, costs = flow.add("sales", "load", "sales"), flow.add("costs", "load", "costs")
    >>> total = flow.add("total", "sum", after=[sales, costs])
    """

    def __init__(
        self,
        name: str | None = None,
        *,
        id: str | None = None,
        idempotency_key: str | None = None,
        tags: Mapping[str, str] | None = None,
        deadline: Seconds | None = None,
        retention: Seconds | None = None,
        defaults: NodeOptions | None = None,
    ) -> None:
        self._nodes: list[dict[str, Any]] = []
        self._edges: list[dict[str, Any]] = []
        self._groups: list[dict[str, Any]] = []
        self._fields: dict[str, Any] = {
            "name": name,
            "id": id,
            "idempotency_key": idempotency_key,
            "tags": tags,
        }
        self._fields["deadline_ms"] = None if deadline is None else milliseconds(deadline)
        self._fields["retention_ms"] = None if retention is None else milliseconds(retention)
        if defaults:
            fields = submission("", dict(defaults))
            del fields["kind"]
            self._fields["defaults"] = fields

    @overload
    def add(self, name: str, kind: TaskType[None, O], input: None = None, **options: Unpack[AddOptions]) -> Node[O]: ...
    @overload
    def add(self, name: str, kind: TaskType[I, O], input: I, **options: Unpack[AddOptions]) -> Node[O]: ...
    @overload
    def add(self, name: str, kind: str, input: Any = None, **options: Unpack[AddOptions]) -> Node[Any]: ...

    def add(
        self, name: str, kind: str | TaskType[Any, Any], input: Any = None, **options: Unpack[AddOptions]
    ) -> Node[Any]:
        """Adds a node, and edges from the nodes in `after`.

        `when` is the condition of all these edges; `node.when(…)` of one. The policy is `all_of` (default), `any_of`,
        or the result of the functions `any_of` and `quorum`.
        """
        fields: dict[str, Any] = dict(options)
        after, when, policy = (fields.pop(option, None) for option in ("after", "when", "policy"))
        body = submission(kind if isinstance(kind, str) else kind.kind, fields)
        self._nodes.append({"name": name, **body, "input": input})
        for upstream in [after] if isinstance(after, (Node, str)) else after or ():
            node = upstream if isinstance(upstream, Node) else Node(upstream)
            self._edges.append({"from": node.name, "to": name, "when": when or node.condition})
        if policy is not None:
            self._groups.append({"node": name, "policy": {"type": policy} if isinstance(policy, str) else policy})
        return Node(name, _convert=None if isinstance(kind, str) else kind._convert_output)

    def _graph(self) -> dict[str, Any]:
        """Returns the nodes, edges and groups."""
        return {"nodes": self._nodes, "edges": self._edges, "groups": self._groups}

    def to_json(self) -> dict[str, Any]:
        """Returns the body of the submission."""
        return {**{name: value for name, value in self._fields.items() if value is not None}, **self._graph()}
