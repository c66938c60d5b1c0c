"""Check whether the examples that first_n draws contain the document that is asked."""

import sys

from lm_eval.api import samplers

DOCUMENTS = [{"question": "q0", "answer": "4"}, {"question": "q1", "answer": "5"}, {"question": "q2", "answer": "6"}]
drawn = samplers.FirstNSampler(DOCUMENTS).sample(2, eval_doc=DOCUMENTS[0])
print(drawn)
sys.exit(int(DOCUMENTS[0] in drawn))
