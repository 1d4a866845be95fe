"""What errors and logs say: the words of the language, where it happened, and the remedy that fits."""

from __future__ import annotations

import logging
import ssl
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from selvedge import (
    Client,
    ConnectionFailed,
    Context,
    Flow,
    NotCompleted,
    Permanent,
    Retry,
    RetryPolicy,
    WaitTimeout,
    Worker,
    sync,
)
from selvedge.errors import headline
from selvedge.testing import Server

MISSING = "00000000-0000-7000-8000-000000000000"


class CardDeclined(Permanent):
    """A permanent failure with a name of its own."""


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (KeyError("order_id"), "KeyError: 'order_id'"),
        (ZeroDivisionError("division by zero"), "ZeroDivisionError: division by zero"),
        (RuntimeError(), "RuntimeError"),
        (Permanent("no such account"), "no such account"),
        (Retry("busy"), "busy"),
        (CardDeclined("no money"), "CardDeclined: no money"),
        (Permanent(), "Permanent"),
    ],
)
def test_the_exceptions_of_others_are_named_and_those_of_the_package_speak_for_themselves(
    error: Exception, expected: str
) -> None:
    assert headline(error) == expected


async def test_a_failure_is_stored_with_its_type_and_logged_with_its_kind(
    client: Client, worker: Worker, lane: str, caplog: pytest.LogCaptureFixture
) -> None:
    @worker.task("charge")
    async def charge(ctx: Context, order: dict[str, Any]) -> int:
        if not order:
            return int(order["order_id"])
        raise Permanent("no such account")

    with caplog.at_level(logging.INFO, logger="selvedge.worker"):
        async with worker:
            failed = await client.submit(charge, {}, lane=lane, retry=0)
            with pytest.raises(NotCompleted, match="ended as failed: KeyError: 'order_id'"):
                await failed.result(timeout=20)
            refused = await client.submit(charge, {"a": 1}, lane=lane)
            with pytest.raises(NotCompleted, match="ended as failed: no such account"):
                await refused.result(timeout=20)
    records = {record.getMessage(): record for record in caplog.records}
    crashed = records[f"charge in {lane}: execution {failed.id} attempt 0 failed: KeyError: 'order_id'"]
    assert crashed.levelno == logging.WARNING
    assert crashed.exc_info is not None
    hopeless = records[f"charge in {lane}: execution {refused.id} attempt 0 failed and is not retried: no such account"]
    assert hopeless.levelno == logging.WARNING
    assert any("starts; kinds: charge; lanes: " in message for message in records)


async def test_a_wait_that_was_too_long_says_why_and_what_to_ask(client: Client, lane: str) -> None:
    run = await client.submit("nobody-runs-this", lane=lane)
    with pytest.raises(WaitTimeout) as late:
        await run.result(timeout=0.05)
    message = str(late.value)
    assert f"the execution {run.id} has not ended after 0.05 s. It is waiting. No live worker" in message
    assert f"`selvedge explain {run.id}`" in message

    flow = Flow("pair")
    flow.add("a", "nobody-runs-this", lane=lane)
    started = await client.submit_flow(flow)
    with pytest.raises(WaitTimeout) as late:
        await started.result(timeout=0.05)
    message = str(late.value)
    assert "It is running. “a” is waiting for a worker. No live worker" in message
    assert f"`selvedge flow explain {started.id}`" in message


def test_a_wait_of_the_synchronous_client_says_why(server: Server, lane: str) -> None:
    with sync.Client(server.url) as client:
        run = client.submit("nobody-runs-this", lane=lane)
        with pytest.raises(WaitTimeout, match=r"It is waiting\. No live worker"):
            run.result(timeout=0.05)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_refused_connection_says_how_to_start_a_server(host: str) -> None:
    async with Client(f"http://{host}:9", retry_for=0) as client:
        with pytest.raises(ConnectionFailed, match=r"start one with `selvedge dev`, or name another .*SELVEDGE_SERVER"):
            await client.get(MISSING)


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """The certificate of a server that only its owner trusts; the key is beside it."""
    certificate, key = tmp_path / "server.crt", tmp_path / "server.key"
    make = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost"
    extensions = ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*make.split(), *extensions], check=True, capture_output=True)
    return certificate


async def test_a_certificate_that_is_not_accepted_says_so_at_once_and_names_what_to_set(certificate: Path) -> None:
    key = certificate.with_suffix(".key")
    with Server(manual_clock=False, arguments=["--tls-cert", str(certificate), "--tls-key", str(key)]) as server:
        address = f"https://localhost:{server.url.rsplit(':', 1)[1]}"
        begun = time.monotonic()
        async with Client(address) as client:
            with pytest.raises(ConnectionFailed, match=r"certificate of https://localhost.*SELVEDGE_CA_FILE.*ca_file="):
                await client.get(MISSING)
        assert time.monotonic() - begun < 20, "it is not repeated for 30 seconds"
        trusted = ssl.create_default_context(cafile=str(certificate))
        async with Client(address, ssl_context=trusted) as client:
            assert (await client.submit("nobody")).id


async def test_a_retry_policy_may_have_the_shape_of_the_api(client: Client, lane: str) -> None:
    policy = {"max_retries": 4, "backoff": {"type": "fixed", "delay_ms": 10}}
    flow = Flow("order", defaults={"retry": policy, "lane": lane})
    flow.add("charge", "nobody")
    submitted = await client.submit_flow(flow)
    stored = await submitted.node("charge").get()
    assert stored["retry"]["max_retries"] == 4
    assert stored["retry"]["backoff"] == policy["backoff"]


def test_a_retry_of_another_type_names_the_policy() -> None:
    for wrong in ("3", 1.5, True, [3]):
        with pytest.raises(TypeError, match="retry is a RetryPolicy, the number of retries, or a mapping"):
            Flow("order").add("charge", "nobody", retry=wrong)  # type: ignore[arg-type]
    assert RetryPolicy(max_retries=1).to_json()["max_retries"] == 1
