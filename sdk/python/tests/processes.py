"""Worker processes that a test kills, and that are started again under the same instance."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

FOLDERS = [Path(__file__).parent, Path(__file__).parent.parent / "examples"]


def environment(server: str, **more: str) -> dict[str, str]:
    folders = os.pathsep.join(map(str, FOLDERS))
    return {**os.environ, "SELVEDGE_SERVER": server, "PYTHONPATH": folders, **more}


class Supervised:
    """Runs `module.worker.run()` in a process, again whenever it dies."""

    def __init__(self, module: str, server: str, instance: str, **more: str) -> None:
        self._command = [sys.executable, "-c", f"import {module}; {module}.worker.run()"]
        self._environment = environment(server, SELVEDGE_INSTANCE=instance, **more)
        # Held while a process is started or killed, so that `stop` never misses a successor that is being started.
        self._lock = threading.Lock()
        self._stopped = False
        self.starts = 0
        self._process = self._start()
        self._thread = threading.Thread(target=self._supervise, daemon=True)
        self._thread.start()

    def _start(self) -> subprocess.Popen[bytes]:
        self.starts += 1
        return subprocess.Popen(self._command, env=self._environment)

    def _supervise(self) -> None:
        while True:
            self._process.wait()
            with self._lock:
                if self._stopped:
                    return
                self._process = self._start()

    def kill(self) -> None:
        """Ends the process as a crash does."""
        with self._lock:
            self._process.kill()

    def freeze(self) -> None:
        """Suspends the process. Only `kill` ends that."""
        with self._lock:
            self._process.send_signal(signal.SIGSTOP)

    def stop(self) -> None:
        """Ends the process for good."""
        with self._lock:
            self._stopped = True
            self._process.kill()
        self._thread.join()


@contextlib.contextmanager
def supervised(module: str, server: str, instance: str, **more: str) -> Iterator[Supervised]:
    process = Supervised(module, server, instance, **more)
    try:
        yield process
    finally:
        process.stop()
