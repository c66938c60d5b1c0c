"""Check whether a number with another sign or without its point is the right answer."""

import asyncio
import sys
from types import SimpleNamespace

from inspect_ai.scorer import Target, match

score, found = match(numeric=True), []
for text, target in (("5", "-5"), ("314", "3.14"), ("-5", "-5")):
    state = SimpleNamespace(output=SimpleNamespace(completion=text))
    found.append(asyncio.run(score(state, Target(target))).value)
print(found)
sys.exit(int("C" in found[:2]))
