"""Check whether two words that differ in the letters of the Arabic article are the same answer."""

import sys

from lm_eval.tasks.mlqa.utils import exact_match_score

same = exact_match_score("كم", "كمال", "ar")  # "how many", and a name that ends in the letters of the article
print(same)
sys.exit(int(same))
