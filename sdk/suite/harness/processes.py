"""Processes of a scenario: their lines, their logs, and the adapter as worker and as client."""

import asyncio
import json
import signal

LINE_LIMIT = 1 << 26
LOGGED = 1000
# Most processes of a supervised worker. An adapter that cannot start must not be started for ever.
STARTS = 20


class Process:
    """A process whose lines of standard output go to a function, and whose standard error to a log."""

    @classmethod
    async def start(cls, name, command, on_line, log, stdin=asyncio.subprocess.DEVNULL):
        """Starts the process."""
        self = cls()
        self.name, self.log = name, log
        pipe = asyncio.subprocess.PIPE
        self.child = await asyncio.create_subprocess_exec(
            *command, stdin=stdin, stdout=pipe, stderr=pipe, limit=LINE_LIMIT
        )
        log.append(f"process {self.child.pid}: {' '.join(command)}")
        readers = self._read(self.child.stdout, on_line), self._read(self.child.stderr, log.append)
        self._ended = asyncio.ensure_future(self._end(*readers))
        return self

    async def _end(self, *readers):
        await asyncio.gather(*readers)
        code = await self.child.wait()
        self.log.append(f"process {self.child.pid} ended with {code}")
        return code

    async def _read(self, stream, on_line):
        while line := await stream.readline():
            text = line.decode(errors="replace").rstrip("\n")
            try:
                on_line(text)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                self.log.append(f"the harness cannot use this line: {error!r}: {text[:LOGGED]}")

    def signal(self, number):
        """Sends a signal. A process that has ended ignores it."""
        if self.child.returncode is None:
            self.child.send_signal(number)

    async def wait(self):
        """Waits for the end of the process and of its output. Returns the exit code."""
        return await asyncio.shield(self._ended)


class Worker:
    """A worker of the adapter. A supervised one is started again whenever it ends with another code than 0."""

    def __init__(self, name, command, notes, changes):
        self.name, self.command, self.notes, self.changes = name, command, notes, changes
        self.log = []
        self.exit_code = None
        self.starts = 0
        self._process = None
        self._watcher = None
        self._stopping = False

    async def start(self, supervised):
        """Starts the process, and with `supervised` every successor."""
        await self._start_process()
        self._watcher = asyncio.ensure_future(self._watch(supervised))

    async def _start_process(self):
        self._process = await Process.start(self.name, self.command, self._on_line, self.log)
        self.starts += 1
        self.changes.notify()

    async def _watch(self, supervised):
        while True:
            code = await self._process.wait()
            if not supervised or self._stopping or code == 0 or self.starts == STARTS:
                break
            await self._start_process()
            if self._stopping:
                # `end` was called while the successor was being started, and signalled its predecessor.
                self.signal(signal.SIGKILL)
        self.exit_code = code
        self.changes.notify()

    def _on_line(self, line):
        note = json.loads(line)
        self.log.append(f"< {line[:LOGGED]}")
        self.notes.append({"note": note["note"], **note, "worker": self.name, "start": self.starts})
        self.changes.notify()

    def signal(self, number):
        """Sends a signal to the current process."""
        self._process.signal(number)

    async def replace(self):
        """Kills the process of a supervised worker, and waits until its successor has started."""
        began = self.starts
        self.signal(signal.SIGKILL)
        await self.changes.until(lambda: self.starts > began, lambda: f"the successor of {self.name}")

    async def end(self):
        """Kills the worker, and reads its output to the end."""
        self._stopping = True
        if self._watcher:
            self.signal(signal.SIGKILL)
            await self._watcher


class Call:
    """A call of the client that is under way."""

    def __init__(self):
        self.answer = None
        self.items = []


class Client:
    """The client of the adapter."""

    def __init__(self, command, changes):
        self.command, self.changes = command, changes
        self.log = []
        self._process = None
        self._calls = {}
        self._end = None  # the answer to every call once the process has ended

    async def start(self):
        """Starts the process."""
        pipe = asyncio.subprocess.PIPE
        self._process = await Process.start("client", self.command, self._on_line, self.log, stdin=pipe)
        self._watcher = asyncio.ensure_future(self._watch())

    async def _watch(self):
        code = await self._process.wait()
        self._end = {"error": {"code": f"the client ended with {code}", "status": None}}
        for call in self._calls.values():
            call.answer = call.answer or self._end
        self.changes.notify()

    def call(self, fields):
        """Sends a call. Returns it at once; its answer and its items come later."""
        number = len(self._calls) + 1
        call = self._calls[number] = Call()
        line = json.dumps({"id": number, **fields})
        self.log.append(f"> {line[:LOGGED]}")
        if self._end:
            call.answer = self._end
        else:
            self._process.child.stdin.write(line.encode() + b"\n")
        return call

    def _on_line(self, line):
        self.log.append(f"< {line[:LOGGED]}")
        answer = json.loads(line)
        call = self._calls[answer["id"]]
        if "item" in answer:
            call.items.append(answer["item"])
        else:
            call.answer = call.answer or answer
        self.changes.notify()

    async def end(self):
        """Kills the client. Its calls have been answered, or are not wanted any more."""
        self._process.signal(signal.SIGKILL)
        await self._watcher
