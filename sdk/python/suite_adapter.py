"""The adapter of the Python SDK for the suite of all SDKs: translates the words of a scenario into calls of the SDK.

See `sdk/suite/README.md` for the protocol.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import os
import sys
import time
import traceback
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from pathlib import Path
from typing import Any

from selvedge import (
    Client,
    ConnectionFailed,
    Context,
    Flow,
    Item,
    Permanent,
    Problem,
    Retry,
    RetryPolicy,
    Waitpoint,
    WaitTimeout,
    Worker,
    quorum,
)

Variables = dict[str, Any]
Actions = list[dict[str, Any]]


def write(line: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


# The worker


class Return(Exception):
    """Ends a list of actions."""

    def __init__(self, value: Any) -> None:
        self.value = value


def resolve(value: Any, variables: Variables) -> Any:
    """Replaces variables by their values."""
    if isinstance(value, str) and value.startswith("$"):
        name, *path = value[1:].split(".")
        found = variables[name]
        for part in path:
            found = found[int(part)] if isinstance(found, list) else found[part]
        return found
    if isinstance(value, dict):
        return {key: resolve(each, variables) for key, each in value.items()}
    if isinstance(value, list):
        return [resolve(each, variables) for each in value]
    return value


class Interpreter:
    """Interprets the lists of actions of a scenario."""

    def __init__(self, gates: str | None) -> None:
        self.gates = gates

    async def run(self, ctx: Context, actions: Actions, variables: Variables) -> Any:
        """Returns the value of a list of actions."""
        try:
            for action in actions:
                if any(variables.get(name) != value for name, value in action.get("when", {}).items()):
                    continue
                value = await self.perform(ctx, action, variables)
                if "as" in action:
                    variables[action["as"]] = value
        except Return as returned:
            return returned.value
        return None

    async def perform(self, ctx: Context, action: dict[str, Any], variables: Variables) -> Any:
        do = action["do"]
        nested = ("actions", "branches")
        fields = {name: value if name in nested else resolve(value, variables) for name, value in action.items()}
        method = getattr(self, f"do_{do}")
        return await method(ctx, fields, variables)

    async def do_return(self, ctx: Context, fields: dict[str, Any], variables: Variables) -> None:
        raise Return(fields.get("value"))

    async def do_note(self, ctx: Context, fields: dict[str, Any], variables: Variables) -> None:
        note(fields, variables)

    async def do_fail(self, ctx: Context, fields: dict[str, Any], variables: Variables) -> None:
        raise failure(fields)

    async def do_step(self, ctx: Context, fields: dict[str, Any], variables: Variables) -> Any:
        async def body() -> Any:
            return await self.run(ctx, fields["actions"], {**variables, "step_key": ctx.step_key(fields["name"])})

        return await ctx.step(fields["name"], body)

    async def do_sleep(self, ctx: Context, fields: dict[str, Any], variables: Variables) -> None:
        await ctx.sleep(fields["name"], fields["ms"] / 1000)

    async def do_wait_for_signal(self, ctx: Context, fields: dict[str, Any], variables: Variables) -> Any:
        signal = await ctx.wait_for_signal(fields["name"], timeout=seconds(fields.get("timeout_ms")))
        return None if signal is None else {"payload": signal.payload, "source": signal.source}

    async def do_approval(self, ctx: Context, fields: dict[str, Any], variables: Variables) -> Any:
        def ask(person: str, waitpoint: Waitpoint) -> None:
            value = {"person": person, "waitpoint": waitpoint.id, "token": waitpoint.token}
            note({"note": "asked", "value": value}, variables)

        approval = await ctx.approval(
            fields["name"],
            of=fields["people"],
            at_least=fields["at_least"],
            timeout=seconds(fields.get("timeout_ms")),
            ask=ask,
        )
        votes = [{"person": vote.person, "approves": vote.approves, "payload": vote.payload} for vote in approval.votes]
        return {"verdict": approval.verdict, "votes": votes}

    async def do_spawn(self, ctx: Context, fields: dict[str, Any], variables: Variables) -> None:
        await ctx.spawn(fields["kind"], fields.get("input"), name=fields["name"])

    async def do_join(self, ctx: Context, fields: dict[str, Any], variables: Variables) -> Any:
        children = await ctx.join()
        return {name: {"outcome": child.outcome, "result": child.result} for name, child in children.items()}

    def branches(self, fields: dict[str, Any], variables: Variables) -> dict[str, Any]:
        def branch(actions: Actions) -> Callable[[Context], Coroutine[Any, Any, Any]]:
            return lambda ctx: self.run(ctx, actions, dict(variables))

        return {each["name"]: branch(each["actions"]) for each in fields["branches"]}

    async def do_race(self, ctx: Context, fields: dict[str, Any], variables: Variables) -> Any:
        return await ctx.race(fields["name"], self.branches(fields, variables))

    async def do_all(self, ctx: Context, fields: dict[str, Any], variables: Variables) -> Any:
        return list((await ctx.all(fields["name"], self.branches(fields, variables))).values())

    async def do_upstream(self, ctx: Context, fields: dict[str, Any], variables: Variables) -> Any:
        return await ctx.upstream.fetch(fields["node"])

    async def do_frame(self, ctx: Context, fields: dict[str, Any], variables: Variables) -> None:
        await ctx.frame(fields["data"], fields.get("kind", "event"), mode=fields.get("mode", "durable"))

    async def do_usage(self, ctx: Context, fields: dict[str, Any], variables: Variables) -> Any:
        usage = await ctx.usage(fields["budget"], dedup_key=fields.get("dedup_key"), **fields["usage"])
        return {"breached": usage.breached}

    async def do_progress(self, ctx: Context, fields: dict[str, Any], variables: Variables) -> None:
        await ctx.progress(fields["percent"], fields["message"])

    async def do_gate(self, ctx: Context, fields: dict[str, Any], variables: Variables) -> None:
        assert self.gates is not None
        path = Path(self.gates) / fields["name"]
        while not path.exists():
            await asyncio.sleep(0.01)

    async def do_block(self, ctx: Context, fields: dict[str, Any], variables: Variables) -> None:
        time.sleep(fields["ms"] / 1000)  # noqa: ASYNC251

    async def do_wait_for_cancel(self, ctx: Context, fields: dict[str, Any], variables: Variables) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await ctx.cancelled.wait()
        value = await self.run(ctx, fields.get("actions", []), variables)
        if value is not None:
            raise Return(value)
        raise asyncio.CancelledError

    async def do_slip(self, ctx: Context, fields: dict[str, Any], variables: Variables) -> None:
        order: dict[str, int] = {}
        try:
            print(order["order_id"])
        except KeyError as error:
            note({"note": "slipped", "value": traceback.format_exception_only(error)[-1].strip()}, variables)
            raise

    async def do_crash(self, ctx: Context, fields: dict[str, Any], variables: Variables) -> None:
        os._exit(137)


def note(fields: dict[str, Any], variables: Variables) -> None:
    line = {"note": fields["note"], "execution": variables["execution"], "attempt": variables["attempt"]}
    write({**line, "value": fields.get("value")})


def failure(fields: dict[str, Any]) -> Exception:
    if "retry_after_ms" in fields:
        return Retry(fields["message"], after=fields["retry_after_ms"] / 1000)
    if fields.get("class") == "permanent":
        return Permanent(fields["message"])
    return RuntimeError(fields["message"])


def seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


def run_worker(server: str, path: str) -> None:
    scenario = json.loads(Path(path).read_text())
    settings = scenario["worker"]
    worker = Worker(
        Client(server),
        name=settings["name"],
        lanes=settings["lanes"],
        capabilities=settings["capabilities"],
        concurrency=settings["concurrency"],
        lease_ttl=settings["lease_ttl_ms"] / 1000,
        drain_timeout=settings["grace_ms"] / 1000,
    )
    interpreter = Interpreter(scenario.get("gates"))
    for kind, task in scenario["tasks"].items():
        register(worker, interpreter, kind, task)
    worker.run()


def register(worker: Worker, interpreter: Interpreter, kind: str, task: Any) -> None:
    if isinstance(task, dict):

        @worker.batch_task(kind, max=task["batch"])
        async def batch(items: list[Item[Any]]) -> list[Any]:
            return [await answer(interpreter, task["actions"], item, len(items)) for item in items]

        return

    @worker.task(kind)
    async def handler(ctx: Context, input: Any) -> Any:
        variables = {"input": input, "attempt": ctx.attempt, "execution": ctx.execution_id, "key": ctx.idempotency_key}
        return await interpreter.run(ctx, task, variables)


async def answer(interpreter: Interpreter, actions: Actions, item: Item[Any], size: int) -> Any:
    variables = {"input": item.input, "attempt": item.number, "execution": item.execution_id, "batch": size}
    variables["key"] = item.idempotency_key
    context: Any = None
    try:
        return await interpreter.run(context, actions, variables)
    except Exception as error:
        return error


# The client


class Calls:
    """The calls that the harness makes."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def submit(self, number: int, fields: dict[str, Any]) -> Any:
        options = submit_options(fields)
        run = await self.client.submit(options.pop("kind"), options.pop("input", None), **options)
        return {"execution": run.id, "duplicate": run.duplicate}

    async def submit_batch(self, number: int, fields: dict[str, Any]) -> Any:
        items = [submit_options(item) for item in fields["executions"]]
        return [
            {"error": {"code": getattr(run, "code", None), "status": getattr(run, "status", None)}}
            if isinstance(run, Exception)
            else {"execution": run.id, "duplicate": run.duplicate}
            for run in await self.client.submit_batch(items)
        ]

    async def submit_flow(self, number: int, fields: dict[str, Any]) -> Any:
        flow = Flow(fields.get("name"), idempotency_key=fields.get("idempotency_key"))
        for node in fields["nodes"]:
            options = submit_options(node)
            name, kind, input = options.pop("name"), options.pop("kind"), options.pop("input", None)
            policy = options.pop("policy", None)
            if isinstance(policy, dict) and "quorum" in policy:
                policy = quorum(policy["quorum"])
            after, when = options.pop("after", ()), options.pop("when", None)
            flow.add(name, kind, input, after=after, when=when, policy=policy, **options)
        run = await self.client.submit_flow(flow)
        return {"flow": run.id, "executions": run.executions, "duplicate": run.duplicate}

    async def result(self, number: int, fields: dict[str, Any]) -> Any:
        ended = await self.client.outcome(fields["execution"], fields["timeout_ms"] / 1000)
        if ended is None:
            raise WaitTimeout
        return ended

    async def flow_result(self, number: int, fields: dict[str, Any]) -> Any:
        ended = await self.client.flow_result(fields["flow"], fields["timeout_ms"] / 1000)
        return {"outcome": ended.outcome, "results": ended.results}

    async def get(self, number: int, fields: dict[str, Any]) -> Any:
        return await self.client.get(fields["execution"])

    async def cancel(self, number: int, fields: dict[str, Any]) -> Any:
        options: Any = {"grace": fields.get("grace_ms", 0) / 1000}
        if "reason" in fields:
            options["reason"] = fields["reason"]
        return {"state": (await self.client.cancel(fields["execution"], **options))["state"]}

    async def signal(self, number: int, fields: dict[str, Any]) -> Any:
        key = fields.get("idempotency_key")
        sent = await self.client.signal(fields["execution"], fields["name"], fields.get("payload"), idempotency_key=key)
        return {"effect": sent["effect"], "duplicate": sent["duplicate"]}

    async def answer(self, number: int, fields: dict[str, Any]) -> Any:
        delivered = await self.client.waitpoints.signal(
            fields["waitpoint"], fields["token"], fields.get("payload"), name=fields.get("name")
        )
        return {"effect": delivered["effect"]}

    async def events(self, number: int, fields: dict[str, Any]) -> Any:
        left = fields["count"]
        stream = self.client.events(
            fields.get("after"), fields.get("types"), start="beginning", execution=fields.get("execution")
        )
        async with aclosing(stream) as events:
            async for event in events:
                write({"id": number, "item": event})
                left -= 1
                if left == 0:
                    return None
        return None

    async def tail(self, number: int, fields: dict[str, Any]) -> Any:
        async with aclosing(self.client.tail(fields["execution"])) as frames:
            async for frame in frames:
                write({"id": number, "item": {name: frame[name] for name in ("number", "kind", "data")}})

    async def put_budget(self, number: int, fields: dict[str, Any]) -> Any:
        return await self.client.budgets.put(fields["name"], **fields["budget"])

    async def put_schedule(self, number: int, fields: dict[str, Any]) -> Any:
        return await self.client.schedules.put(fields["name"], **fields["schedule"])

    async def run_schedule(self, number: int, fields: dict[str, Any]) -> Any:
        answer: Any = await self.client.schedules.run(fields["name"])
        return {"execution": answer["execution"]["id"]}

    async def delete_schedule(self, number: int, fields: dict[str, Any]) -> Any:
        await self.client.schedules.delete(fields["name"])
        return {"removed": True}


