"""Declared types are enforced and restored, each annotation by itself."""

from __future__ import annotations

import collections
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NewType, Optional, TypedDict, Union

import pytest

from selvedge import Client, Context, Flow, NotCompleted, Permanent, SyncContext, Task, Worker, task_type
from selvedge.conversion import Mismatch, convert, converter

if TYPE_CHECKING:
    from nowhere import Unknown  # type: ignore  # pyright: ignore
    from typing_extensions import NotRequired


@dataclass
class Receipt:
    cents: int
    lines: list[Receipt] = field(default_factory=list)


class Message(TypedDict):
    role: Literal["user", "tool"]
    content: str


class Point(NamedTuple):
    x: int
    y: float


WRONG: list[tuple[Any, Any, str]] = [
    (int, "abc", "'abc' is not an integer"),
    (int, None, "None is not an integer"),
    (int, True, "True is not an integer"),
    (int, 1.5, "1.5 is not an integer"),
    (str, 1, "1 is not a string"),
    (bool, 1, "1 is not true or false"),
    (float, "1", "'1' is not a number"),
    (list[int], [1, "b"], "1: 'b' is not an integer"),
    (list[int], {}, "{} is not a list"),
    (dict[str, int], {"a": None}, "a: None is not an integer"),
    (Optional[int], "x", "'x' is not an integer"),
    (Union[int, str], [], "is not an integer; .* is not a string"),
    (Literal["a", 2], "b", "'b' is not 'a' or 2"),
    (Receipt, {"cents": "zz"}, "cents: 'zz' is not an integer"),
    (Receipt, {"cents": 1, "lines": [{"cents": None}]}, "lines: 0: cents: None is not an integer"),
    (Receipt, {"cents": 1, "tax": 2}, "Receipt has no field 'tax'"),
    (Message, {"role": "user"}, "Message needs the field 'content'"),
    (Message, {"role": "system", "content": ""}, "role: 'system' is not 'user' or 'tool'"),
    (Point, [1], "is not a list of 2"),
    (Decimal, "twelve", "'twelve' is not a decimal number"),
]


@pytest.mark.parametrize(("annotation", "value", "message"), WRONG)
def test_a_value_of_another_type_is_refused_with_its_place(annotation: Any, value: Any, message: str) -> None:
    with pytest.raises(Mismatch, match=message):
        convert(value, annotation)


UserId = NewType("UserId", int)

RIGHT: list[tuple[Any, Any, Any]] = [
    (int, 3.0, 3),
    (float, 3, 3.0),
    (Union[int, str], "a", "a"),
    (Union[float, int], 3, 3),
    (Optional[Receipt], None, None),
    (Receipt, {"cents": 1, "lines": [{"cents": 2}]}, Receipt(1, [Receipt(2)])),
    (Message, {"role": "user", "content": "x", "more": 1}, {"role": "user", "content": "x", "more": 1}),
    (Point, [1, 2], Point(1, 2.0)),
    (Sequence[Receipt], [{"cents": 1}], [Receipt(1)]),
    (dict[int, Receipt], {"7": {"cents": 1}}, {7: Receipt(1)}),
    (dict[UserId, bool], {"7": True}, {7: True}),
    (dict[float, str], {"1.5": "a"}, {1.5: "a"}),
    (dict[bool, int], {"true": 1}, {True: 1}),
    (dict[Optional[int], int], {"null": 1, "2": 3}, {None: 1, 2: 3}),
    (Any, {"x": 1}, {"x": 1}),
]


@pytest.mark.parametrize(("annotation", "value", "expected"), RIGHT)
def test_a_value_that_fits_is_converted(annotation: Any, value: Any, expected: Any) -> None:
    found = convert(value, annotation)
    assert found == expected
    assert type(found) is type(expected)


def test_a_field_of_a_typed_dictionary_may_be_left_out_where_its_annotation_says_so() -> None:
    class Partial(TypedDict):
        name: str
        size: NotRequired[int]

    Partial.__annotations__["size"] = __import__("typing_extensions").NotRequired[int]
    assert convert({"name": "a"}, Partial) == {"name": "a"}
    with pytest.raises(Mismatch, match="needs the field 'name'"):
        convert({}, Partial)


def test_an_annotation_that_is_not_known_leaves_the_others_intact() -> None:
    def handler(ctx: Unknown, receipt: Receipt) -> None:
        del ctx, receipt

    task: Task[Any, Any] = Task("pay", handler)
    with pytest.raises(Permanent, match="cents: 'x' is not an integer"):
        task._bind(None, {"cents": "x"})


