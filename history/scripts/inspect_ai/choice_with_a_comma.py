"""Check whether a letter with a comma behind it is an answer."""

import sys
from types import SimpleNamespace

from inspect_ai.solver._multiple_choice import parse_answers

state = SimpleNamespace(output=SimpleNamespace(completion="ANSWER: A,"), choices=["Ada", "Boris"])
found = parse_answers(state, multiple_correct=False)
print(found)
sys.exit(int(found != {"A"}))
