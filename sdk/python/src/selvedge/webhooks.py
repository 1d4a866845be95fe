"""Verifies the deliveries of webhooks.

    event = selvedge.webhooks.verify(secret, request.headers, request.body)

Deliveries are signed as Standard Webhooks describes. Keep the header `webhook-id` of what was handled for a day and
ignore repeats.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Mapping
from typing import cast

from . import types
from .errors import SelvedgeError
from .values import Seconds, milliseconds


class InvalidSignature(SelvedgeError, ValueError):
    """The delivery is not signed with the secret, or not recent. Answer it with 401."""


def verify(secret: str, headers: Mapping[str, str], body: bytes, *, tolerance: Seconds = 300.0) -> types.Event:
    """Returns the event of a delivery. Raises `InvalidSignature` unless it is signed with the secret and recent.

    `body` is the body as it arrived, before it is parsed. `tolerance` is the longest difference between the clocks.
    """
    found = {name.lower(): value for name, value in headers.items()}
    try:
        identity, sent, signatures = (found[f"webhook-{name}"] for name in ("id", "timestamp", "signature"))
        age = abs(time.time() - int(sent))
    except (KeyError, ValueError, OverflowError) as error:
        raise InvalidSignature(f"the header {error} is missing or wrong") from error
    if age > milliseconds(tolerance) / 1000:
        raise InvalidSignature(f"the delivery was signed {age:.0f} s ago")
    key = base64.b64decode(secret.removeprefix("whsec_"))
    if not key:
        raise ValueError("the secret of the webhook is empty; give the one that the server showed")
    digest = hmac.new(key, f"{identity}.{sent}.".encode() + body, hashlib.sha256).digest()
    expected = "v1," + base64.b64encode(digest).decode()
    # There is a signature for each secret that is valid.
    if not any(hmac.compare_digest(expected.encode(), each.encode()) for each in signatures.split()):
        raise InvalidSignature("no signature is made with this secret")
    return cast(types.Event, json.loads(body))
