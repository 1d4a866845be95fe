"""The addresses of the server, its certificate, and the fields of configurations."""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.server
import json
import threading
import time
from contextlib import aclosing
from datetime import timedelta
from typing import Any

import pytest

import selvedge
from selvedge import Client, ConnectionFailed, Context, Flow, Submission, Worker, sync, webhooks
from selvedge.testing import Server

AWAY = "http://127.0.0.1:9"


async def test_the_next_server_is_tried_where_one_cannot_be_reached(server: Server, lane: str) -> None:
    begun = time.monotonic()
    async with Client(f"{AWAY}, {server.url}/") as client:
        run = await client.submit("nobody", lane=lane)
        assert (await client.get(run.id))["id"] == run.id
        worker = Worker(client, lanes=[lane])

        @worker.task("greet")
        async def greet(ctx: Context, name: str) -> str:
            return f"Hello, {name}!"

        async with worker:
            assert await (await client.submit(greet, "Ada", lane=lane)).result(timeout=20) == "Hello, Ada!"
    with sync.Client(f"{AWAY},{server.url}") as blocking:
        assert blocking.get(run.id)["id"] == run.id
    assert time.monotonic() - begun < 20


async def test_a_call_without_retries_still_tries_the_next_server(server: Server, lane: str) -> None:
    async with Client(f"{AWAY},{server.url}", retry_for=0) as client:
        assert (await client.submit("nobody", lane=lane)).id


async def test_events_are_followed_on_the_server_that_can_be_reached(server: Server, lane: str) -> None:
    async with Client(f"{AWAY},{server.url}") as client:
        run = await client.submit("nobody", lane=lane)
    other = Client(f"{AWAY},{server.url}")
    async with other, aclosing(other.events(start="beginning", execution=run.id)) as events:
        assert (await anext(events))["type"] == "execution.submitted"


async def test_all_servers_away_is_an_error_that_names_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SELVEDGE_SERVER", f"{AWAY},http://localhost:9")
    with pytest.raises(ConnectionFailed, match="no server listens there"):
        await Client(retry_for=0.2).submit("nobody")


async def test_a_request_names_the_sdk_and_the_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SELVEDGE_NAMESPACE", "shop")
    headers = Client()._settings.arguments()["headers"]
    assert headers["Selvedge-Namespace"] == "shop"
    assert headers["User-Agent"] == f"selvedge-python/{selvedge.__version__}"


async def test_certificates_that_cannot_be_read_are_named() -> None:
    with pytest.raises(ConnectionFailed, match="the certificates in /nowhere cannot be read"):
        await Client("https://localhost:9", ca_file="/nowhere").submit("nobody")


async def test_durations_of_configurations_are_seconds(client: Client, lane: str) -> None:
    found = await client.lanes.put(lane, rate={"count": 10, "window": timedelta(minutes=1)})
    assert found["rate"] == {"count": 10, "window_ms": 60_000}
    assert (await client.lanes.patch(lane, rate=None))["rate"] is None
    assert (await client.budgets.put(lane, limits={"tokens": {"hard": 1}}, period=3600))["period_ms"] == 3_600_000
    assert (await client.budgets.patch(lane, period=None))["period_ms"] is None
    flow = Flow("nightly", defaults={"lane": lane})
    flow.add("load", "load", [1])
    schedule = await client.schedules.put(lane, interval=timedelta(hours=1), jitter=2, submit=flow)
    assert (schedule["interval_ms"], schedule["jitter_ms"]) == (3_600_000, 2000)
    started: Any = await client.schedules.run(lane)
    assert (await client.get_flow(started["flow"]["id"]))["name"] == "nightly"
    await client.schedules.patch(lane, submit=Submission("load", 7, lane=lane, retry=2))
    started = await client.schedules.run(lane)
    assert (await client.get(started["execution"]["id"]))["retry"]["max_retries"] == 2
    assert (await client.submit_batch([Submission("load", 7, lane=lane), {"kind": "load", "lane": lane}]))[0]


SECRET = "whsec_" + base64.b64encode(b"a secret of a webhook").decode()


def signed(body: bytes, secret: str = SECRET, age: float = 0) -> dict[str, str]:
    sent = str(int(time.time() - age))
    key = base64.b64decode(secret.removeprefix("whsec_"))
    digest = hmac.new(key, f"7.{sent}.".encode() + body, hashlib.sha256).digest()
    signature = f"v1,{base64.b64encode(b'another').decode()} v1,{base64.b64encode(digest).decode()}"
    return {"Webhook-Id": "7", "Webhook-Timestamp": sent, "Webhook-Signature": signature}


def test_a_delivery_is_accepted_only_with_its_signature() -> None:
    body = b'{"type": "execution.completed"}'
    assert webhooks.verify(SECRET, signed(body), body)["type"] == "execution.completed"
    other = "whsec_" + base64.b64encode(b"another secret").decode()
    for headers, received, message in [
        (signed(body), body + b" ", "no signature"),
        (signed(body, other), body, "no signature"),
        (signed(body, age=600), body, r"signed 60\d s ago"),
        (signed(body) | {"Webhook-Timestamp": "soon"}, body, "missing or wrong"),
        (signed(body) | {"Webhook-Timestamp": "1" * 400}, body, "missing or wrong"),
        ({}, body, "webhook-id"),
    ]:
        with pytest.raises(webhooks.InvalidSignature, match=message):
            webhooks.verify(SECRET, headers, received)
    assert webhooks.verify(SECRET, signed(body, age=600), body, tolerance=timedelta(hours=1))
    with pytest.raises(ValueError, match="the secret of the webhook is empty"):
        webhooks.verify("", signed(body, "whsec_"), body)


async def test_the_delivery_of_a_real_server_is_accepted() -> None:
    received: list[Any] = []
    secrets: list[str] = []

    class Receiver(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            received.append(webhooks.verify(secrets[0], dict(self.headers), body))
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None: ...

    receiver = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=receiver.serve_forever, daemon=True).start()
    with Server(arguments=["--webhook-allow-private"]) as server:
        async with server.client() as client:
            url = f"http://127.0.0.1:{receiver.server_address[1]}/hook"
            hook = await client.webhooks.put("orders", url=url, types=["execution.failed"])
            assert hook["secret"]
            secrets.append(hook["secret"])
            answer = await client.webhooks.test("orders")
            assert answer["status"] == 204, json.dumps(answer)
            rotated = await client.webhooks.rotate_secret("orders", grace=60)
            assert rotated["secret"]
    receiver.shutdown()
    receiver.server_close()
    assert [event["type"] for event in received] == ["webhook.test"]
