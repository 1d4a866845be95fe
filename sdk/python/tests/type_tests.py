# pyright: reportUnnecessaryTypeIgnoreComment=error
"""What mypy and pyright know about the SDK, one promise per function. Checked by `scripts/test-python`, never run.

A line with `type: ignore` is a mistake of a user: both checkers have to refuse it, because an `ignore` that is not
needed is an error itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from typing_extensions import assert_type

from selvedge import (
    Cancellation,
    Child,
    Client,
    Context,
    Flow,
    FlowResult,
    Item,
    ReceivedSignal,
    Run,
    SignalType,
    Submission,
    SyncContext,
    Task,
    TaskType,
    Worker,
    task_type,
)
from selvedge import sync as blocking

worker = Worker()
client = Client()


@dataclass
class Order:
    number: int


@dataclass
class Receipt:
    cents: int


@worker.task("pay")
async def pay(ctx: Context, order: Order) -> Receipt:
    return Receipt(order.number)


@worker.task("greet")
def greet(ctx: SyncContext, name: str) -> str:
    return name


@worker.task("tidy")
async def tidy(ctx: Context) -> int:
    return 1


@worker.task("maybe")
async def maybe(ctx: Context, limit: int | None = None) -> int:
    return limit or 0


@worker.task("resize")
def resize(ctx: SyncContext, *, path: str, width: int = 800) -> str:
    return f"{path} at {width}"


@worker.task("convert")
async def convert(ctx: Context, *, film: str) -> list[Receipt]:
    return []


@worker.batch_task("embed", max=8)
async def embed(items: list[Item[str]]) -> list[list[float]]:
    return [[0.0] for _ in items]


DECLARED = task_type("declared", input=Order, output=Receipt)
ALONE = task_type("alone", output=str)


def a_task_has_the_types_of_its_function() -> None:
    assert_type(pay, Task[Order, Receipt])
    assert_type(greet, Task[str, str])
    assert_type(tidy, Task[None, int])
    assert_type(DECLARED, TaskType[Order, Receipt])
    assert_type(ALONE, TaskType[None, str])
    assert_type(task_type("any", input=str), TaskType[str, Any])


async def the_input_of_a_submission_is_checked() -> None:
    await client.submit(pay, Order(1))
    await client.submit(pay, "text")  # type: ignore
    await client.submit(pay)  # type: ignore
    await client.submit(tidy)
    await client.submit(tidy, 1)  # type: ignore
    await client.submit(maybe)
    await client.submit(maybe, 5)
    await client.submit(DECLARED, Order(1))
    await client.submit(DECLARED, 1)  # type: ignore
    await client.submit(ALONE)
    await client.submit(pay, Order(1), lan="x")  # type: ignore


async def the_fields_of_an_input_are_checked() -> None:
    await client.submit(resize, resize.input(path="cat.jpg"))
    await client.submit(resize, resize.input(path="cat.jpg", width=20), lane="images")
    resize.input()  # type: ignore
    resize.input(path=1)  # type: ignore
    resize.input(path="cat.jpg", height=1)  # type: ignore
    await client.submit(resize, {"path": "cat.jpg"})  # type: ignore
    await client.submit(resize, convert.input(film="cat.mov"))  # type: ignore


async def the_result_of_a_submission_is_known() -> None:
    assert_type(await client.submit(pay, Order(1)), Run[Receipt])
    assert_type(await (await client.submit(convert, convert.input(film="x"))).result(), list[Receipt])
    assert_type(await (await client.submit(DECLARED, Order(1))).result(timeout=1), Receipt)
    assert_type(await (await client.submit("pay", {"number": 1})).result(), Any)
    assert_type(client.run("id", pay), Run[Receipt])
    assert_type(blocking.Client().submit(greet, "Ada").result(), str)


def the_nodes_of_a_flow_are_checked(ended: FlowResult) -> None:
    flow = Flow("order")
    paid = flow.add("pay", pay, Order(1))
    flow.add("wrong", pay, "text")  # type: ignore
    flow.add("missing", pay)  # type: ignore
    flow.add("tidy", tidy, after=paid, when="finished")
    flow.add("tidy", tidy, when="sometimes")  # type: ignore
    flow.add("text", "pay", "anything", after=paid.when("failure"), lane="x", policy="any_of")
    assert_type(ended[paid], Receipt)
    assert_type(ended["pay"], Any)


async def the_input_of_a_child_is_checked(ctx: Context, plain: SyncContext) -> None:
    await ctx.spawn(pay, Order(1), name="first", detach=True, lane="x")
    await ctx.spawn(pay, "text")  # type: ignore
    await ctx.spawn(pay)  # type: ignore
    plain.spawn(greet, "Ada")
    plain.spawn(greet, 1)  # type: ignore


def charge(cents: int, *, key: str) -> Receipt:
    return Receipt(cents)


async def fetch(url: str) -> list[Receipt]:
    return []


async def the_arguments_and_the_result_of_a_step_are_known(ctx: Context, plain: SyncContext) -> None:
    assert_type(await ctx.step("charge", charge, 990, key="k"), Receipt)
    assert_type(await ctx.step("fetch", fetch, "http://x"), list[Receipt])
    assert_type(plain.step("charge", charge, 990, key="k"), Receipt)
    await ctx.step("charge", charge, "990", key="k")  # type: ignore
    await ctx.step("charge", charge, 990)  # type: ignore
    plain.step("charge", charge, 990)  # type: ignore


def a_declaration_binds_the_function_that_runs_it() -> None:
    @worker.task(DECLARED)
    async def declared(ctx: Context, order: Order) -> Receipt:
        return Receipt(order.number)

    assert_type(declared, Task[Order, Receipt])

    @worker.task(DECLARED)  # type: ignore
    async def other(ctx: Context, order: str) -> Receipt:
        return Receipt(1)

    @worker.task(ALONE)
    def alone(ctx: SyncContext) -> str:
        return "x"


async def the_fields_of_configurations_are_checked() -> None:
    await client.lanes.put("images", concurrency=4, rate={"count": 10, "window": timedelta(seconds=1)}, weight=2)
    await client.lanes.put("images", concurency=4)  # type: ignore
    await client.lanes.put("images", rate={"count": 10, "window_ms": 1})  # type: ignore
    await client.quotas.put("model", weight=1)  # type: ignore
    await client.budgets.put("tokens", limits={"tokens": {"hard": 100}}, period=60, on_hard="suspend")
    await client.budgets.put("tokens", on_hard="suspend")  # type: ignore
    await client.budgets.put("tokens", limits={}, on_hard="explode")  # type: ignore
    await client.budgets.patch("tokens", limits={"tokens": None})
    await client.schedules.put("nightly", cron="0 2 * * *", submit=Submission(pay, Order(1), lane="x"))
    await client.schedules.put("nightly", interval=60, submit=Flow("nightly"), overlap="queue")
    await client.schedules.put("nightly", cron="0 2 * * *")  # type: ignore
    await client.schedules.put("nightly", submit=Submission(pay, 1))  # type: ignore
    await client.schedules.patch("nightly", paused=True)
    await client.webhooks.put("orders", url="https://example.com", types=["execution.failed"], filter={"tag": "a:b"})
    await client.webhooks.put("orders", url="https://example.com")  # type: ignore
    await client.webhooks.rotate_secret("orders", grace=timedelta(days=1))
    await client.submit_batch([Submission(pay, Order(1)), {"kind": "pay"}])


async def a_cancellation_is_a_truth_value_that_can_be_awaited(ctx: Context, plain: SyncContext) -> None:
    assert_type(ctx.cancelled, Cancellation)
    await ctx.cancelled.wait()
    assert_type(plain.cancelled.wait(1), bool)
    assert_type(bool(plain.cancelled), bool)


PAID = SignalType("paid", Receipt)


async def the_payload_of_a_signal_is_checked_and_known(ctx: Context, plain: SyncContext) -> None:
    assert_type(await ctx.wait_for_signal(PAID, timeout=1), ReceivedSignal[Receipt] | None)
    assert_type(await ctx.wait_for_signal("paid"), ReceivedSignal[Any] | None)
    assert_type(plain.wait_for_signal(PAID), ReceivedSignal[Receipt] | None)
    await client.signal("id", PAID, Receipt(1), source="bank")
    await client.signal("id", PAID, "text")  # type: ignore
    await client.signal("id", PAID)  # type: ignore
    await client.run("id").signal(PAID, Receipt(1))
    await client.run("id").signal(PAID, 1)  # type: ignore
    await client.run("id").signal("paid", {"anything": 1}, sourc="x")  # type: ignore


async def the_results_of_relatives_have_the_types_that_are_asked_for(
    ctx: Context, plain: SyncContext, child: Child
) -> None:
    assert_type(ctx.upstream.get("sum", int), int)
    assert_type(await ctx.upstream.fetch("sum", Receipt), Receipt)
    assert_type(plain.upstream.get("sum", list[int]), list[int])
    assert_type(ctx.upstream.get("sum"), Any)
    assert_type(child.get(Receipt), Receipt)


@dataclass
class State:
    pool: str


@worker.task("stateful")
async def stateful(ctx: Context[State], name: str) -> str:
    assert_type(ctx.state.pool, str)
    assert_type(await ctx.race("first", {"one": stateful_branch}), int)
    return name


async def stateful_branch(ctx: Context[State]) -> int:
    return len(ctx.state.pool)


def the_state_of_a_lifespan_is_known(ctx: Context, plain: SyncContext[State]) -> None:
    assert_type(stateful, Task[str, str])
    assert_type(plain.state, State)
    assert_type(ctx.state, None)
    print(ctx.state.pool)  # type: ignore
