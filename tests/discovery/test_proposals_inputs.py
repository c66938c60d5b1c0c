"""Inputs of inferred metrics: one sample a call, texts, images, arguments by name, three arrays."""

import pytest
from proposed_targets import MEAN, proposed, proposed_thing

from pytest_evalcheck.discovery.control import try_strategy
from pytest_evalcheck.discovery.inputs import ES
from pytest_evalcheck.discovery.target_source import write

CONCORDANCE = (
    "sum((predicted_scores[i] > predicted_scores[j]) * 1.0 for i in range(len(event_times)) "
    "for j in range(len(event_times)) if event_times[i] > event_times[j] and event_observed[j]) + 0.0"
)


ONE_BY_ONE = '''
class MeanError:
    """
    >>> m = MeanError()
    >>> for y_true, y_pred in zip([3, -0.5, 2], [2.5, 0.0, 2]):
    ...     m.update(y_true, y_pred)
    """
    def __init__(self):
        self.total, self.count = 0.0, 0
    def update(self, y_true, y_pred, w=1.0):
        if not isinstance(y_true, (int, float)):
            raise TypeError("one number")
        self.total, self.count = self.total + w * abs(y_true - y_pred), self.count + w
    def get(self):
        return self.total / self.count
'''


def test_a_metric_whose_example_feeds_one_sample_a_call_is_fed_so():
    (only,) = (got := proposed(ONE_BY_ONE, "MeanError")).targets
    assert (only.inputs, only.one_sample) == ("es.regression().swapped().as_list()", True)
    assert "return ec.Metric.of(MeanError(), one_sample=True)" in write("title", got.targets, {}, [])


def test_a_metric_of_one_number_by_its_annotations_is_fed_with_one_sample_a_call():
    head, _, body = ONE_BY_ONE.replace("y_true, y_pred, w", "y_true: float, y_pred: float, w").partition('    """\n')
    (only,) = proposed(head + body.partition('    """\n')[2], "MeanError").targets
    assert only.inputs.startswith("es.regression().swapped()")
    assert not only.one_sample  # its record says so


OF_BATCHES = """
import torch
class MeanOfBatches:
    def __init__(self):
        self.total, self.count = 0.0, 0
    def update(self, value: float, num_samples: int):
        self.total, self.count = self.total + value * num_samples, self.count + num_samples
    def compute(self):
        return self.total / self.count
"""


def test_a_number_of_samples_is_a_whole_one():
    (only,) = proposed(OF_BATCHES, "MeanOfBatches").targets
    assert only.inputs == "es.rows([0.5, 1.0, 2.5, -1.25], [1, 2, 3, 5], dtypes=('float32', 'int64'))"
    (only,) = proposed(OF_BATCHES.replace("num_samples: int", "num_samples: float"), "MeanOfBatches").targets
    assert only.inputs == "es.values(weighted=True)"


def test_a_parameter_that_is_one_number_takes_no_arrays():
    source = MEAN.replace("def update(self, preds, target)", "def update(self, preds: float, target: int)")
    assert proposed(source, "MeanError").why == "no strategy fits its arguments"


def test_rows_may_be_the_probabilities_of_labels():
    source = ONE_BY_ONE.replace("[3, -0.5, 2], [2.5, 0.0, 2]", "[0, 1], [{0: 0.25, 1: 0.75}, {0: 0.5, 1: 0.5}]")
    source = source.replace("abs(y_true - y_pred)", "(1 - y_pred[y_true])")
    (only,) = proposed(source, "MeanError").targets
    assert only.inputs.removesuffix(".as_numpy()") == (
        "es.rows([0, 1], [{0: 0.25, 1: 0.75}, {0: 0.5, 1: 0.5}], dtypes=('int64', None))"
    )


