"""The best of two references, for each key."""

from torchmetrics.functional.text import rouge_score

keys = ("rouge1", "rouge2")
preds = "a b c d"
references = ["d c b a", "a b x y"]
both = rouge_score(preds, [references], accumulate="best", rouge_keys=keys)
each = [rouge_score(preds, reference, rouge_keys=keys) for reference in references]
name = "rouge2_fmeasure"
expected = max(float(one[name]) for one in each)
print(float(both[name]), "expected", expected)
raise SystemExit(abs(float(both[name]) - expected) > 1e-6)
