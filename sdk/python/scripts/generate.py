"""Writes the generated parts of the SDK.

- `src/selvedge/types.py`: the documents of the HTTP API as `TypedDict`s, from `sdk/openapi.json`;
- `src/selvedge/sync/`: the synchronous client, from the asynchronous one in `src/selvedge/client/`.

A test fails if generating again changes a file.
"""

from __future__ import annotations

import json
import keyword
import re
import sys
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).parent.parent / "src" / "selvedge"
DOCUMENT = Path(__file__).parent.parent.parent / "openapi.json"

Schema = dict[str, Any]

HEADER = '''"""The documents of the HTTP API. Generated from sdk/openapi.json by scripts/generate.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypedDict, Union

if TYPE_CHECKING:
    from typing_extensions import NotRequired, TypeAlias
'''


def pascal(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in re.split(r"[^A-Za-z0-9]+", name))


class Types:
    """Collects a named type for every object of the document."""

    def __init__(self) -> None:
        self.definitions: dict[str, str] = {}
        self.names: dict[str, str] = {}

    def define(self, name: str, schema: Schema) -> None:
        """Defines a shape of the document under its own name."""
        if is_object(schema):
            self.add_object(name, schema)
        else:
            self.definitions[name] = f'{name}: TypeAlias = "{self.of(schema, name)}"'

    def of(self, schema: Schema, name: str) -> str:
        """Returns the type of a schema. An object without a name gets this one."""
        if "$ref" in schema:
            return pascal(str(schema["$ref"]).rsplit("/", 1)[1])
        if "const" in schema:
            return f"Literal[{schema['const']!r}]"
        if "enum" in schema:
            return f"Literal[{', '.join(repr(word) for word in schema['enum'])}]"
        if is_object(schema):
            found = self.object_name(name, schema)
            return union([found, "None"]) if "null" in words(schema) else found
        for key in ("oneOf", "anyOf"):
            parts = [part for part in schema.get(key, []) if set(part) != {"required"}]
            if parts:
                several = sum(is_object(part) for part in parts) > 1
                names = [f"{name}{number}" if several else name for number in range(1, len(parts) + 1)]
                return union([self.of(part, name) for part, name in zip(parts, names, strict=True)])
        return union([self.word(word, schema, name) for word in words(schema)]) if words(schema) else "Any"

    def word(self, word: str, schema: Schema, name: str) -> str:
        match word:
            case "string":
                return "str"
            case "integer":
                return "int"
            case "number":
                return "float"
            case "boolean":
                return "bool"
            case "null":
                return "None"
            case "array":
                return f"list[{self.of(schema.get('items', {}), name + 'Item')}]"
            case "object":
                values = schema.get("additionalProperties", {})
                return f"dict[str, {self.of(values, name + 'Value') if values else 'Any'}]"
        raise ValueError(f"{name} has the unknown type {word}")

    def object_name(self, name: str, schema: Schema) -> str:
        """Returns the name of an object's type: the first one that was given to an equal object."""
        content = {key: value for key, value in schema.items() if key not in ("description", "type", "default")}
        text = json.dumps(content, sort_keys=True)
        if text not in self.names:
            while name in self.definitions:
                name += "_"
            self.names[text] = name
            self.add_object(name, schema)
        return self.names[text]

    def add_object(self, name: str, schema: Schema) -> None:
        self.definitions[name] = ""  # reserves the name and its place
        required = set(schema.get("required", []))
        fields = {}
        for field, value in schema["properties"].items():
            found = self.of(value, name + pascal(field))
            fields[field] = found if field in required else f"NotRequired[{found}]"
        if any(keyword.iskeyword(field) for field in fields):
            lines = [f'    "{field}": "{found}",' for field, found in fields.items()]
            self.definitions[name] = "\n".join([f'{name} = TypedDict("{name}", {{', *lines, "})"])
        else:
            lines = [f"    {field}: {found}" for field, found in fields.items()] or ["    pass"]
            self.definitions[name] = "\n".join([f"class {name}(TypedDict):", *lines])


