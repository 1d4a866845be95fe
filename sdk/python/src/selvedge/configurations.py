"""The fields of lanes, quotas, budgets, schedules and webhooks, and their form on the wire."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from .flow import Flow
from .submission import Submission
from .values import Seconds, milliseconds

if TYPE_CHECKING:
    from typing_extensions import NotRequired


class Rate(TypedDict):
    """At most `count` starts in each window."""

    count: int
    window: Seconds


class Limit(TypedDict):
    """The limits of one dimension of a budget: at the soft one an event is written, at the hard one starts end."""

    soft: NotRequired[float | None]
    hard: NotRequired[float | None]


class QuotaOptions(TypedDict, total=False):
    """The fields of a quota."""

    concurrency: int | None
    rate: Rate | None


class LaneOptions(QuotaOptions, total=False):
    """The fields of a lane. `weight`: its share among the lanes (default 1)."""

    state: Literal["active", "paused", "draining"]
    weight: int | None


class BudgetOptions(TypedDict, total=False):
    """The fields of a budget beside its limits. `period`: default none, so it is never reset by itself. `on_hard`:
    default `hold`. `scope`: what has a budget of its own, default the namespace."""

    period: Seconds | None
    on_hard: Literal["hold", "suspend", "fail"]
    scope: Literal["namespace", "flow", "lane"]


class BudgetPatch(BudgetOptions, total=False):
    """The fields of a budget that change."""

    limits: Mapping[str, Limit | None]


class ScheduleOptions(TypedDict, total=False):
    """The fields of a schedule: `cron` with a `time_zone` (default UTC), or `interval`. `jitter`: the longest delay of
    a run (default 0). `overlap`: what happens if a run still lives (default `allow`). `catch_up`: what happens to times
    that were missed by more than a minute (default `none`)."""

    cron: str | None
    time_zone: str | None
    interval: Seconds | None
    jitter: Seconds
    overlap: Literal["allow", "skip", "queue"]
    catch_up: Literal["none", "one", "all"]
    paused: bool


class SchedulePatch(ScheduleOptions, total=False):
    """The fields of a schedule that change."""

    submit: Submission | Flow | Mapping[str, Any]


class EventFilter(TypedDict, total=False):
    """The conditions of a webhook, all of which must hold. `tag` is written `name:value`."""

    execution: str
    flow: str
    tag: str


class WebhookOptions(TypedDict, total=False):
    """The fields of a webhook beside its URL and the types of its events."""

    filter: EventFilter | None
    paused: bool


class WebhookPatch(WebhookOptions, total=False):
    """The fields of a webhook that change."""

    url: str
    types: Sequence[str]


_DURATIONS = ("period", "interval", "jitter", "window")


def wire_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields as the API has them. None stays, because it removes a limit."""
    found: dict[str, Any] = {}
    for name, value in fields.items():
        if name in _DURATIONS:
            found[f"{name}_ms"] = None if value is None else milliseconds(value)
        elif name == "rate" and value is not None:
            found[name] = wire_fields(value)
        elif isinstance(value, Submission):
            # A patch is merged, so what the schedule submitted before is removed.
            found[name] = {"execution": value.to_json(), "flow": None}
        elif isinstance(value, Flow):
            found[name] = {"flow": value.to_json(), "execution": None}
        else:
            found[name] = value
    return found
