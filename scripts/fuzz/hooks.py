"""Makes the random requests of schemathesis reach existing things, and counts the requests.

- Replaces two of three random ids with ids of executions, flows and waitpoints in various states. Random ids do not exist.
- Shortens waits to a few milliseconds.
- Replaces a random namespace in the header with the one that exists.
- Leaves out requests with an empty parameter, which counts as absent; a schema cannot express that.
"""
import atexit
import json
import os
import urllib.request
import zlib

import schemathesis

URL = os.environ["FUZZ_URL"]
count = 0


def call(method, path, body):
    data = json.dumps(body).encode()
    request = urllib.request.Request(URL + path, data, {"content-type": "application/json"}, method=method)
    with urllib.request.urlopen(request) as response:
        return json.load(response)


def prepare():
    """Creates executions, flows and waitpoints in various states. Returns their ids by resource."""
    ids = {"executions": [], "flows": [], "waitpoints": []}
    # Earlier random requests know neither this lane nor this worker.
    own = f"prepared-{os.getpid()}"
    for number in range(4):
        flow = {"defaults": {"kind": "k", "lane": own}, "nodes": [{"name": "a"}, {"name": "b"}], "edges": [{"from": "a", "to": "b"}]}
        flow = call("POST", "/v1/flows", flow)
        ids["flows"].append(flow["flow"]["id"])
        ids["executions"].extend(flow["executions"].values())
        ids["executions"].append(call("POST", "/v1/executions", {"kind": "k", "lane": own, "input": number})["execution"]["id"])
    call("PUT", "/v1/lanes/lane", {"concurrency": 100})
    call("PUT", "/v1/quotas/quota", {"concurrency": 100})
    call("PUT", "/v1/budgets/budget", {"limits": {"tokens": {"hard": 1000}}})
    call("PUT", "/v1/schedules/schedule", {"interval_ms": 3600000, "submit": {"execution": {"kind": "k"}}})
    claims = call("POST", f"/v1/workers/{own}/claim", {"worker": "w", "lanes": [own], "max": 6})["claims"]
    ends = [
        {"op": "complete", "result": {"a": 1}},
        {"op": "fail", "message": "m", "class": "permanent"},
        {"op": "suspend", "condition": {"signal": "s"}, "waitpoints": ["s", "t"]},
        {"op": "suspend", "condition": {"operator": True}, "waitpoints": [{"name": "u", "signals": ["yes", "no"]}]},
        {"op": "frame", "kind": "stdout", "data": "x"},
        {"op": "step", "name": "first", "result": 1},
    ]
    ops = []
    for claim, end in zip(claims, ends):
        fence = {"execution": claim["execution"]["id"], "attempt": claim["attempt"]}
        ops.append({**end, **fence, "lease_id": claim["lease"]["id"], "epoch": claim["lease"]["epoch"]})
    for result in call("POST", f"/v1/workers/{own}/report", {"ops": ops})["results"]:
        ids["waitpoints"].extend(waitpoint["id"] for waitpoint in result.get("waitpoints", []))
    return ids


IDS = prepare()
NAMES = {"lanes": "lane", "quotas": "quota", "budgets": "budget", "schedules": "schedule"}


def pick(text):
    """Returns a number that depends on the text alone, so that a seed always makes the same requests."""
    return zlib.crc32(str(text).encode(errors="replace"))


def shorten_waits(value):
    if isinstance(value, dict):
        for name, inner in value.items():
            if name == "wait_ms" and isinstance(inner, int) and inner > 5:
                value[name] = inner % 5 if inner <= 60_000 else inner
            else:
                shorten_waits(inner)
    elif isinstance(value, list):
        for inner in value:
            shorten_waits(inner)


def is_empty(value):
    """Reports whether a parameter has no text: lists and objects are written as their values."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return all(is_empty(inner) for inner in value)
    return value is None or str(value) == ""


@schemathesis.hook
def filter_case(context, case):
    return not any(is_empty(value) for value in (case.query or {}).values())


@schemathesis.hook
def before_call(context, case, **kwargs):
    global count
    count += 1
    parts = case.path.split("/")
    resource = parts[2] if len(parts) > 2 else ""
    parameters = case.path_parameters or {}
    if "id" in parameters and resource in IDS and pick(parameters["id"]) % 3:
        ids = IDS[resource]
        parameters["id"] = ids[pick(parameters["id"]) % len(ids)]
    if "name" in parameters and resource in NAMES and pick(parameters["name"]) % 3:
        parameters["name"] = NAMES[resource]
    if case.headers and "Selvedge-Namespace" in case.headers:
        case.headers["Selvedge-Namespace"] = "default"
    if case.query:
        wait = str(case.query.get("wait_ms", ""))
        if wait.isdigit() and 5 < int(wait) <= 60_000:
            case.query["wait_ms"] = int(wait) % 5
    shorten_waits(case.body)


@atexit.register
def write_count():
    with open(os.environ["FUZZ_COUNT"], "w") as file:
        file.write(str(count))