def test_an_unknown_annotation_of_an_input_or_a_result_is_an_error_at_the_registration() -> None:
    def takes(ctx: Context, unknown: Unknown) -> None: ...

    def returns(ctx: Context) -> list[Unknown]:
        return []

    with pytest.raises(TypeError, match=r"'take' cannot convert its parameter 'unknown': .*'Unknown'.*TYPE_CHECKING"):
        Task("take", takes)
    with pytest.raises(TypeError, match=r"'return' cannot convert its result: .*'list\[Unknown\]'"):
        Task("return", returns)


def test_the_annotation_of_a_wrapped_or_bound_function_is_found() -> None:
    import functools

    from selvedge.hints import of_result

    class Bank:
        def charge(self) -> Receipt:
            return Receipt(1)

        def __call__(self) -> list[Receipt]:
            return []

    @functools.wraps(Bank.charge)
    def wrapped() -> int:
        return 1

    assert of_result(Bank().charge) is Receipt
    assert of_result(functools.partial(Bank.charge, Bank())) is Receipt
    assert of_result(Bank()) == list[Receipt]
    assert of_result(wrapped) is Receipt
    assert of_result(Receipt) is Receipt
    assert of_result(print) is Any
    assert converter(of_result(len)) is None
    assert of_result(collections.OrderedDict) is collections.OrderedDict


def test_keyword_only_parameters_are_the_fields_of_the_input() -> None:
    @Worker().task("resize")
    def task(ctx: SyncContext, *, path: str, width: int = 800) -> str:
        return f"{path} at {width}"

    assert task.input(path="a") == {"path": "a"}
    assert task._bind(None, task.input(path="a", width=2))() == "a at 2"
    assert task._bind(None, {"path": "a"})() == "a at 800"
    with pytest.raises(Permanent, match="width: '2' is not an integer"):
        task._bind(None, {"path": "a", "width": "2"})
    with pytest.raises(Permanent, match="missing a required"):
        task._bind(None, None)
    with pytest.raises(TypeError, match="missing a required"):
        task.input(width=2)  # type: ignore


def test_several_positional_parameters_are_fields_with_a_warning() -> None:
    def resize(ctx: Any, path: str, width: int = 800) -> str:
        return f"{path} at {width}"

    with pytest.warns(DeprecationWarning, match=r"make them keyword-only: \(ctx, \*, path, width\)"):
        task: Task[Any, Any] = Task("resize", resize)
    assert task._bind(None, {"path": "a"})() == "a at 800"


async def test_a_wrong_input_fails_the_execution_at_once(client: Client, worker: Worker, lane: str) -> None:
    @worker.task("double")
    async def double(ctx: Context, n: int) -> int:
        return 2 * n

    async with worker:
        for wrong in ("abc", None):
            run = await client.submit("double", wrong, lane=lane)
            with pytest.raises(NotCompleted, match=r"the input is not what double expects: .* is not an integer"):
                await run.result(timeout=20)
            assert len(await run.attempts()) == 1


async def test_a_step_restores_a_list_of_dataclasses_whose_annotation_is_text(
    client: Client, worker: Worker, lane: str
) -> None:
    def charges(cents: int) -> list[Receipt]:
        return [Receipt(cents)]

    async def found(cents: int) -> Receipt | None:
        return Receipt(cents) if cents else None

    @worker.task("charges")
    async def handler(ctx: Context) -> list[int]:
        receipts = await ctx.step("charges", charges, 7)
        one = await ctx.step("one", found, 8)
        if ctx.attempt == 0:
            raise ConnectionError("once more, from the record")
        assert one is not None
        assert await ctx.step("none", found, 0) is None
        return [receipts[0].cents, one.cents]

    async with worker:
        run = await client.submit(handler, lane=lane, retry={"backoff": {"type": "fixed", "delay_ms": 10}})
        assert await run.result(timeout=20) == [7, 8]


async def test_a_declared_task_and_a_node_give_their_results_with_their_types(
    client: Client, worker: Worker, lane: str
) -> None:
    declared = task_type("receipt", input=int, output=Receipt)

    @worker.task(declared)
    def receipt(ctx: SyncContext, cents: int) -> Receipt:
        if cents == 0:
            raise Permanent("nothing to pay")
        return Receipt(cents)

    async with worker:
        assert await (await client.submit(declared, 5, lane=lane)).result(timeout=20) == Receipt(5)
        flow = Flow("receipts", defaults={"lane": lane})
        paid, failed = flow.add("paid", declared, 6), flow.add("failed", declared, 0)
        ended = await (await client.submit_flow(flow)).result(timeout=20)
        assert ended[paid] == Receipt(6)
        assert ended["paid"] == {"cents": 6, "lines": []}
        with pytest.raises(NotCompleted, match="nothing to pay"):
            ended[failed]
