"""Values become JSON and come back with the types of the annotations."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum
from typing import Any, Literal, Optional, Union
from uuid import UUID

import pydantic
import pytest

from selvedge import Permanent, RetryPolicy, Task
from selvedge.conversion import converter
from selvedge.options import new_id, submission
from selvedge.values import dumps, milliseconds


class Colour(Enum):
    RED = "red"


@dataclass
class Item:
    name: str
    price: Decimal = Decimal("1.50")


@dataclass
class Order:
    id: UUID
    items: list[Item]
    placed_at: datetime
    colour: Colour | None = None
    notes: dict[str, Item] = field(default_factory=dict)
    size: Union[Item, str, None] = None
    ratio: float = 1.0


class Model(pydantic.BaseModel):
    name: str
    items: list[Item]


def there_and_back(annotation: Any, value: Any) -> Any:
    convert = converter(annotation)
    parsed = json.loads(dumps(value))
    return convert(parsed) if convert else parsed


ORDER = Order(
    UUID(int=7), [Item("lamp")], datetime(2026, 5, 1, 12, tzinfo=timezone.utc), Colour.RED, {"a": Item("b")}, Item("c")
)


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (str, "ä"),
        (list[int], [1, 2]),
        (tuple[int, str], (1, "a")),
        (tuple[int, ...], (1, 2)),
        (set[str], {"a"}),
        (Order, ORDER),
        (list[Order], [ORDER]),
        (Optional[Order], None),
        (Literal["a", "b"], "a"),
        (Model, Model(name="m", items=[Item("lamp")])),
        (dict[str, Model], {"a": Model(name="m", items=[])}),
    ],
)
def test_a_value_comes_back_with_its_type(annotation: Any, value: Any) -> None:
    found = there_and_back(annotation, value)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("value", [float("nan"), object(), b"bytes", {1: object()}])
def test_a_value_that_json_does_not_have_is_refused(value: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        dumps(value)


def test_an_input_that_does_not_fit_is_a_permanent_failure() -> None:
    def handler(ctx: Any, order: Item) -> None: ...

    task: Task[Any, Any] = Task("order", handler)
    for wrong in ["text", {"nam": "lamp"}, {"name": "lamp", "more": 1}]:
        with pytest.raises(Permanent, match="the input is not what order expects"):
            task._bind(None, wrong)


def test_options_become_the_fields_of_the_api() -> None:
    fields = submission(
        "k",
        {
            "delay": timedelta(minutes=1),
            "deadline": 2.5,
            "concurrency": ("key", 3),
            "retry": RetryPolicy(max_retries=1, fixed=0.5),
        },
    )
    backoff = {"type": "fixed", "delay_ms": 500}
    assert fields == {
        "kind": "k",
        "delay_ms": 60_000,
        "deadline_ms": 2500,
        "concurrency": {"key": "key", "limit": 3},
        "retry": {"max_retries": 1, "backoff": backoff},
    }
    assert submission("k", {"retry": 0})["retry"] == {"max_retries": 0}
    with pytest.raises(TypeError, match="no option 'lanes'"):
        submission("k", {"lanes": "x"})
    assert milliseconds(timedelta(days=1)) == 86_400_000


def test_ids_are_uuids_of_version_7_in_the_order_of_their_making() -> None:
    ids = [UUID(new_id()) for _ in range(100)]
    assert {id.version for id in ids} == {7}
    assert len(set(ids)) == 100
    stamps = [id.int >> 80 for id in ids]
    assert stamps == sorted(stamps)
