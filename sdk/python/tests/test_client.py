"""The client against the real server."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from selvedge import (
    AlreadyTerminal,
    Client,
    ConnectionFailed,
    Flow,
    Gone,
    IdempotencyMismatch,
    Invalid,
    NotCompleted,
    NotFound,
    Problem,
    Run,
    Submission,
    VersionMismatch,
    WaitTimeout,
    Worker,
    quorum,
    sync,
)
from selvedge.testing import Server

MISSING = "00000000-0000-7000-8000-000000000000"


async def test_a_submission_with_the_same_key_is_a_duplicate(client: Client, lane: str) -> None:
    first = await client.submit("nothing", 1, lane=lane, idempotency_key=lane)
    again = await client.submit("nothing", 1, lane=lane, idempotency_key=lane)
    assert (first.duplicate, again.duplicate, again.id) == (False, True, first.id)
    with pytest.raises(IdempotencyMismatch) as refused:
        await client.submit("nothing", 2, lane=lane, idempotency_key=lane)
    assert (refused.value.status, refused.value.code) == (409, "idempotency_mismatch")


async def test_one_bad_item_of_a_batch_refuses_only_itself(client: Client, lane: str) -> None:
    good, bad = await client.submit_batch([{"kind": "nothing", "lane": lane, "tags": {"a": "b"}}, {"kind": ""}])
    assert isinstance(good, Run)
    assert isinstance(bad, Invalid)
    assert bad.pointer == "/kind" or bad.pointer == "/executions/1/kind"
    assert (await good.get())["tags"] == {"a": "b"}


async def test_errors_can_be_matched_by_class_code_and_pointer(client: Client, lane: str) -> None:
    with pytest.raises(NotFound):
        await client.get(MISSING)
    with pytest.raises(Invalid) as invalid:
        await client.submit("nothing", lane="")
    assert (invalid.value.code, invalid.value.pointer, invalid.value.status) == ("invalid_field", "/lane", 422)
    run = await client.submit("nothing", lane=lane)
    await run.cancel()
    with pytest.raises(AlreadyTerminal):
        await client.priority(run.id, 1)
    with pytest.raises(VersionMismatch):
        await client.replay(run.id, if_version=99)
    with pytest.raises(NotCompleted) as ended:
        await run.result()
    assert ended.value.outcome == "cancelled"


async def test_a_result_that_does_not_come_in_time_is_a_timeout(client: Client, lane: str) -> None:
    run = await client.submit("nothing", lane=lane)
    with pytest.raises(WaitTimeout):
        await run.result(timeout=0.05)
    assert await client.outcome(run.id, 0) is None


async def test_operators_change_what_waits(client: Client, lane: str) -> None:
    run = await client.submit("nothing", lane=lane, tags={"old": "1"})
    assert (await client.priority(run.id, 7))["priority"] == 7
    assert (await client.tags(run.id, {"new": "2"}, ["old"]))["tags"] == {"new": "2"}
    assert (await run.reschedule(timedelta(hours=1)))["state"] == "delayed"
    later = datetime.now(timezone.utc) + timedelta(hours=2)
    until = (await run.reschedule(later))["delayed_until_at"]
    assert until is not None
    assert until.startswith(later.strftime("%Y-%m-%dT%H:%M"))
    reasons = (await run.explain())["reasons"]
    assert reasons
    assert (await run.cancel(reason="not needed"))["state"] == "cancelled"
    assert (await run.replay())["generation"] == 1
    events = [event["type"] for event in await client.execution_events(run.id)]
    assert "execution.replayed" in events


async def test_lists_are_read_page_by_page(client: Client, lane: str) -> None:
    await client.submit_batch([{"kind": "nothing", "input": n, "lane": lane, "tags": {"t": "1"}} for n in range(7)])
    found = [item async for item in client.list(lane=lane, tags={"t": "1"}, include=["input"], page=3)]
    assert sorted(item.get("input", -1) for item in found) == list(range(7))
    assert [item async for item in client.list(lane=lane, state=["completed", "failed"])] == []


async def test_a_bulk_action_changes_what_matches(client: Client, lane: str) -> None:
    await client.submit_batch([{"kind": "nothing", "lane": lane} for _ in range(3)])
    would = await client.bulk({"type": "cancel"}, filter={"lane": lane}, dry_run=True)
    assert would["matched"] == 3
    assert (await client.bulk({"type": "cancel"}, filter={"lane": lane})).get("done") == 3
    job = await client.bulk_jobs.start({"type": "replay"}, filter={"lane": lane})
    while (await client.bulk_jobs.get(job["id"]))["state"] == "running":
        await asyncio.sleep(0.01)
    assert (await client.bulk_jobs.stop(job["id"]))["done"] == 3


async def test_limits_schedules_and_webhooks_are_kept(client: Client, lane: str) -> None:
    assert (await client.lanes.put(lane, concurrency=4))["concurrency"] == 4
    assert (await client.lanes.pause(lane))["state"] == "paused"
    assert (await client.lanes.resume(lane))["state"] == "active"
    assert (await client.lanes.patch(lane, concurrency=None))["concurrency"] is None
    await client.quotas.put(lane, concurrency=2)
    assert (await client.quotas.get(lane))["concurrency"] == 2
    assert lane in [quota["name"] async for quota in client.quotas.list()]
    await client.quotas.delete(lane)
    with pytest.raises(NotFound):
        await client.quotas.get(lane)
    await client.budgets.put(lane, limits={"tokens": {"hard": 10}})
    spent = await client.budgets.usage(lane, {"tokens": 12}, dedup_key="a")
    assert spent["breached"] == ["tokens"]
    assert (await client.budgets.reset(lane))["budget"]["usage"] == {}
    await client.schedules.put(lane, interval=3600, submit=Submission("nothing", lane=lane))
    assert len(await client.schedules.next(lane, 3)) == 3
    await client.schedules.run(lane)
    assert len([run async for run in client.schedules.runs(lane)]) == 1
    await client.schedules.delete(lane)
    hook: Any = await client.webhooks.put(lane, url="https://example.com/hook", types=["execution.failed"])
    assert hook["secret"].startswith("whsec_")
    assert [delivery async for delivery in client.webhooks.deliveries(lane)] == []
    await client.webhooks.delete(lane)


async def test_a_flow_is_drawn_explained_grown_and_cancelled(client: Client, lane: str) -> None:
    flow = Flow("pair", tags={"flow": lane}, defaults={"lane": lane})
    a, b = flow.add("a", "nothing"), flow.add("b", "nothing")
    flow.add("two", "nothing", after=[a, b], policy=quorum(2))
    flow.add("alert", "nothing", after=[a.when("failure"), "b"], policy="any_of")
    run = await client.submit_flow(flow)
    graph = await run.graph()
    assert {(edge["from"], edge["to"], edge["when"]) for edge in graph["edges"]} == {
        ("a", "two", "success"),
        ("b", "two", "success"),
        ("a", "alert", "failure"),
        ("b", "alert", "success"),
    }
    more = Flow()
    more.add("more", "nothing", after="two", lane=lane)
    assert set(await run.grow(more)) == {"more"}
    assert (await run.get())["counts"]["total"] == 5
    assert (await client.flow_drawing(run.id, "svg")).startswith("<svg")
    assert (await run.explain())["state"] == "running"
    assert [found["id"] async for found in client.list_flows(tags={"flow": lane})] == [run.id]
    assert (await run.cancel(reason="not needed", wait=20))["state"] == "cancelled"
    assert (await run.result(timeout=10)).outcome == "cancelled"


async def test_events_continue_behind_a_cursor(client: Client, lane: str) -> None:
    run = await client.submit("nothing", lane=lane)
    await run.cancel()
    seen = []
    async with aclosing(client.events(start="beginning", execution=run.id)) as events:
        async for event in events:
            seen.append(event)
            if event["type"] == "execution.cancelled":
                break
    assert seen[0]["type"] == "execution.submitted"
    async with aclosing(client.events(seen[0]["cursor"], execution=run.id)) as events:
        assert (await events.__anext__())["cursor"] == seen[1]["cursor"]
    with pytest.raises((Gone, Problem)):
        await client.events("ffffffffffffffffffffffffffffffffffffff").__anext__()


async def test_events_from_now_do_not_miss_what_follows(client: Client, lane: str) -> None:
    stream = client.events(types=["execution.submitted"], tag=f"lane:{lane}")
    first = asyncio.ensure_future(stream.__anext__())
    while not first.done():
        await client.submit("nothing", lane=lane, tags={"lane": lane})
        await asyncio.wait([first], timeout=0.05)
    assert (await first)["type"] == "execution.submitted"
    await stream.aclose()


async def test_a_client_without_a_server_says_so() -> None:
    async with Client("http://127.0.0.1:9", retry_for=0.2) as client:
        with pytest.raises(ConnectionFailed, match="does not answer"):
            await client.get(MISSING)


def test_a_client_serves_several_event_loops(server: Server, lane: str) -> None:
    client = server.client()

    async def submit() -> str:
        return (await client.submit("nothing", lane=lane)).id

    assert asyncio.run(submit()) != asyncio.run(submit())


def test_the_synchronous_client_does_the_same(server: Server, lane: str) -> None:
    with sync.Client(server.url) as client:
        run = client.submit("nothing", {"a": 1}, lane=lane)
        assert run.get().get("input") == {"a": 1}
        assert [item["id"] for item in client.list(lane=lane)] == [run.id]
        run.cancel()
        with pytest.raises(NotCompleted):
            run.result(timeout=5)
        assert next(client.events(start="beginning", execution=run.id))["type"] == "execution.submitted"
        flow = Flow("pair")
        flow.add("a", "nothing", lane=lane)
        flow_run = client.submit_flow(flow)
        flow_run.cancel(wait=10)
        assert flow_run.result(timeout=10).outcome == "cancelled"
        client.lanes.put(lane, concurrency=1)
        assert lane in [item["name"] for item in client.lanes.list()]


async def test_a_task_gives_the_result_its_type(client: Client, worker: Worker, lane: str) -> None:
    @worker.task("when")
    async def when(ctx: Any, day: int) -> datetime:
        return datetime(2026, 5, day, tzinfo=timezone.utc)

    async with worker:
        run = await client.submit(when, 4, lane=lane)
        assert await run.result(timeout=20) == datetime(2026, 5, 4, tzinfo=timezone.utc)
