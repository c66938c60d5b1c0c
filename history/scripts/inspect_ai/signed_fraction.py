"""Check whether a half with a sign before it is the number that it stands for."""

import asyncio
import sys
from types import SimpleNamespace

from inspect_ai.scorer import Target, match

score, found = match(numeric=True), []
for text in ("-½", "-0.5", "½"):
    state = SimpleNamespace(output=SimpleNamespace(completion=text))
    found.append(asyncio.run(score(state, Target("-0.5"))).value)
print(found)
sys.exit(int(found != ["C", "C", "I"]))
