"""Patches of seqeval."""

from __future__ import annotations

from pytest_evalcheck.fixes.patches.patch import Library, Patch, begin, put_before, replace

_COUNTS = (
    replace("len(entities_true_type & entities_pred_type)", "count(entities_true_type & entities_pred_type)"),
    replace("len(entities_pred_type)", "count(entities_pred_type)"),
    replace("len(entities_true_type)", "count(entities_true_type)"),
)

_LEAVE_OUT = begin(
    """\
if sample_weight is not None and any(sample_weight) and not all(sample_weight):
    # a sentence without weight is left out, and so is a type that no other one has
    kept = [i for i, weight in enumerate(sample_weight) if weight]
    y_true, y_pred, sample_weight = ([each[i] for i in kept] for each in (y_true, y_pred, sample_weight))
"""
)

LIBRARY = Library(
    "seqeval",
    "1.2.2",
    "1.3",
    patches=(
        Patch(
            mends=("seqeval-weights-change-nothing",),
            says="an entity counts with the weight of its sentence",
            edits={
                "seqeval.metrics.sequence_labeling:precision_recall_fscore_support": (
                    put_before(
                        "tp_sum = np.array(",
                        """\
# get_entities puts an 'O' behind each sentence
starts = np.cumsum([0] + [len(sentence) + 1 for sentence in y_true])

def count(entities):
    if sample_weight is None:
        return len(entities)
    return sum(sample_weight[np.searchsorted(starts, start, side='right') - 1] for start, _ in entities)
""",
                    ),
                    *_COUNTS,
                    _LEAVE_OUT,
                ),
                "seqeval.metrics.v1:precision_recall_fscore_support": (
                    put_before(
                        "tp_sum = np.array(",
                        """\
def count(entities):
    if sample_weight is None:
        return len(entities)
    return sum(sample_weight[entity.sent_id] for entity in entities)
""",
                    ),
                    *_COUNTS,
                    _LEAVE_OUT,
                ),
                "seqeval.metrics.sequence_labeling:classification_report": (_LEAVE_OUT,),
                "seqeval.metrics.v1:classification_report": (_LEAVE_OUT,),
            },
            test="""
                from seqeval.metrics import classification_report, f1_score
                from seqeval.scheme import IOB2

                true = [["B-PER", "O"], ["O", "B-LOC"], ["B-LOC", "I-LOC"]]
                predicted = [["B-PER", "O"], ["B-LOC", "O"], ["B-LOC", "I-LOC"]]
                for options in ({}, {"mode": "strict", "scheme": IOB2}):
                    weights = {"sample_weight": [1, 0, 3]}
                    assert f1_score(true, predicted, **weights, **options) == 1
                    assert f1_score(true, predicted, **options) < 1
                    report = classification_report(true, predicted, output_dict=True, **weights, **options)
                    assert report["LOC"]["support"] == 3
                    weights = {"sample_weight": [0, 1, 0]}
                    report = classification_report(true, predicted, output_dict=True, **weights, **options)
                    assert [*report] == ["LOC", "micro avg", "macro avg", "weighted avg"]
            """,
        ),
    ),
)
