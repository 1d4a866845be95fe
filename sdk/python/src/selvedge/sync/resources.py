# Generated from client/resources.py by scripts/generate.py.
"""Lanes, quotas, budgets, schedules, webhooks, waitpoints and bulk jobs: `client.lanes`, `client.budgets`, …

The fields of `put` and `patch` are those of the HTTP API, with durations in seconds or as a `timedelta`.
"""

from __future__ import annotations

import builtins
from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast
from urllib.parse import quote

from .. import types
from ..configurations import (
    BudgetOptions,
    BudgetPatch,
    LaneOptions,
    Limit,
    QuotaOptions,
    ScheduleOptions,
    SchedulePatch,
    WebhookOptions,
    WebhookPatch,
    wire_fields,
)
from ..flow import Flow
from ..submission import Submission
from ..values import Seconds, milliseconds
from .transport import Transport

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Unpack

T = TypeVar("T")

PutWebhookAnswer = types.PutWebhookAnswer


class Collection(Generic[T]):
    """Things with a name, that can be listed, read, put, patched and deleted."""

    path = ""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def _address(self, name: str, action: str = "") -> str:
        return f"/v1/{self.path}/{quote(name, safe='')}{action}"

    def list(self, **filters: Any) -> Generator[T, None, None]:
        """Yields all of them, ordered by name."""
        for item in self._transport.pages(f"/v1/{self.path}", filters):
            yield cast(T, item)

    def get(self, name: str) -> T:
        """Returns one, with its current use."""
        return cast(T, self._transport.get(self._address(name)))

    def _put(self, name: str, fields: Mapping[str, Any]) -> T:
        return cast(T, self._transport.call("PUT", self._address(name), wire_fields(fields)))

    def _patch(self, name: str, fields: Mapping[str, Any]) -> T:
        return cast(T, self._transport.call("PATCH", self._address(name), wire_fields(fields)))

    def delete(self, name: str) -> None:
        """Removes one."""
        self._transport.call("DELETE", self._address(name))


class Lanes(Collection[types.Lane]):
    """The queues."""

    path = "lanes"

    def put(self, name: str, **fields: Unpack[LaneOptions]) -> types.Lane:
        """Creates or replaces one."""
        return self._put(name, fields)

    def patch(self, name: str, **fields: Unpack[LaneOptions]) -> types.Lane:
        """Changes only the given fields; None removes one."""
        return self._patch(name, fields)

    def pause(self, name: str) -> types.PauseLaneAnswer:
        """Lets nothing more start."""
        return cast(types.PauseLaneAnswer, self._transport.post(self._address(name, "/pause")))

    def resume(self, name: str) -> types.PauseLaneAnswer:
        """Ends a pause."""
        return cast(types.PauseLaneAnswer, self._transport.post(self._address(name, "/resume")))


class Quotas(Collection[types.Quota]):
    """Limits that executions name."""

    path = "quotas"

    def put(self, name: str, **fields: Unpack[QuotaOptions]) -> types.Quota:
        """Creates or replaces one."""
        return self._put(name, fields)

    def patch(self, name: str, **fields: Unpack[QuotaOptions]) -> types.Quota:
        """Changes only the given fields; None removes one."""
        return self._patch(name, fields)


class Budgets(Collection[types.Budget]):
    """Limits of spending."""

    path = "budgets"

    def put(self, name: str, *, limits: Mapping[str, Limit], **fields: Unpack[BudgetOptions]) -> types.Budget:
        """Creates or replaces one."""
        return self._put(name, {**fields, "limits": limits})

    def patch(self, name: str, **fields: Unpack[BudgetPatch]) -> types.Budget:
        """Changes only the given fields; None removes one."""
        return self._patch(name, fields)

    def usage(
        self,
        name: str,
        usage: Mapping[str, float],
        *,
        dedup_key: str | None = None,
        execution: str | None = None,
    ) -> types.ReportUsageAnswer:
        """Counts spending that no worker reports."""
        body = {"usage": usage, "dedup_key": dedup_key, "execution": execution}
        return cast(types.ReportUsageAnswer, self._transport.post(self._address(name, "/usage"), present(body)))

    def reset(self, name: str) -> types.ResetBudgetAnswer:
        """Begins a new period."""
        return cast(types.ResetBudgetAnswer, self._transport.post(self._address(name, "/reset")))


class Schedules(Collection[types.Schedule]):
    """Submissions by cron or interval: `put("nightly", cron="0 2 * * *", submit=Submission(report, "Europe"))`."""

    path = "schedules"

    def put(
        self, name: str, *, submit: Submission | Flow | Mapping[str, Any], **fields: Unpack[ScheduleOptions]
    ) -> types.Schedule:
        """Creates or replaces one."""
        return self._put(name, {**fields, "submit": submit})

    def patch(self, name: str, **fields: Unpack[SchedulePatch]) -> types.Schedule:
        """Changes only the given fields; None removes one."""
        return self._patch(name, fields)

    def run(self, name: str) -> types.RunScheduleAnswer:
        """Submits once, now."""
        return cast(types.RunScheduleAnswer, self._transport.post(self._address(name, "/run")))

    def next(self, name: str, count: int = 10) -> builtins.list[str]:
        """Returns the next times."""
        answer = self._transport.get(self._address(name, "/next"), {"count": count})
        return [item["scheduled_at"] for item in answer["items"]]

    def runs(self, name: str) -> Generator[types.ScheduleRun, None, None]:
        """Yields what the schedule has submitted, newest first."""
        for item in self._transport.pages(self._address(name, "/runs")):
            yield cast(types.ScheduleRun, item)


