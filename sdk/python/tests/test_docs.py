"""Every Python block of the guide and the README is part of a file that is tested."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent
PAGES = [PACKAGE / "README.md", PACKAGE.parent.parent / "docs" / "sdk-python.md"]
TESTED = [*(PACKAGE / "examples").glob("*.py"), PACKAGE / "tests" / "test_guide.py"]


def blocks(page: Path) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def lines_of(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip("\n").splitlines()]


def contains(source: str, block: str) -> bool:
    """Returns true if the lines of the block follow each other in the source, at any indentation."""
    wanted, found = lines_of(block), lines_of(source)
    for start in range(len(found) - len(wanted) + 1):
        part = lines_of(textwrap.dedent("\n".join(found[start : start + len(wanted)])))
        if part == wanted:
            return True
    return False


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_code_of_the_page_is_tested(page: Path) -> None:
    sources = [path.read_text() for path in TESTED]
    found = blocks(page)
    assert found
    for block in found:
        assert any(contains(source, block) for source in sources), f"no tested file has:\n{block}"
