"""The imports that the blocks of docs/sdk-python.md need; `tests/test_docs.py` checks that none is missing."""

# ruff: noqa: F401
from __future__ import annotations

# region: imports
import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import psycopg  # only for submit_in

import selvedge.sync
from selvedge import (
    Client,
    ConnectionFailed,
    Context,
    Flow,
    Invalid,
    Item,
    Next,
    NotCompleted,
    NotFound,
    Permanent,
    Problem,
    Retry,
    RetryPolicy,
    Submission,
    SyncContext,
    Until,
    Worker,
    submit_in,
)
from selvedge.testing import Server

# endregion: imports
