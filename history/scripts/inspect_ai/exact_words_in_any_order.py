"""Check whether the same words in another order are an exact match."""

import asyncio
import sys
from types import SimpleNamespace

from inspect_ai.scorer import Target, exact

state = SimpleNamespace(output=SimpleNamespace(completion="world hello"))
value = asyncio.run(exact()(state, Target("hello world"))).value
print(value)
sys.exit(int(value in ("C", 1, 1.0)))