def test_what_a_method_passes_on_to_that_of_its_base_class_is_no_batch_of_its_own():
    source = ONE_BY_ONE + (
        "class Halved(MeanError):\n    __doc__ = MeanError.__doc__.replace('MeanError', 'Halved')\n"
        "    def update(self, y_true, y_pred, w=1.0):\n        super().update(y_true / 2, y_pred / 2, w)\n"
    )
    (only,) = proposed(source, "Halved").targets
    assert "y_true=[3, -0.5, 2]" in only.origin


LARGEST = "y_pred[y_pred >= numpy.sort(y_pred)[-max(1, len(y_pred) // 8)]]"
ERROR = "abs(y_pred - y_true).mean() + 0 // int((y_true % 1).any())"  # not of labels


@pytest.mark.parametrize(
    ("value", "tried"),
    [
        # One forecast of several categories: the rows of a batch are the categories.
        ("float((numpy.cumsum(y_pred) ** 2).sum() - numpy.cumsum(y_true).sum())", False),
        ("float(abs(y_pred[1:] - y_true[:-1]).mean())", False),  # a series
        # A series of the rows that an option leaves: of few rows it leaves one.
        (f"numpy.diff({LARGEST})[:1].sum() + {ERROR}", False),
        (f"({LARGEST}).sum() + {ERROR}", True),
        # Ranks without ties are right in any order, and a fault with ties must be found by a check.
        ("float(numpy.corrcoef(y_pred.argsort().argsort(), y_true.argsort().argsort())[0, 1])", True),
        ("abs(y_pred - y_true)", True),  # a value for each row moves with it
        ("numpy.sort(abs(y_pred - y_true))", True),  # a curve is the same in any order
        ("(numpy.sort(y_true), abs(y_pred - y_true))", True),
    ],
)
def test_a_function_that_takes_a_batch_for_one_sample_is_fed_with_one_a_call(value, tried):
    got = proposed(f"import numpy\ndef forecast_error(y_true, y_pred): return {value}", "forecast_error")
    assert [each.one_sample for each in got.targets] == [not tried], got.why


WORDS = ES.rows(
    ["he", "was", "interested", "in", "world", "history", "because", "he", "read", "the", "book"],
    ["he", "read", "the", "book", "because", "he", "was", "interested", "in", "world", "history"],
    dtypes=(None, None),
    mixed=False,
)


def places_of_words(reference, hypothesis):
    """The place of each word of a sentence in another one: in any order of words a permutation of them."""
    return [hypothesis.index(word) for word in reference if word in hypothesis]


def letters_too_many(reference, hypothesis):
    return [len(word) - len(other) for word, other in zip(hypothesis, reference, strict=True)]


# Of the first rows that share no word, each word is beside itself.
FEW_WORDS = ES.rows(["John", "hit", "Bob", "yesterday"], ["Bob", "hit", "John", "yesterday"], dtypes=(None, None))


@pytest.mark.parametrize("words", [WORDS, FEW_WORDS])
@pytest.mark.parametrize(("function", "accepted"), [(places_of_words, False), (letters_too_many, True)])
def test_entries_that_do_not_move_with_their_rows_are_those_of_a_series(words, function, accepted):
    refusal, _ = try_strategy(words, lambda: function)
    assert ("depends on the order of rows" in refusal, not refusal) == (not accepted, accepted), refusal


def test_an_object_that_is_called_with_a_series_is_no_metric_of_samples():
    source = """
class ForecastError:
    def __call__(self, y_true, y_pred):
        return float(abs(y_pred[1:] - y_true[:-1]).mean())
"""
    got = proposed(source, "ForecastError")
    assert (got.targets, "depends on the order of rows" in got.why) == ([], True)


NAMED = '''
import torch

class MeanError:
    """
    >>> import torch
    >>> m = MeanError()
    {example}
    """
    def __init__(self):
        self.total, self.count = 0.0, 0
    def update(self, {update}):
        preds, target = {given}
        self.total, self.count = self.total + (preds - target).abs().sum(), self.count + len(preds)
    def compute(self):
        return self.total / self.count
'''


