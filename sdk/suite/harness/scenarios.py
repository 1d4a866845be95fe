"""Loads scenarios, and refuses unknown fields and words: a misspelt expectation would hold always."""

import json

from .matching import expand

COMMON = {"do", "as", "when"}
# The fields of each action; `actions` and `branches` hold lists of actions.
ACTIONS = {
    "all": {"name", "branches"},
    "approval": {"name", "people", "at_least", "timeout_ms"},
    "block": {"ms"},
    "crash": set(),
    "fail": {"message", "class", "retry_after_ms"},
    "frame": {"data", "kind", "mode"},
    "gate": {"name"},
    "join": set(),
    "note": {"note", "value"},
    "progress": {"percent", "message"},
    "race": {"name", "branches"},
    "return": {"value"},
    "sleep": {"name", "ms"},
    "slip": set(),
    "spawn": {"name", "kind", "input"},
    "step": {"name", "actions"},
    "upstream": {"node"},
    "usage": {"budget", "usage", "dedup_key"},
    "wait_for_cancel": {"actions"},
    "wait_for_signal": {"name", "timeout_ms"},
}
SUBMISSION = {"kind", "input", "lane", "idempotency_key", "tags", "delay_ms", "retry", "budgets", "capabilities"}
CALLS = {
    "answer": {"waitpoint", "token", "name", "payload"},
    "cancel": {"execution", "reason", "grace_ms"},
    "delete_schedule": {"name"},
    "events": {"types", "after", "execution", "count"},
    "flow_result": {"flow", "timeout_ms"},
    "get": {"execution"},
    "put_budget": {"name", "budget"},
    "put_schedule": {"name", "schedule"},
    "result": {"execution", "timeout_ms"},
    "run_schedule": {"name"},
    "signal": {"execution", "name", "payload", "idempotency_key"},
    "submit": SUBMISSION,
    "submit_batch": {"executions"},
    "submit_flow": {"name", "nodes", "idempotency_key"},
    "tail": {"execution"},
}
NODE = {"name", "kind", "input", "delay_ms", "after", "when", "policy"}
OPERATIONS = {
    "await": {"call", "expect", "as"},
    "cut": {"path"},
    "drain": {"worker"},
    "exited": {"worker", "code"},
    "fault": {"method", "path", "kind", "skip", "every", "times", "problem"},
    "freeze": {"worker"},
    "http": {"method", "path", "body", "until", "expect", "as"},
    "items": {"call", "count", "expect", "as"},
    "kill": {"worker"},
    "kill_at_random": {"worker", "times", "within_ms"},
    "notes": {"note", "like", "count", "expect", "as"},
    "open": {"gate"},
    "requests": {"path", "count"},
    "server": {"action"},
    "thaw": {"worker"},
    "worker": {"name", "settings", "supervised"},
}
EXPECTATIONS = [
    {"notes"},
    {"value", "is"},
    {"path", "is"},
    {"log", "lines"},
    {"requests", "method", "count"},
    {"requests", "method", "pause_ms"},
]


def load(path):
    """Reads a scenario. Raises an error that names the place of an unknown word."""
    scenario = expand(json.loads(path.read_text()))
    try:
        _only(scenario, {"description", "worker", "tasks", "script", "expect"}, "scenario")
        for kind, task in scenario["tasks"].items():
            _check_actions(task if isinstance(task, list) else task["actions"], kind)
        for index, operation in enumerate(scenario["script"]):
            _check_operation(operation, f"script {index}")
        for index, expectation in enumerate(scenario["expect"]):
            if not any(set(expectation) <= fields for fields in EXPECTATIONS):
                raise ValueError(f"expect {index}: no kind of expectation has these fields")
        if not scenario["expect"]:
            raise ValueError("expect: a scenario without an expectation proves nothing")
    except (KeyError, ValueError) as error:
        raise ValueError(f"{path.name}: {error}") from error
    return scenario


def _check_actions(actions, where):
    for index, action in enumerate(actions):
        place = f"{where} {index}"
        _only(action, COMMON | _fields(ACTIONS, action["do"], place), place)
        for branch in action.get("branches", []):
            _check_actions(branch["actions"], f"{place} {branch['name']}")
        _check_actions(action.get("actions", []), place)


def _check_operation(operation, where):
    if operation["do"] != "call":
        return _only(operation, {"do"} | _fields(OPERATIONS, operation["do"], where), where)
    _only(operation, {"do", "call", "expect", "as", "background"} | _fields(CALLS, operation["call"], where), where)
    for submission in operation.get("executions", []):
        _only(submission, SUBMISSION, where)
    for node in operation.get("nodes", []):
        _only(node, NODE, where)
    return None


def _fields(table, word, where):
    if word not in table:
        raise ValueError(f"{where}: there is no {word!r}")
    return table[word]


def _only(value, fields, where):
    if unknown := set(value) - fields:
        raise ValueError(f"{where}: unknown field {', '.join(sorted(unknown))}")
