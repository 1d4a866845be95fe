"""The results of the upstreams of an execution, by node name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .. import types
from ..client import Client
from ..errors import Permanent


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

    async def fetch(self, node: str) -> Any:
        """Returns the result of an upstream, whether or not the claim carries it."""
        if node not in self._results:
            if node not in self.refs:
                outcome = self.outcomes.get(node)
                state = f"ended as {outcome['outcome']}" if outcome else "does not exist"
                raise Permanent(f"the upstream {node!r} has no result: it {state}")
            self._results[node] = await self._client.result(self.refs[node], 0)
        return self._results[node]

    def winner(self) -> Any:
        """Returns the result of the first upstream that completed: the winner of a race."""
        for node in self._results:
            return self._results[node]
        raise Permanent("no upstream has completed")
