"""A signal with the type of its payload, declared once for the program that sends it and the one that waits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from .conversion import Converter, converter

T = TypeVar("T")


@dataclass(frozen=True)
class SignalType(Generic[T]):
    """A signal: `PAID = SignalType("paid", Payment)`. `run.signal(PAID, Payment(990))` and `ctx.wait_for_signal(PAID)`
    then have the type of the payload."""

    name: str
    payload: type[T]

    def _converter(self) -> Converter | None:
        return converter(self.payload)
