"""The expectations of a scenario, checked when its script has ended and its workers have been killed.

| expectation | holds if |
| --- | --- |
| `{"notes": {NAME: COUNT}}` | the workers wrote each note exactly that often |
| `{"value": VALUE, "is": …}` | a value, usually a variable, is as described |
| `{"path": PATH, "is": …}` | the server's answer to a GET is as described |
| `{"log": WORKER, "lines": […]}` | for each item a line of the worker's standard error contains all its texts |
| `{"requests": PATH, "method": …, "count": …}` | that many requests went through the proxy |
| `{"requests": PATH, "method": …, "pause_ms": N}` | the request after a fault came at least N ms later |
"""

import re
from itertools import pairwise

from . import wire
from .matching import Mismatch, check, resolve


async def check_all(script):
    """Raises a mismatch for the first expectation that does not hold."""
    for index, expectation in enumerate(script.scenario["expect"]):
        where = f"expect {index}"
        expectation = resolve(expectation, script.variables)
        if "notes" in expectation:
            _check_notes(expectation["notes"], script.notes, where)
        elif "path" in expectation:
            _, answer = await wire.request(script.server.url, "GET", expectation["path"])
            check(expectation["is"], answer, f"{where}: {expectation['path']}")
        elif "log" in expectation:
            _check_log(expectation["lines"], script.workers[expectation["log"]].log, where)
        elif "requests" in expectation:
            _check_requests(expectation, script.proxy.requests, where)
        else:
            check(expectation["is"], expectation["value"], where)


def _check_notes(expected, notes, where):
    for name, count in expected.items():
        found = [note for note in notes if note["note"] == name]
        check(count, len(found), f"{where}: notes {name!r}")


def _check_log(expected, log, where):
    # The notes of the worker are in its log, too.
    lines = [line for line in log if not line.startswith("< ")]
    for texts in expected:
        if not any(all(text in line for text in texts) for line in lines):
            raise Mismatch(f"{where}: no line of the log contains {', '.join(map(repr, texts))}")


def _check_requests(expectation, requests, where):
    path, method = re.compile(expectation["requests"]), expectation.get("method")
    found = [request for request in requests if path.search(request.path) and method in (None, request.method)]
    if "count" in expectation:
        check(expectation["count"], len(found), f"{where}: requests of {path.pattern}")
    if "pause_ms" in expectation:
        pairs = [(request, after) for request, after in pairwise(found) if request.fault == "answer"]
        if not pairs:
            raise Mismatch(f"{where}: no request of {path.pattern} followed an answer with a fault")
        for request, after in pairs:
            pause = round((after.began - request.ended) * 1000)
            check({"$at_least": expectation["pause_ms"]}, pause, f"{where}: pause before {path.pattern}")
