"""The filter for choices with an expression of two groups, both of which match nothing."""

import sys

from lm_eval.filters.extraction import MultiChoiceRegexFilter

document = {"choices": ["a cat", "a dog"]}
try:
    found = list(
        MultiChoiceRegexFilter(regex_pattern=r"answer is ([A-D]?)(x?)").apply([["the answer is "]], [document])
    )
except IndexError as error:
    found = f"IndexError: {error}"
print("extracted:", found)
sys.exit(int(found != [["[invalid]"]]))