class Webhooks(Collection[types.Webhook]):
    """Events sent to a URL. The first `put` returns the `secret`, with which `selvedge.webhooks.verify` checks them."""

    path = "webhooks"

    def put(
        self, name: str, *, url: str, types: Sequence[str], **fields: Unpack[WebhookOptions]
    ) -> PutWebhookAnswer:
        """Creates or replaces one. The answer to the creation has its secret, this once."""
        return cast(PutWebhookAnswer, self._put(name, {**fields, "url": url, "types": types}))

    def patch(self, name: str, **fields: Unpack[WebhookPatch]) -> types.Webhook:
        """Changes only the given fields; None removes one."""
        return self._patch(name, fields)

    def deliveries(self, name: str, **filters: Any) -> Generator[types.ListDeliveriesAnswerItemsItem, None, None]:
        """Yields the deliveries, newest first."""
        for item in self._transport.pages(self._address(name, "/deliveries"), filters):
            yield cast(types.ListDeliveriesAnswerItemsItem, item)

    def replay(self, name: str, delivery: str) -> types.ReplayDeliveryAnswer:
        """Sends a delivery again."""
        path = self._address(name, f"/deliveries/{quote(delivery, safe='')}/replay")
        return cast(types.ReplayDeliveryAnswer, self._transport.post(path))

    def rotate_secret(self, name: str, *, grace: Seconds = 0) -> types.RotateWebhookSecretAnswer:
        """Returns a new secret. The old one signs, too, for the grace period."""
        path = self._address(name, "/rotate-secret")
        body = {"grace_ms": milliseconds(grace)}
        return cast(types.RotateWebhookSecretAnswer, self._transport.post(path, body))

    def test(self, name: str) -> types.TestWebhookAnswer:
        """Sends the event `webhook.test` now, also to a paused webhook, and returns what the receiver answered."""
        return cast(types.TestWebhookAnswer, self._transport.post(self._address(name, "/test")))


class Waitpoints:
    """The addresses at which people and services answer an execution."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(
        self, *, state: str | None = None, source: str | None = None, execution: str | None = None
    ) -> Generator[types.Waitpoint, None, None]:
        """Yields waitpoints, newest first."""
        filters = {"state": state, "source": source, "execution": execution}
        for item in self._transport.pages("/v1/waitpoints", filters):
            yield cast(types.Waitpoint, item)

    def get(self, id: str) -> types.Waitpoint:
        """Returns one, without its token."""
        return cast(types.Waitpoint, self._transport.get(f"/v1/waitpoints/{id}"))

    def signal(
        self,
        id: str,
        token: str,
        payload: Any = None,
        *,
        name: str | None = None,
        idempotency_key: str | None = None,
    ) -> types.Delivery:
        """Delivers a signal. Needs nothing but the token."""
        body = {"token": token, "name": name, "idempotency_key": idempotency_key}
        body = {**present(body), "payload": payload}
        return cast(types.Delivery, self._transport.post(f"/v1/waitpoints/{id}/signal", body))

    def answer(self, id: str, payload: Any = None, *, name: str | None = None) -> types.Delivery:
        """Delivers a signal as an operator, without the token."""
        body = {**present({"name": name}), "payload": payload}
        return cast(types.Delivery, self._transport.post(f"/v1/waitpoints/{id}/answer", body))

    def look(self, id: str, token: str) -> types.LookAtWaitpointAnswer:
        """Shows the question to the holder of the token."""
        path = f"/v1/waitpoints/{id}/look"
        return cast(types.LookAtWaitpointAnswer, self._transport.post(path, {"token": token}))

    def reissue(self, id: str, *, expires: Seconds | None = None) -> types.ReissueWaitpointAnswer:
        """Returns a new token; the old one ends. Default: it does not expire."""
        path = f"/v1/waitpoints/{id}/reissue"
        body = {} if expires is None else {"expires_ms": milliseconds(expires)}
        return cast(types.ReissueWaitpointAnswer, self._transport.post(path, body))

    def revoke(self, id: str) -> types.RevokeWaitpointAnswer:
        """Ends the token."""
        return cast(types.RevokeWaitpointAnswer, self._transport.post(f"/v1/waitpoints/{id}/revoke"))


class BulkJobs:
    """Actions on any number of executions, in the background."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def start(
        self, action: Mapping[str, Any], *, filter: Mapping[str, Any] | None = None, all: bool = False
    ) -> types.StartBulkJobAnswer:
        """Starts a job for all executions that match."""
        body = {"action": action, "filter": filter, "all": all or None}
        return cast(types.StartBulkJobAnswer, self._transport.post("/v1/bulk-jobs", present(body)))

    def get(self, id: str) -> types.BulkJob:
        """Returns the job with its progress."""
        return cast(types.BulkJob, self._transport.get(f"/v1/bulk-jobs/{id}"))

    def list(self) -> Generator[types.BulkJob, None, None]:
        """Yields the jobs, newest first."""
        for item in self._transport.pages("/v1/bulk-jobs"):
            yield cast(types.BulkJob, item)

    def stop(self, id: str) -> types.BulkJob:
        """Stops the job. What it has done stays done."""
        return cast(types.BulkJob, self._transport.call("DELETE", f"/v1/bulk-jobs/{id}"))


def present(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}