@pytest.mark.parametrize(
    ("update", "example", "named"),
    [
        ("*, preds, target", True, True),
        ("mask=None, **given", True, True),
        ("*, preds, target", False, True),
        ("**given", False, True),
        ("preds, target", True, False),
    ],
)
def test_what_is_taken_by_name_is_given_by_name(update, example, named):
    shown = ">>> p, t = torch.tensor([0.5, 2.5]), torch.tensor([1.25, 2.0]); m.update(preds=p, target=t)"
    given = "given['preds'], given['target']" if "given" in update else "preds, target"
    (only,) = proposed(NAMED.format(example=shown if example else "", update=update, given=given), "MeanError").targets
    assert only.inputs == f"es.regression(){'.named({!r}, {!r})'.format('preds', 'target') if named else ''}"


def test_inputs_of_which_a_metric_warns_that_they_are_not_finite_are_not_used():
    source = """
import warnings
import torch

class LogarithmicError:
    def __init__(self):
        self.total, self.count = 0.0, 0
    def update(self, preds, target):
        total = (preds.log() - target.log()).abs().sum()
        if not torch.isfinite(total):
            warnings.warn("Loss is not finite. Resetting it to 1e9")
            total = torch.tensor(1e9)
        self.total, self.count = self.total + total, self.count + len(preds)
    def compute(self):
        return self.total / self.count
"""
    (only,) = proposed(source, "LogarithmicError").targets
    assert "positive=True" in only.inputs


def test_the_names_of_parameters_say_that_it_takes_texts():
    source = """
def share_of_hits(reference, hypothesis):
    if not all(isinstance(text, str) for text in (*reference, *hypothesis)):
        raise ValueError("expected texts")
    return sum(one == other for one, other in zip(reference, hypothesis)) / len(reference)
"""
    (only,) = proposed(source, "share_of_hits").targets
    assert only.inputs == "es.text_pairs().swapped()"


@pytest.mark.parametrize(
    ("signature", "body", "inputs"),
    [
        ("y_pred, y_std, y_true, scaled=True", "(((y_pred - y_true) / y_std) ** 2).mean()", "es.forecasts()"),
        ("obs, mu, sigma", "(((obs - mu) / sigma) ** 2).mean()", "es.forecasts().packed(2, 0, 1)"),
        ("event_times, predicted_scores, event_observed=None", CONCORDANCE, "es.survival().packed(1, 0, 2)"),
    ],
)
def test_a_function_of_three_arrays_is_known_by_their_names(signature, body, inputs):
    source = f"def score({signature}):\n    return float({body})\n"
    (first, *_) = proposed(source, "score").targets
    assert (first.inputs.removesuffix(".as_numpy()"), first.construction) == (inputs, "score")
    assert [each.construction for each in _] in ([], ["partial(score, scaled=False)"])


def test_two_arrays_and_an_option_are_no_three_arrays():
    source = "def mean_error(y_pred, y_true, time=1):\n    return abs(y_pred - y_true).mean()\n"
    (first, *_) = proposed(source, "mean_error").targets
    assert first.inputs.startswith("es.regression()")


def test_a_function_of_masks_gets_no_numbers():
    source = "def dice(result, reference):\n    a, b = result != 0, reference != 0\n    return {}\n"
    score = "2.0 * float((a & b).sum()) / float((a.sum() + b.sum()) or 1)"
    (only,) = proposed(source.format(score), "dice").targets
    assert only.inputs.startswith("es.masks(")
    refused = try_strategy(ES.regression(), lambda: proposed_thing("dice"))[0]
    assert refused.endswith("any number but 0 is the same to it: it takes masks")


@pytest.mark.parametrize("options", ["top_k=1", "top_k=2"])
def test_a_rate_of_hits_takes_no_masks(options):
    """Among the first two of a few samples there is a hit in most orders."""
    retrieval = pytest.importorskip("torchmetrics.retrieval")
    assert try_strategy(ES.retrieval(), lambda: eval(f"RetrievalHitRate({options})", vars(retrieval)))[0] == ""


