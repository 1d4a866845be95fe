"""Approvals: several people are asked, and a number of them have to agree."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Union

from ..errors import Permanent
from ..values import Seconds
from .signals import Until, Waitpoint
from .waitpoints import create_waitpoints

if TYPE_CHECKING:
    from .context import Context

Ask = Callable[[str, Waitpoint], Union[Awaitable[Any], Any]]
"""Sends a person the token of the person's waitpoint."""

REJECT = "reject"
"""The last part of the name of the signal that declines."""


@dataclass(frozen=True)
class Vote:
    """The vote of one person."""

    person: str
    approves: bool
    payload: Any


@dataclass(frozen=True)
class Approval:
    """The decision, and the votes that led to it in the order of their arrival; without a decision, all votes."""

    verdict: Literal["approved", "rejected", "timed_out", "operator"]
    votes: list[Vote]

    @property
    def approved(self) -> bool:
        """True if enough people agreed."""
        return self.verdict == "approved"


async def run_approval(
    context: Context[Any],
    name: str,
    people: list[str],
    ask: Ask,
    at_least: int | None,
    timeout: Seconds | None,
    prompt: str | None,
) -> Approval:
    """Asks people and waits for their votes. See `Context.approval`."""
    full_name = context._request(name)
    needed = _check(full_name, people, at_least)
    tracker = context._attempt.tracker
    reject = f"{full_name}/{REJECT}"
    if full_name in tracker.recorded:
        # A recorded decision stands even if the code names other people since.
        tracker.make_optional(f"{full_name}/ask/")
    else:
        await _ask_all(context, name, full_name, people, ask, prompt)
    agreed = Until.sources(needed, [f"{full_name}/{person}" for person in people])
    declined = Until.sources(len(people) - needed + 1, [reject])
    waited = await context.wait(name, Until.any(agreed, declined), timeout=timeout)
    votes = [Vote(signal.source, signal.name != reject, signal.payload) for signal in waited.signals]
    if waited.resumed_by == "condition":
        return Approval("approved" if all(vote.approves for vote in votes) else "rejected", votes)
    return Approval("timed_out" if waited.resumed_by == "timeout" else "operator", votes)


async def _ask_all(
    context: Context[Any], name: str, full_name: str, people: list[str], ask: Ask, prompt: str | None
) -> None:
    """Asks the people who have not been asked yet."""
    recorded = context._attempt.tracker.recorded
    drafts = []
    for person in people:
        if f"{full_name}/ask/{person}" not in recorded:
            agree = f"{full_name}/{person}"
            draft = {"name": agree, "source": person, "signals": [agree, f"{full_name}/{REJECT}"]}
            drafts.append({**draft, "prompt": prompt} if prompt else draft)
    created = await create_waitpoints(context._attempt, drafts)
    waitpoints = {draft["source"]: waitpoint for draft, waitpoint in zip(drafts, created, strict=True)}
    for person in people:
        await context.step(f"{name}/ask/{person}", _nothing_of(ask), person, waitpoints.get(person))


def _nothing_of(ask: Ask) -> Callable[..., Awaitable[None]]:
    """Returns the step that asks a person. Its result is not recorded, because it may contain the token."""
    from .calls import call

    async def asked(person: str, waitpoint: Waitpoint | None) -> None:
        if waitpoint is not None:
            await call(ask, person, waitpoint)

    return asked


def _check(name: str, people: list[str], at_least: int | None) -> int:
    needed = len(people) if at_least is None else at_least
    if not people:
        raise Permanent(f"the approval {name!r} asks nobody")
    if not 1 <= needed <= len(people):
        raise Permanent(f"the approval {name!r} needs {needed} of {len(people)} people")
    if REJECT in people:
        raise Permanent(f"the approval {name!r} asks {REJECT!r}, a name that is reserved for the signal that declines")
    if len(set(people)) < len(people):
        raise Permanent(f"the approval {name!r} asks a person twice")
    return needed
