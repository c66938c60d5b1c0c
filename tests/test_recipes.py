"""The recipes in the documentation are the files that `nox -s recipes` lints and executes."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_page_has_each_recipe_as_it_is():
    page = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    shown = re.findall(r"^```\w+\n(.*?)^```$", page, re.M | re.S)
    files = ("github.yml", "gitlab-ci.yml", "pre-commit-config.yaml", "tox.ini", "noxfile.py")
    assert shown == [(ROOT / "recipes" / name).read_text(encoding="utf-8") for name in files]
    beside = {"project", "execute.py", "__pycache__"}
    assert {path.name for path in (ROOT / "recipes").iterdir()} - beside == set(files)
