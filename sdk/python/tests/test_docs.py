"""The code of the documentation is the code of tested files, and `scripts/docs-code` finds a page that differs."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

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
