"""The code of the documentation is the code of tested files, and `scripts/docs-code` finds a page that differs."""

from __future__ import annotations

import ast
import re
import runpy
from pathlib import Path

import pytest

import selvedge

SCRIPT = Path(__file__).parent.parent.parent.parent / "scripts" / "docs-code"
SOURCE = """import os

# region: both
def first():
    # region: second
    if True:
        # a comment
        return os
    # endregion: second
# endregion: both

    # region: parts
    a = 1
    # endregion: parts
    b = 2
    # region: parts
    c = 3
    # endregion: parts
"""


docs_code = runpy.run_path(str(SCRIPT))


def page(source: str, block: str, language: str = "python") -> str:
    return f"# Title\n\n{source}\n```{language}\n{block}```\n"


def run(root: Path, text: str, *arguments: str) -> int:
    (root / "docs").mkdir(exist_ok=True)
    (root / "docs" / "page.md").write_text(text)
    (root / "source.py").write_text(SOURCE)
    return int(docs_code["main"](list(arguments), root))


def test_the_code_of_every_page_is_tested(capsys: pytest.CaptureFixture[str]) -> None:
    code = docs_code["main"]([])
    assert code == 0, capsys.readouterr().err


def names_in(block: str) -> tuple[set[str], set[str]]:
    """Returns the names that a block of Python imports, and those that it uses."""
    tree = ast.parse(block)
    imported = {
        (alias.asname or alias.name).split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
    }
    return imported, {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def test_the_python_page_imports_what_its_blocks_use() -> None:
    text = (SCRIPT.parent.parent / "docs" / "sdk-python.md").read_text()
    imported: set[str] = set()
    used: set[str] = set()
    for block in re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        found = names_in(block)
        imported |= found[0]
        used |= found[1]
    modules = {"asyncio", "psycopg", "selvedge"}
    others = {"aclosing", "timedelta", "datetime", "dataclass", "Any", "Server"}
    missing = used & (set(selvedge.__all__) | modules | others) - imported
    assert not missing, f"no block of docs/sdk-python.md imports {sorted(missing)}"


def test_the_typescript_page_imports_what_its_blocks_use() -> None:
    text = (SCRIPT.parent.parent / "docs" / "sdk-typescript.md").read_text()
    blocks = "\n".join(re.findall(r"^```ts\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    statements = re.findall(r"^import (?:type )?\{?([^;]*?)\}? from ", blocks, re.MULTILINE)
    imported = {name.strip().removeprefix("type ") for names in statements for name in names.split(",")}
    used = {
        found
        for pair in re.findall(r"\bnew (\w+)|(?<![.\w])(until|quorum|anyOf|task|assert|test)[.(]", blocks)
        for found in pair
    }
    missing = used - imported - {"", "Error"}
    assert not missing, f"no block of docs/sdk-typescript.md imports {sorted(missing)}"


@pytest.mark.parametrize(
    ("region", "block"),
    [
        ("both", "def first():\n    if True:\n        # a comment\n        return os\n"),
        ("second", "if True:\n    # a comment\n    return os\n"),
        ("parts", "a = 1\n# …\nc = 3\n"),
    ],
)
def test_a_block_that_differs_is_found_and_updated(tmp_path: Path, region: str, block: str) -> None:
    source = f"<!-- code: source.py#{region} -->"
    assert run(tmp_path, page(source, block)) == 0
    assert run(tmp_path, page(source, block.replace("1", "2").replace("os", "sys"))) == 1
    assert run(tmp_path, page(source, ""), "--update") == 0
    assert (tmp_path / "docs" / "page.md").read_text() == page(source, block)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (page("", "a = 1\n"), "page.md:4: the block names no source"),
        (page("<!-- code: source.py#none -->", "a = 1\n"), "there is no region none"),
        (page("<!-- code: none.py#both -->", "a = 1\n"), "there is no file none.py"),
    ],
)
def test_a_block_without_its_source_is_found(
    tmp_path: Path, text: str, problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, text, "--update") == 1
    assert problem in capsys.readouterr().err


def test_a_marker_or_another_language_needs_no_source(tmp_path: Path) -> None:
    assert run(tmp_path, page("", "a = 1\n", "python no-test: another system")) == 0
    assert run(tmp_path, page("", "true\n", "sh")) == 0
