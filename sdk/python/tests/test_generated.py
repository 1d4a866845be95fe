"""The generated files are those that the generator writes, from the document that the server publishes."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

from selvedge import Client

PACKAGE = Path(__file__).parent.parent


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", PACKAGE / "scripts" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_generating_again_changes_nothing() -> None:
    for path, content in generator().generate().items():
        assert path.read_text() == content, f"run scripts/generate.py: {path.name} is out of date"


async def test_the_server_publishes_the_document_that_is_checked_in(client: Client) -> None:
    document = json.loads((PACKAGE.parent / "openapi.json").read_text())
    assert await client._transport.get("/openapi.json") == document, "run sdk/update-openapi and scripts/generate.py"
