"""Check whether a value without the white space around it is right for swde."""

import sys

from lm_eval.tasks.swde.task import SWDE

made = SWDE.__new__(SWDE)
found = made.process_results({"text": "The capital:", "value": " Rome\n"}, ["It is Rome."])
print(found)
sys.exit(int(found != {"contains": 1}))
