"""An expression with two groups, both of which match nothing."""

import sys

from lm_eval.filters.extraction import RegexFilter

try:
    found = list(RegexFilter(regex_pattern=r"answer is ([A-D]?)(x?)").apply([["the answer is "]], [{}]))
except IndexError as error:
    found = f"IndexError: {error}"
print("extracted:", found)
sys.exit(int(found != [["[invalid]"]]))
