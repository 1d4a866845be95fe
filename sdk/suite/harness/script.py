"""The script of a scenario: each operation is a method whose name begins with `do_`.

Operations wait for conditions: an answer, a note, an exit. The checks at the end are in `expectations`.
"""

import asyncio
import json
import random
import re
import shlex
import signal
from pathlib import Path

from . import wire
from .matching import Mismatch, check, matches, resolve, shown
from .processes import Client, Worker
from .proxy import Fault
from .waiting import LIMIT, LOOK, Changes, Late

SETTINGS = {
    "name": "suite",
    "lanes": ["default"],
    "capabilities": [],
    "concurrency": 4,
    "lease_ttl_ms": 3000,
    "grace_ms": 5000,
}


class Script:
    """The state of a running scenario: its processes, its variables and what they have written."""

    def __init__(self, scenario, adapter, server, proxy, directory, seed):
        self.scenario, self.server, self.proxy = scenario, server, proxy
        self.adapter = shlex.split(adapter)
        self.directory = Path(directory)
        self.gates = self.directory / "gates"
        self.gates.mkdir()
        self.random = random.Random(seed)
        self.changes: Changes = proxy.changes
        self.variables, self.notes, self.workers, self.calls = {}, [], {}, {}
        self.client = Client([*self.adapter, "client", "--server", proxy.url], self.changes)

    async def run(self):
        """Runs the operations in order. Afterwards nothing but the server is running."""
        await self.client.start()
        try:
            for index, operation in enumerate(self.scenario["script"]):
                try:
                    await getattr(self, f"do_{operation['do']}")(operation)
                except (Mismatch, Late, OSError) as error:
                    raise Mismatch(f"script {index} ({operation['do']}): {error}{self._dead()}") from error
        finally:
            await asyncio.gather(self.client.end(), *(worker.end() for worker in self.workers.values()))

    def _dead(self):
        dead = [worker for worker in self.workers.values() if worker.exit_code is not None]
        return "".join(f"; {worker.name} has ended with {worker.exit_code}" for worker in dead)

    def fields(self, operation, *names):
        """Returns the given fields of an operation with their variables replaced."""
        return [resolve(operation.get(name), self.variables) for name in names]

    def settle(self, operation, value, where):
        """Checks the value of an operation, and binds it."""
        if "expect" in operation:
            check(resolve(operation["expect"], self.variables), value, where)
        if "as" in operation:
            self.variables[operation["as"]] = value

    # Workers

    async def do_worker(self, operation):
        """Starts a worker."""
        name = operation.get("name", "worker")
        settings = {**SETTINGS, **self.scenario.get("worker", {}), **operation.get("settings", {})}
        path = self.directory / f"{name}.json"
        path.write_text(json.dumps({"worker": settings, "tasks": self.scenario["tasks"], "gates": str(self.gates)}))
        command = [*self.adapter, "worker", "--server", self.proxy.url, "--scenario", str(path)]
        worker = self.workers[name] = Worker(name, command, self.notes, self.changes)
        await worker.start(operation.get("supervised", False))

    async def do_kill(self, operation):
        """Kills a worker with SIGKILL."""
        await self._worker(operation).end()

    async def do_drain(self, operation):
        """Asks a worker to drain with SIGTERM."""
        self._worker(operation).signal(signal.SIGTERM)

    async def do_freeze(self, operation):
        """Stops a worker's process without ending it."""
        self._worker(operation).signal(signal.SIGSTOP)

    async def do_thaw(self, operation):
        """Continues a frozen worker."""
        self._worker(operation).signal(signal.SIGCONT)

    async def do_exited(self, operation):
        """Waits until a worker has ended with this exit code."""
        worker = self._worker(operation)
        await self.changes.until(lambda: worker.exit_code is not None, lambda: f"the end of {worker.name}")
        check(operation["code"], worker.exit_code, "exit code")

    async def do_kill_at_random(self, operation):
        """Kills a supervised worker several times, each time at a random moment after its process began to work."""
        worker = self._worker(operation)

        def works():
            return any(note["worker"] == worker.name and note["start"] == worker.starts for note in self.notes)

        for _ in range(operation["times"]):
            await self.changes.until(works, lambda: f"a note of process {worker.starts} of {worker.name}")
            await asyncio.sleep(self.random.uniform(0, operation["within_ms"] / 1000))
            await worker.replace()

    def _worker(self, operation):
        return self.workers[operation.get("worker", "worker")]

    # Server and proxy

    async def do_server(self, operation):
        """Kills, stops or starts the server."""
        if operation["action"] == "start":
            return await self.server.start()
        return await self.server.stop(kill=operation["action"] == "kill")

    async def do_fault(self, operation):
        """Injects a fault into the next requests that match."""
        fault = Fault(
            method=operation.get("method"),
            path=re.compile(operation["path"]),
            kind=operation["kind"],
            skip=operation.get("skip", 0),
            every=operation.get("every", 1),
            times=operation.get("times", 1),
            problem=operation.get("problem"),
        )
        self.proxy.faults.append(fault)

    async def do_cut(self, operation):
        """Waits until a request that matches is under way, and cuts its connection."""
        path = re.compile(operation["path"])
        await self.changes.until(lambda: self.proxy.cut(path), lambda: f"a request of {operation['path']}")

    async def do_requests(self, operation):
        """Waits until the proxy has seen this many requests."""
        path = re.compile(operation["path"])

        def enough():
            return sum(1 for request in self.proxy.requests if path.search(request.path)) >= operation["count"]

        await self.changes.until(enough, lambda: f"{operation['count']} requests of {operation['path']}")

    async def do_http(self, operation):
        """Calls the server directly. With `until` the call is repeated until its body is as described."""
        path, body, until = self.fields(operation, "path", "body", "until")
        method = operation.get("method", "GET")
        deadline = asyncio.get_running_loop().time() + LIMIT
        while True:
            status, answer = await wire.request(self.server.url, method, path, body)
            if until is None or matches(until, answer):
                break
            if asyncio.get_running_loop().time() > deadline:
                raise Late(f"waited {LIMIT} s for {shown(until)} at {path}, found {shown(answer)}")
            await asyncio.sleep(LOOK)
        if status >= 400 and "expect" not in operation:
            raise Mismatch(f"{method} {path}: {status} {shown(answer)}")
        self.settle(operation, answer, path)

    # Client, notes, gates

    async def do_call(self, operation):
        """Makes a call with the client. With `background` the script goes on; `await` has its answer."""
        fields = {name: value for name, value in operation.items() if name not in ("do", "as", "expect", "background")}
        call = self.client.call(resolve(fields, self.variables))
        if "background" in operation:
            self.calls[operation["background"]] = call
        else:
            await self._answer(operation, call, operation["call"])

    async def do_await(self, operation):
        """Waits for the answer of a call in the background. `items` becomes part of the answer."""
        await self._answer(operation, self.calls[operation["call"]], operation["call"])

    async def _answer(self, operation, call, name):
        answer = await self.changes.until(lambda: call.answer, lambda: f"the answer of {name}")
        if "error" in answer and "error" not in operation.get("expect", {}):
            raise Mismatch(f"{name}: {shown(answer['error'])}")
        value = {"error": answer["error"]} if "error" in answer else answer["ok"]
        self.settle(operation, {"items": call.items} if call.items else value, name)

    async def do_items(self, operation):
        """Waits until a call in the background has this many items."""
        call = self.calls[operation["call"]]
        enough = operation["count"]
        await self.changes.until(
            lambda: len(call.items) >= enough or call.answer, lambda: f"{enough} items, found {len(call.items)}"
        )
        check({"$at_least": enough}, len(call.items), "items")
        self.settle(operation, call.items, "items")

    async def do_notes(self, operation):
        """Waits until this many notes match, in the order in which they were written."""
        (pattern,) = self.fields(operation, "like")
        pattern = {"note": operation["note"], **(pattern or {})}
        count = operation.get("count", 1)

        def found():
            notes = [note for note in self.notes if matches(pattern, note)]
            return notes if len(notes) >= count else None

        notes = await self.changes.until(found, lambda: f"{count} notes like {shown(pattern)}")
        self.settle(operation, notes, "notes")

    async def do_open(self, operation):
        """Opens a gate."""
        (self.gates / operation["gate"]).touch()
