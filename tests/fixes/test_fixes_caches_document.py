"""The examples of docs/caches.md print what it says they print."""

from __future__ import annotations

import importlib.util
import re
from itertools import pairwise
from pathlib import Path

import pytest

DOCUMENT = Path(__file__).parents[2] / "docs" / "caches.md"

pytestmark = [
    pytest.mark.skipif(
        not all(map(importlib.util.find_spec, ("transformers", "torchtune"))),
        reason="needs transformers and torchtune",
    ),
    pytest.mark.filterwarnings("ignore::UserWarning"),  # those of the libraries
]


def test_the_examples_print_what_the_document_says(capsys):
    blocks = re.findall(r"^```(python|text)\n(.*?)^```$", DOCUMENT.read_text(encoding="utf-8"), re.M | re.S)
    names: dict[str, object] = {}
    printed = []
    for (language, source), (_, expected) in pairwise(blocks):
        if language == "python":
            exec(compile(source, str(DOCUMENT), "exec"), names)
            printed.append(capsys.readouterr().out)
            assert printed[-1] == expected
    assert len(printed) == 4
