"""The results of the upstreams of an execution, by node name."""

from __future__ import annotations

import types as python_types
import typing
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar, overload

from .. import types
from ..client import Client
from ..errors import Permanent
from .signals import result_as

T = TypeVar("T")


class Upstream(Mapping[str, Any]):
    """The results of the upstreams that completed. A result that was too large for the claim is read by `fetch`."""

    def __init__(self, client: Client, claim: types.Claim) -> None:
        self._client = client
        self._results = dict(claim["upstream"])
        self.refs = claim["upstream_refs"]
        """The executions of the upstreams whose results are not in the claim, by node name."""
        self.outcomes = claim["upstream_outcomes"]
        """The outcome and error of every upstream, by node name."""

    def __getitem__(self, node: str) -> Any:
        if node in self.refs and node not in self._results:
            raise KeyError(f"{node}: the result is too large for the claim; use await ctx.upstream.fetch({node!r})")
        return self._results[node]

    def __iter__(self) -> Iterator[str]:
        return iter(self._results)

    def __len__(self) -> int:
        return len(self._results)

    @overload  # type: ignore[override]
    def get(self, node: str, type: type[T], /) -> T: ...
    @overload
    def get(self, node: str, default: Any = None, /) -> Any: ...

    def get(self, node: str, default: Any = None, /) -> Any:  # pyright: ignore
        """Returns the result of an upstream as a value of a type: `ctx.upstream.get("sum", int)`. Raises `Permanent` if
        there is none. Without a type it is parsed JSON, or the default."""
        if not _is_type(default):
            return super().get(node, default)
        if node not in self._results:
            raise Permanent(self._missing(node))
        return result_as(f"the upstream {node!r}", self._results[node], default)

    def _missing(self, node: str) -> str:
        if node in self.refs:
            return f"the result of {node!r} is too large for the claim; use await ctx.upstream.fetch({node!r})"
        outcome = self.outcomes.get(node)
        state = f"ended as {outcome['outcome']}" if outcome else "does not exist"
        return f"the upstream {node!r} has no result: it {state}"

    @overload
    async def fetch(self, node: str, type: type[T], /) -> T: ...
    @overload
    async def fetch(self, node: str, /) -> Any: ...

    async def fetch(self, node: str, type: Any = Any, /) -> Any:
        """Returns the result of an upstream, whether or not the claim carries it, as parsed JSON or of a type."""
        if node not in self._results:
            if node not in self.refs:
                raise Permanent(self._missing(node))
            self._results[node] = await self._client.result(self.refs[node], 0)
        return result_as(f"the upstream {node!r}", self._results[node], type)

    def winner(self) -> Any:
        """Returns the result of the first upstream that completed: the winner of a race."""
        for node in self._results:
            return self._results[node]
        raise Permanent("no upstream has completed")


def _is_type(found: Any) -> bool:
    """Returns true for a type such as `int`, `list[int]` or `int | None`."""
    return isinstance(found, (type, python_types.UnionType)) or typing.get_origin(found) is not None