def words(schema: Schema) -> list[str]:
    found = schema.get("type", [])
    return [found] if isinstance(found, str) else list(found)


def is_object(schema: Schema) -> bool:
    return "properties" in schema and "object" in words(schema)


def union(parts: list[str]) -> str:
    unique = list(dict.fromkeys(parts))
    return unique[0] if len(unique) == 1 else f"Union[{', '.join(unique)}]"


def operations(document: Schema) -> list[tuple[str, Schema]]:
    """Returns every operation with its id; those that get one thing first, because they name it best."""
    found = [
        (str(operation["operationId"]), operation)
        for path in document["paths"].values()
        for method, operation in path.items()
        if method != "parameters"
    ]
    return sorted(found, key=lambda item: (not item[0].startswith("get_"), item[0]))


def generate_types(document: Schema) -> str:
    types = Types()
    for name, schema in sorted(document["components"]["schemas"].items()):
        types.define(pascal(name), schema)
    for name, operation in operations(document):
        for status, answer in operation["responses"].items():
            schema = answer.get("content", {}).get("application/json", {}).get("schema")
            if status.startswith("2") and schema:
                subject = pascal(name.removeprefix("get_"))
                subject = subject if name.startswith("get_") else subject + "Answer"
                found = types.of(schema, subject)
                if is_object(schema) and found != subject:
                    types.definitions[subject] = f'{subject}: TypeAlias = "{found}"'
    return "\n\n\n".join([HEADER.rstrip(), *types.definitions.values()]) + "\n"


REPLACEMENTS = [
    (r"\[item async for item in (.*)\]", r"list(\1)"),
    (r"\basync def\b", "def"),
    (r"\basync with\b", "with"),
    (r"\basync for\b", "for"),
    (r"\bawait ", ""),
    (r"\bAsyncIterator\b", "Iterator"),
    (r"\bAsyncGenerator\[([^\[\]]*(?:\[[^\[\]]*\])?), None\]", r"Generator[\1, None, None]"),
    (r"\bAsyncGenerator\b", "Generator"),
    (r"\b__aenter__\b", "__enter__"),
    (r"\b__aexit__\b", "__exit__"),
    (r"\b__aiter__\b", "__iter__"),
    (r"\b__anext__\b", "__next__"),
    (r"\bStopAsyncIteration\b", "StopIteration"),
    (r"\bAsyncClient\b", "Client"),
    (r"\bAsyncHTTPTransport\b", "HTTPTransport"),
    (r"\baclosing\b", "closing"),
    (r"\basynccontextmanager\b", "contextmanager"),
    (r"\bAsyncPool\b", "Pool"),
    (r"\baclose\b", "close"),
    (r"\baiter_lines\b", "iter_lines"),
    (r"\baread\b", "read"),
    (r"\basyncio\.sleep\b", "time.sleep"),
    (r"^import asyncio$", "import time"),
    (r"from \.\.client\.", "from ."),
    (r"selvedge\.client\.", "selvedge.sync."),
]


def generate_sync(name: str, source: str) -> str:
    """Returns the synchronous form of a file of the asynchronous client."""
    for pattern, replacement in REPLACEMENTS:
        source = re.sub(pattern, replacement, source, flags=re.MULTILINE)
    return f"# Generated from client/{name} by scripts/generate.py.\n{source}"


def generate() -> dict[Path, str]:
    """Returns the content of every generated file."""
    files = {PACKAGE / "types.py": generate_types(json.loads(DOCUMENT.read_text()))}
    for path in sorted((PACKAGE / "client").glob("*.py")):
        files[PACKAGE / "sync" / path.name] = generate_sync(path.name, path.read_text())
    return files


def main() -> int:
    for path, content in generate().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)
    return 0


if __name__ == "__main__":
    sys.exit(main())
