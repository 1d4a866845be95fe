"""The exceptions of the SDK.

A request that the server refuses raises a `Problem`, by its status and code. A handler raises `Retry` or
`Permanent` to say how its attempt fails, and `Delay`, `Release` or `Cancelled` to end it without a failure.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from . import types


class SelvedgeError(Exception):
    """The base of all exceptions of this package."""


def headline(error: BaseException) -> str:
    """Returns an exception as the last line of a traceback has it: `KeyError: 'order_id'`.

    The exceptions of this package say everything in their message. A subclass of them is named.
    """
    kind, text = type(error), str(error)
    if text and kind.__module__ == __name__:
        return text
    return f"{kind.__name__}: {text}" if text else kind.__name__


CAUSES_MAX = 5
"""The most causes in the message of an error."""


def with_causes(error: BaseException) -> str:
    """Returns the headline of an exception, and those of the exceptions that it was raised from:
    `RuntimeError: not charged; caused by KeyError: 'card'`. A cause that the message has already is left out."""
    text, cause = headline(error), error.__cause__
    for _ in range(CAUSES_MAX):
        if cause is None:
            break
        if str(cause) not in text:
            text = f"{text}; caused by {headline(cause)}"
        cause = cause.__cause__
    return text


class ConnectionFailed(SelvedgeError, ConnectionError):
    """The server could not be reached, or did not answer. The request may have taken effect."""


class WaitTimeout(SelvedgeError, TimeoutError):
    """The execution or flow has not ended within the given time. It goes on. The message says why, if it is known."""


class NotCompleted(SelvedgeError):
    """The execution ended other than completed. Raised by `result`."""

    def __init__(self, execution_id: str, outcome: str, error: types.Failure | None) -> None:
        self.execution_id = execution_id
        self.outcome = outcome
        self.error = error
        reason = f": {error['message']}" if error else ""
        super().__init__(f"the execution {execution_id} ended as {outcome}{reason}")


class Problem(SelvedgeError):
    """The server refused a request: `application/problem+json` of RFC 9457. Match on the class or on `code`."""

    def __init__(self, document: types.Problem | dict[str, Any]) -> None:
        self.document: dict[str, Any] = dict(document)
        self.status: int = self.document.get("status", 500)
        self.code: str = self.document.get("code", "internal")
        self.detail: str = self.document.get("detail", "")
        self.pointer: str | None = self.document.get("pointer")
        self.retry_after_ms: int | None = self.document.get("retry_after_ms")
        place = f" (at {self.pointer})" if self.pointer else ""
        super().__init__(f"{self.code}: {self.detail}{place}")


class BadRequest(Problem):
    """400: the request is not JSON, or its cursor is not valid."""


class Unauthorized(Problem):
    """401: the key or token is missing, wrong, expired or revoked."""


class Forbidden(Problem):
    """403: the role of the key does not permit the request."""


class NotFound(Problem):
    """404: there is no such thing in the namespace."""


class Conflict(Problem):
    """409: the state does not permit the request."""


class IdempotencyMismatch(Conflict):
    """409 `idempotency_mismatch`: the id or key was used with other content."""


class VersionMismatch(Conflict):
    """409 `version_mismatch`: the execution has changed since the version in `if_version`."""


class AlreadyTerminal(Conflict):
    """409 `already_terminal`: the execution has ended."""


class StaleLease(Conflict):
    """409 `stale_lease`: the lease of the attempt has ended. Its work is to be discarded."""


class Superseded(Conflict):
    """409 `superseded`: a newer process has the instance name of the worker."""


class Gone(Problem):
    """410: the cursor is older than the log, or does not belong to it. Read from the beginning, or from now."""


class PayloadTooLarge(Problem):
    """413: an input, result or body is too large. Store the data elsewhere and send a reference."""


class Invalid(Problem):
    """422: the field at `pointer` is wrong."""


class RateLimited(Problem):
    """429: too many requests, also after the retries of the client."""


class Unavailable(Problem):
    """503: the store is away or the server shuts down, also after the retries of the client."""


_BY_CODE: dict[str, type[Problem]] = {
    "idempotency_mismatch": IdempotencyMismatch,
    "version_mismatch": VersionMismatch,
    "already_terminal": AlreadyTerminal,
    "stale_lease": StaleLease,
    "superseded": Superseded,
}
_BY_STATUS: dict[int, type[Problem]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    413: PayloadTooLarge,
    422: Invalid,
    429: RateLimited,
    503: Unavailable,
}


def problem(document: types.Problem | dict[str, Any]) -> Problem:
    """Returns the exception of a problem document."""
    code, status = str(document.get("code")), int(document.get("status", 500))
    return _BY_CODE.get(code, _BY_STATUS.get(status, Problem))(document)


class Retry(SelvedgeError):
    """Raised by a handler: the attempt failed. It is retried after `after` seconds, or the back-off."""

    def __init__(self, message: str = "the handler asks for a retry", *, after: float | timedelta | None = None):
        super().__init__(message)
        self.after = after


class Permanent(SelvedgeError):
    """Raised by a handler: the execution failed, and a retry would not help."""


class ControlFlow(BaseException):
    """Raised by a handler to end its attempt without a failure. Not an `Exception`, so that `except Exception` in a
    handler does not swallow it."""


class Delay(ControlFlow):
    """Raised by a handler: put the execution back until a time, or for some seconds. Charges no retry."""

    def __init__(self, until: float | timedelta | datetime) -> None:
        super().__init__(f"the handler puts the execution back: {until}")
        self.until = until


class Release(ControlFlow):
    """Raised by a handler: put the execution back now, for any worker. Charges no retry."""


class Cancelled(ControlFlow):
    """Raised by `ctx.cancelled.raise_if_set()`: the execution ends as cancelled."""


class Suspended(ControlFlow):
    """Raised by `call_next` in a middleware: the attempt is suspended, and the next one continues its work."""


class AttemptOver(SelvedgeError):
    """The attempt has ended, so that its context can do nothing more. The next attempt continues the work."""
