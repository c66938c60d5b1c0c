"""Check whether an empty first line is the response, where the code stands in the second one."""

import sys

from lm_eval.tasks.longbench.metrics import code_sim_score

found = code_sim_score("\nreturn total", "return total"), code_sim_score("\n\nreturn total", "return total")
print(found)
sys.exit(int(found != (1, 1)))
