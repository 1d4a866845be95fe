"""Values of a scenario: variables are replaced in scripts, and answers are compared with expectations.

An expectation is a JSON value. An object matches an object that has at least its fields; a list and a scalar match only
an equal value. An object whose only field begins with `$` is an operator, see OPERATORS.
"""

import json
import re

VARIABLE = re.compile(r"\$([a-z_]+(?:\.[A-Za-z0-9_-]+)*)")
SHOWN = 300


class Mismatch(Exception):
    """An expectation does not hold."""


def expand(value):
    """Replaces {"$repeat": [TEXT, TIMES]} by a long text and {"$times": [VALUE, TIMES]} by a long list."""
    if isinstance(value, dict):
        if list(value) == ["$repeat"]:
            text, times = value["$repeat"]
            return text * times
        if list(value) == ["$times"]:
            item, times = value["$times"]
            return [item] * times
        return {name: expand(item) for name, item in value.items()}
    return [expand(item) for item in value] if isinstance(value, list) else value


def resolve(value, variables):
    """Replaces variables. A string that is one variable becomes its value; within a longer one its text is inserted."""
    if isinstance(value, dict):
        return {name: resolve(item, variables) for name, item in value.items()}
    if isinstance(value, list):
        return [resolve(item, variables) for item in value]
    if not isinstance(value, str):
        return value
    whole = VARIABLE.fullmatch(value)
    if whole:
        return look_up(whole.group(1), variables)
    return VARIABLE.sub(lambda found: str(look_up(found.group(1), variables)), value)


def look_up(path, variables):
    """Returns the value at a dotted path. A number is the index of a list."""
    value = variables
    for name in path.split("."):
        try:
            value = value[int(name)] if isinstance(value, list) else value[name]
        except (KeyError, IndexError, TypeError, ValueError):
            raise Mismatch(f"${path}: there is no {name!r} in {shown(value)}") from None
    return value


def check(expected, actual, where):
    """Raises a mismatch that names the place unless the value is as expected."""
    if isinstance(expected, dict) and len(expected) == 1 and next(iter(expected)) in OPERATORS:
        name, argument = next(iter(expected.items()))
        OPERATORS[name](argument, actual, where)
    elif isinstance(expected, dict) and isinstance(actual, dict):
        for name, item in expected.items():
            if name not in actual:
                raise Mismatch(f"{where}: there is no {name!r} in {shown(actual)}")
            check(item, actual[name], f"{where}.{name}")
    elif isinstance(expected, list) and isinstance(actual, list):
        if len(expected) != len(actual):
            raise Mismatch(f"{where}: expected {len(expected)} items, found {len(actual)}: {shown(actual)}")
        for index, (item, found) in enumerate(zip(expected, actual, strict=True)):
            check(item, found, f"{where}.{index}")
    # In Python True equals 1; in JSON it does not.
    elif expected != actual or isinstance(expected, bool) != isinstance(actual, bool):
        raise Mismatch(f"{where}: expected {shown(expected)}, found {shown(actual)}")


def matches(expected, actual):
    """Returns true if the value is as expected."""
    try:
        check(expected, actual, "")
    except Mismatch:
        return False
    return True


def shown(value):
    """Returns a value as JSON, shortened for a message."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}… ({len(text)} characters)"


def _claim(holds, actual, where, what):
    if not holds:
        raise Mismatch(f"{where}: expected {what}, found {shown(actual)}")


def _unordered(expected, actual, where):
    _claim(isinstance(actual, list) and len(actual) == len(expected), actual, where, f"{len(expected)} items")
    rest = list(actual)
    for item in expected:
        found = next((index for index, other in enumerate(rest) if matches(item, other)), None)
        _claim(found is not None, actual, where, f"an item like {shown(item)}")
        del rest[found]


def _contains(expected, actual, where):
    held = expected in actual if isinstance(actual, str) else any(matches(expected, item) for item in actual)
    _claim(held, actual, where, f"something that contains {shown(expected)}")


OPERATORS = {
    "$at_least": lambda least, actual, where: _claim(actual >= least, actual, where, f"at least {least}"),
    "$at_most": lambda most, actual, where: _claim(actual <= most, actual, where, f"at most {most}"),
    "$length": lambda length, actual, where: check(length, len(actual), f"{where}.length"),
    "$not": lambda other, actual, where: _claim(not matches(other, actual), actual, where, f"not {shown(other)}"),
    "$unordered": _unordered,
    "$contains": _contains,
}
