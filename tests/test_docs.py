"""The documentation is run: its files are written, its commands are called, and what it prints is printed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from target_files import Suite

ROOT = Path(__file__).parent.parent


def _blocks(document: str) -> list[tuple[str, str]]:
    text = (ROOT / document).read_text(encoding="utf-8")
    return re.findall(r"^```(\w+)\n(.*?)^```$", text, re.M | re.S)


def test_the_readme_shows_what_its_target_prints(suite: Suite) -> None:
    blocks = _blocks("README.md")
    (source,) = [body for language, body in blocks if language == "python"]
    (screen,) = [body for language, body in blocks if language == "text"]
    suite.write(source, name="evalcheck_accuracy.py", header="")
    suite.run("--evalcheck-select=EC201", code=1).said(screen.rstrip())


def test_the_readme_names_the_two_commands() -> None:
    commands = [body.strip() for language, body in _blocks("README.md") if language == "console"]
    assert commands == [
        "python -m pip install -c constraints.txt -e '.[targets]' && pytest --evalcheck -n 2",
        "python -m pip install -c constraints.txt -e '.[dev]' && pytest -n 2",
    ]


def test_the_tutorial_runs(suite: Suite) -> None:
    pytest.importorskip("torchmetrics")
    ran = 0
    for language, body in _blocks("docs/tutorial.md"):
        if language == "python":
            for old in suite.pytester.path.glob("*.py"):
                old.unlink()
            suite.write(body, name=body.splitlines()[0].removeprefix("# "), header="")
        else:
            command, *said = body.strip().splitlines()
            program, *arguments = shlex.split(command.removeprefix("$ "))
            assert program == "pytest"
            ours = "--evalcheck" in arguments
            suite.run(*(a for a in arguments if a != "--evalcheck"), evalcheck=ours).said(
                *(line.strip() for line in said)
            )
            ran += 1
    assert ran == 10


@pytest.mark.parametrize(
    "document", sorted(str(p.relative_to(ROOT)) for p in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
)
def test_links_lead_somewhere(document: str) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    for link in re.findall(r"\]\(([^)#]+)[^)]*\)", text):
        if "://" not in link:
            assert ((ROOT / document).parent / link).exists(), f"{document} links to {link}"