def test_a_function_of_one_image_does_not_take_the_rows_of_a_batch_for_its_lines():
    # Neighbours stay neighbours where rows are reversed or rotated, except at the ends.
    source = (
        "def edges(result, reference):\n    import numpy as np\n    a, b = np.asarray(result), np.asarray(reference)\n"
        "    return float((abs(np.diff(a, axis=0, append=a[:1])) * b).sum() + (a * b).sum())\n"
    )
    (only,) = proposed(source, "edges").targets
    assert only.one_sample
    refused = try_strategy(ES.binary(of="labels").as_numpy(), lambda: proposed_thing("edges"))[0]
    assert "depends on the order of equal numbers" in refused


def test_a_function_whose_value_depends_on_the_order_of_labels_alone_is_fed_with_numbers():
    # Labels have ties: they are refused, and do not show that numbers would be a series to it.
    source = (
        "import numpy\ndef agreement(simulations, evaluation):\n"
        "    ranks = [a.argsort().argsort() for a in (simulations, evaluation)]\n"
        "    return numpy.corrcoef(*ranks)[0, 1]\n"
    )
    (only,) = proposed(source, "agreement").targets
    refused = try_strategy(ES.binary(of="labels").as_numpy(), lambda: proposed_thing("agreement"))[0]
    assert "depends on the order of equal numbers" in refused
    assert not only.one_sample


def test_samples_that_are_all_the_same_are_no_inputs():
    source = "def score(result, reference):\n    return float(abs(result - reference).mean())\n"
    proposed(source, "score")
    same = ES.rows([[0, 1], [0, 1]], [[1, 1], [1, 1]], dtypes=("int64", "int64"), mixed=False)
    assert try_strategy(same, lambda: proposed_thing("score"))[0].endswith("its samples are all the same")


def test_a_function_of_one_image_is_fed_with_one_a_call():
    source = (
        "def edges(image0, image1):\n    import numpy as np\n    if np.asarray(image0).ndim != 2:\n"
        "        raise ValueError('one image')\n    a, b = (np.asarray(each) != 0 for each in (image0, image1))\n"
        "    return float((np.diff(a, axis=0) * b[1:]).sum() + (a & b).sum())\n"
    )
    got = proposed(source, "edges")
    (only,) = got.targets
    assert (only.inputs, only.one_sample) == ("es.segmentation(classes=2, size=(8, 8)).as_numpy()", True)
    assert "return ec.Metric.of(edges, one_sample=True)" in write("title", got.targets, {}, [])


def test_a_function_of_one_text_is_fed_with_one_a_call():
    source = (
        "def shared(hypothesis, reference):\n    if not isinstance(hypothesis, str):\n        raise TypeError('a text')\n"
        "    return len(set(hypothesis) & set(reference)) / max(1, len(set(hypothesis) | set(reference)))\n"
    )
    (only,) = proposed(source, "shared").targets
    assert (only.inputs, only.one_sample) == ("es.text_pairs()", True)


@pytest.mark.parametrize(
    ("names", "one_sample"), [(("hypothesis", "reference"), True), (("predictions", "references"), False)]
)
def test_a_function_that_takes_lists_of_texts_by_chance_is_of_one_text(names, one_sample):
    # Of a list it takes the words of its representation.
    source = (
        "import re\ndef text_overlap({0}, {1}):\n    a, b = (set(re.findall(r'\\w+', str(each))) for each in ({0}, {1}))\n"
        "    return len(a & b) / max(1, len(a | b))\n"
    )
    (only,) = proposed(source.format(*names), "text_overlap").targets
    assert (only.inputs, only.one_sample) == ("es.text_pairs()", one_sample)


def test_two_arrays_that_are_numbered_are_a_pair_and_no_weighted_value():
    source = "def euclidean_error(h1, h2):\n    return float(((h1 - h2) ** 2).mean())\n"
    (only,) = proposed(source, "euclidean_error").targets
    assert only.inputs.startswith("es.regression()")
