"""The examples of docs/loops-fix.md print what it says they print."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

DOCUMENT = Path(__file__).parents[2] / "docs" / "loops-fix.md"

pytestmark = [
    pytest.mark.skipif(not importlib.util.find_spec("transformers"), reason="needs transformers"),
    pytest.mark.filterwarnings("ignore::UserWarning"),  # those of the library
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


def test_the_examples_print_what_the_document_says(capsys):
    text = DOCUMENT.read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```$", text, re.M | re.S)
    names: dict[str, object] = {}
    for source, expected in blocks:
        exec(compile(source, str(DOCUMENT), "exec"), names)
        assert capsys.readouterr().out == expected
    assert len(blocks) == text.count("```python") == 4
