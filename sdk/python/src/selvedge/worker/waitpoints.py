"""Creates waitpoints, each once over all attempts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import Permanent, Problem
from .attempt import Attempt, refuses_content
from .signals import Waitpoint


async def create_waitpoints(attempt: Attempt, drafts: Sequence[dict[str, Any]]) -> list[Waitpoint]:
    """Creates waitpoints in one report. One that was answered already is returned again, without its token; otherwise
    every attempt after the answer would create another one."""
    settled = await _settled(attempt) if attempt.claim["attempt"] > 0 else {}
    missing = [draft for draft in drafts if draft["name"] not in settled]
    try:
        results = await attempt.report(*(attempt.encode("waitpoint", draft) for draft in missing)) if missing else []
    except Problem as refusal:
        if refuses_content(refusal):
            raise Permanent(f"a waitpoint was refused: {refusal}") from refusal
        raise
    found = dict(settled)
    for result in results:
        for created in result["waitpoints"]:
            found[created["name"]] = Waitpoint(created["id"], created["name"], created["token"], created.get("url"))
    return [found[draft["name"]] for draft in drafts]


async def _settled(attempt: Attempt) -> dict[str, Waitpoint]:
    """Returns the waitpoints of this generation that accept no delivery any more."""
    opened_at = ""
    if attempt.claim["execution"]["generation"] > 0:
        events = await attempt.client.execution_events(attempt.execution_id)
        opened_at = max((event["at"] for event in events if event["type"] == "execution.replayed"), default="")
    listed = await attempt.client.execution_waitpoints(attempt.execution_id)
    settled = [item for item in listed if item["state"] != "open" and item["created_at"] >= opened_at]
    return {item["name"]: Waitpoint(item["id"], item["name"], "") for item in settled}
