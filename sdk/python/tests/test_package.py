"""The package as users get it: the wheel, installed into a clean environment with its runtime dependencies only."""

from __future__ import annotations

import subprocess
import sys
import venv
import zipfile
from pathlib import Path

from processes import environment
from selvedge.testing import Server

PACKAGE = Path(__file__).parent.parent
WHEELS = Path(sys.prefix) / "wheels"
"""The wheels of the runtime dependencies, which `scripts/test-python` downloads once."""


def pip(*arguments: str | Path) -> str:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]
    ran = subprocess.run(command, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_the_wheel_works_in_a_clean_environment(own_server: Server, tmp_path: Path) -> None:
    pip("wheel", "--no-index", "--no-build-isolation", "--no-deps", "--wheel-dir", tmp_path, PACKAGE)
    wheel = next(tmp_path.glob("selvedge_sdk-*.whl"))
    files = zipfile.ZipFile(wheel).namelist()
    assert "selvedge/py.typed" in files
    assert not [name for name in files if not name.startswith(("selvedge/", "selvedge_sdk-"))]

    venv.create(tmp_path / "clean", with_pip=False)
    python = tmp_path / "clean" / "bin" / "python"
    source: list[str | Path] = ["--no-index", "--find-links", WHEELS] if WHEELS.is_dir() else []
    pip("--python", python, "install", *source, wheel)
    installed = {line.split("==")[0] for line in pip("--python", python, "freeze").splitlines()}
    assert "httpx" in installed
    assert not installed & {"pydantic", "psycopg", "pytest", "asyncpg"}

    hello = {name: value for name, value in environment(own_server.url).items() if name != "PYTHONPATH"}
    ran = subprocess.run([python, PACKAGE / "examples" / "hello.py"], env=hello, capture_output=True, text=True)
    assert ran.stdout == "Hello, Ada! (3)\n", ran.stderr