def submit_options(fields: dict[str, Any]) -> dict[str, Any]:
    """Translates the fields of a submission to the options of the SDK."""
    options = {name: value for name, value in fields.items() if name not in ("id", "call", "delay_ms", "retry")}
    if "delay_ms" in fields:
        options["delay"] = fields["delay_ms"] / 1000
    if "retry" in fields:
        options["retry"] = retry_policy(fields["retry"])
    return options


def retry_policy(retry: dict[str, Any]) -> RetryPolicy:
    backoff = retry.get("backoff", {})
    policy: dict[str, Any] = {
        name: retry[name] for name in ("max_retries", "retry_on", "max_interruptions") if name in retry
    }
    if backoff.get("type") == "fixed":
        policy["fixed"] = backoff["delay_ms"] / 1000
    for theirs, ours in (("initial_ms", "initial"), ("max_ms", "max_delay")):
        if theirs in backoff:
            policy[ours] = backoff[theirs] / 1000
    for name in ("multiplier", "jitter"):
        if name in backoff:
            policy[name] = backoff[name]
    return RetryPolicy(**policy)


async def run_client(server: str) -> None:
    async with Client(server) as client:
        calls = Calls(client)
        loop = asyncio.get_running_loop()
        pending: set[asyncio.Task[None]] = set()
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            task = loop.create_task(make(calls, json.loads(line)))
            pending.add(task)
            task.add_done_callback(pending.discard)
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)


async def make(calls: Calls, fields: dict[str, Any]) -> None:
    number = fields["id"]
    try:
        value = await getattr(calls, fields["call"])(number, fields)
    except Problem as problem:
        write({"id": number, "error": {"code": problem.code, "status": problem.status}})
    except (WaitTimeout, ConnectionFailed) as error:
        code = "timeout" if isinstance(error, WaitTimeout) else "connection"
        write({"id": number, "error": {"code": code, "status": None}})
    else:
        write({"id": number, "ok": value})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("role", choices=["worker", "client"])
    parser.add_argument("--server", required=True)
    parser.add_argument("--scenario")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    if arguments.role == "worker":
        run_worker(arguments.server, arguments.scenario)
    else:
        asyncio.run(run_client(arguments.server))


if __name__ == "__main__":
    main()
