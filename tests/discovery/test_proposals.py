"""From a class or a function to targets: what is used, and what the control refuses."""

import sys
import types

import pytest

from pytest_evalcheck.discovery.candidates import Candidate
from pytest_evalcheck.discovery.control import control
from pytest_evalcheck.discovery.proposals import propose
from pytest_evalcheck.discovery.written import write

MODULE = types.ModuleType("a_metric_library")
sys.modules["a_metric_library"] = MODULE

MEAN = '''
from typing import Literal

class MeanError:
    """
    >>> import torch
    >>> m = MeanError()
    >>> m.update(torch.tensor([0.5, 2.5]), torch.tensor([1.0, 2.0]))
    """
    def __init__(self, reduction: Literal["mean", "sum"] = "mean", squared: bool = False):
        self.reduction, self.squared, self.total, self.count = reduction, squared, 0.0, 0
    def update(self, preds, target):
        error = (preds - target) ** 2 if self.squared else (preds - target).abs()
        self.total, self.count = self.total + error.sum(), self.count + len(preds)
    def compute(self):
        return self.total if self.reduction == "sum" else self.total / self.count
    def reset(self):
        self.total, self.count = 0.0, 0
'''


CONCORDANCE = (
    "sum((predicted_scores[i] > predicted_scores[j]) * 1.0 for i in range(len(event_times)) "
    "for j in range(len(event_times)) if event_times[i] > event_times[j] and event_observed[j]) + 0.0"
)


def proposed_thing(name):
    return getattr(MODULE, name)


def proposed(source, name, call=""):
    exec(source, MODULE.__dict__)
    thing = getattr(MODULE, name)
    thing.__module__ = "a_metric_library"
    return propose(Candidate(module="a_metric_library", name=name, is_class=isinstance(thing, type), call=call))


def test_a_class_becomes_targets_with_its_options():
    got = proposed(MEAN, "MeanError")
    assert (got.why, got.left) == ("", {})
    assert [(each.construction, each.inputs, each.label) for each in got.targets] == [
        ("MeanError()", "es.regression()", ""),
        ("MeanError(squared=True)", "es.regression()", "squared=True"),
        ("MeanError(reduction='sum')", "es.regression()", "reduction='sum'"),
        ("MeanError(reduction='sum', squared=True)", "es.regression()", "reduction='sum', squared=True"),
    ]
    first = got.targets[0]
    assert first.imports == ("from a_metric_library import MeanError",)
    assert first.origin == (
        "constructed as in its docstring; inputs like those of its example: preds=float32[2], target=float32[2]"
    )


def test_a_request_may_say_how_it_is_constructed():
    (only,) = proposed(MEAN, "MeanError", call="MeanError(squared=True)").targets
    assert only.construction == "MeanError(squared=True)"
    assert only.origin.startswith("constructed as the request says")


def test_without_an_example_the_words_and_a_trial_decide():
    source = MEAN.replace('"""', "#", 1).replace('    """\n', "", 1).replace(">>> ", "# ")
    (first, *_) = proposed(source, "MeanError").targets
    assert first.inputs == "es.regression()"
    assert first.origin == "constructed by its signature; inputs by its name and its parameters (preds, target)"


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("0.5", "right and wrong predictions have the same value, 0.5"),
        ("None", "its value is None"),
        ("float('nan')", "its value is NaN for every sample"),
        ("1 / 0", "compute raised ZeroDivisionError: division by zero"),
    ],
)
def test_a_guess_that_does_not_pass_the_control_is_not_used(value, why):
    source = f"class Odd:\n    def update(self, preds, target): ...\n    def compute(self): return {value}\n"
    got = proposed(source, "Odd")
    assert got.targets == []
    assert why in got.why


def test_a_metric_that_needs_two_samples_gets_them():
    source = MEAN.replace("self.total / self.count", "self.total / (self.count - 1) if self.count > 1 else 0 / 0")
    assert {each.inputs for each in proposed(source, "MeanError").targets if "sum" not in each.label} == {
        "es.regression().but(min_samples=2)"
    }


def test_a_constructor_that_cannot_be_guessed_names_what_it_lacks():
    source = (
        "class Embedded:\n    def __init__(self, encoder): self.encoder = encoder\n"
        "    def update(self, preds, target): ...\n    def compute(self): return 1.0\n"
    )
    got = proposed(source, "Embedded")
    assert got.why == (
        "its docstring has no example; its constructor needs encoder, of which no value is known; "
        "give it: 'a_metric_library:Embedded(encoder=...)'"
    )


def test_a_constructor_that_raises():
    source = "class Lacking:\n    def __init__(self): raise ImportError('needs torchlib')\n"
    source += "    def update(self, preds, target): ...\n    def compute(self): return 1.0\n"
    assert proposed(source, "Lacking").why == "constructing it raised ImportError: needs torchlib"


def test_configurations_that_are_refused_are_named():
    source = MEAN.replace(
        "self.reduction, self.squared, self",
        "assert not (squared and reduction == 'sum'), 'not both'\n        self.reduction, self.squared, self",
    )
    got = proposed(source, "MeanError")
    assert len(got.targets) == 3
    assert got.left == {"MeanError(reduction='sum', squared=True)": "constructing it raised AssertionError: not both"}


def test_an_option_that_needs_other_shapes_gets_them():
    source = '''
class Errors:
    """
    >>> import torch
    >>> m = Errors()
    >>> m.update(torch.tensor([0.5, 2.5]), torch.tensor([1.0, 2.0]))
    """
    def __init__(self, num_outputs=1):
        self.num_outputs, self.total = num_outputs, 0.0
    def update(self, preds, target):
        assert preds.ndim == (1 if self.num_outputs == 1 else 2), "other dimensions"
        self.total = self.total + (preds - target).abs().sum()
    def compute(self): return self.total
'''
    assert [(each.construction, each.inputs) for each in proposed(source, "Errors").targets] == [
        ("Errors()", "es.regression()"),
        ("Errors(num_outputs=2)", "es.regression(outputs=2)"),
    ]


def test_a_function_of_targets_and_predictions():
    source = '''
def share(y_true, y_pred, *, normalize=True):
    """
    >>> share([0, 1, 1], [1, 1, 0])
    """
    hits = sum(int(t) == int(p) for t, p in zip(y_true, y_pred))
    return hits / len(y_true) if normalize else hits
'''
    got = proposed(source, "share")
    assert [(each.construction, each.inputs) for each in got.targets] == [
        ("share", 'es.binary(of="labels").swapped().as_list()'),
        ("partial(share, normalize=False)", 'es.binary(of="labels").swapped().as_list()'),
    ]
    assert got.targets[1].imports == ("from functools import partial", "from a_metric_library import share")


def test_a_number_beside_a_batch_is_an_option_and_no_data():
    source = MEAN.replace("def update(self, preds, target):", "def update(self, preds, target, weight=1.0):")
    assert proposed(source, "MeanError").targets[0].inputs == "es.regression()"


def test_every_way_of_its_examples_is_tried_before_their_options():
    again = MEAN.replace(
        "    >>> m = MeanError()\n",
        "".join(
            f"    >>> m = MeanError(scale={i})\n    >>> m.update(torch.ones(2), torch.tensor([1.0, 2.0]))\n"
            for i in (1, 2, 3)
        )
        + "    >>> m = MeanError()\n",
    ).replace("squared: bool = False):", "squared: bool = False, scale=1):")
    got = proposed(again, "MeanError")
    made = [each.construction for each in got.targets]
    assert made[:4] == ["MeanError(scale=1)", "MeanError(scale=2)", "MeanError(scale=3)", "MeanError()"]
    assert len(made) == 8
    assert set(got.left.values()) == {"beyond the limit of configurations"}


def test_the_reason_is_that_of_the_first_way_to_make_it():
    source = MEAN.replace(
        "self.total, self.count = self.total + error.sum()", "raise ValueError('not these'); self.total"
    )
    source = source.replace('Literal["mean", "sum"]', 'Literal["mean", "sum", "none", "max", "min"]')
    assert "update raised ValueError: not these" in proposed(source, "MeanError").why


def test_an_argument_by_position_is_no_option_to_be_varied():
    source = MEAN.replace(">>> m = MeanError()", ">>> m = MeanError('mean')")
    got = proposed(source, "MeanError")
    assert got.left == {}
    assert [each.construction for each in got.targets] == ["MeanError('mean')", "MeanError('mean', squared=True)"]


def test_a_value_that_needs_several_samples_gets_them():
    source = MEAN.replace("self.total / self.count", "self.total / (1 if self.count > 4 else 0 / 0)")
    assert {each.inputs for each in proposed(source, "MeanError").targets if "sum" not in each.label} == {
        "es.regression().but(min_samples=6)"
    }


NAN = '''
class Kept:
    """
    >>> import torch
    >>> m = Kept()
    >>> m.update(torch.tensor([0.5, 2.5]), torch.tensor([1.0, 2.0]))
    """
    def __init__(self, nan_strategy="drop"):
        self.nan_strategy, self.total = nan_strategy, 0.0
    def update(self, preds, target):
        self.total = self.total + (preds - target).abs().nansum()
    def compute(self): return self.total
'''


@pytest.mark.parametrize(
    ("default", "inputs"),
    [
        ("'drop'", "es.regression().with_nan()"),
        ("0.0", "es.regression().with_nan()"),
        ("'propagate'", "es.regression()"),
        ("'error'", "es.regression()"),
        ("None", "es.regression()"),
        ("float('nan')", "es.regression()"),
    ],
)
def test_an_option_that_says_what_a_nan_counts_is_no_promise_to_report_it(default, inputs):
    first = proposed(NAN.replace('"drop"', default), "Kept").targets[0]
    assert first.inputs == inputs
    assert ("says what becomes of NaN" in first.origin) == (inputs != "es.regression()")


def test_an_argument_that_has_its_default_is_no_data():
    source = MEAN.replace("update(self, preds, target)", "update(self, preds, target, weight=1.0)").replace(
        ">>> m.update(torch", ">>> m.update(1.0, 2.0)\n    >>> m.update(torch"
    )
    got = proposed(source, "MeanError")
    assert [each.inputs for each in got.targets] == ["es.regression()"] * 4


SPREAD = '''
class Spread:
    """
    .. testcode::

        def share(features, labels):
            return float((features.argmax(1) == labels).float().mean())

        metric = Spread(share)
        metric.attach(default_evaluator, "spread")
        x = torch.tensor([[0.5, 2.5], [1.5, -2.0], [0.0, 1.0]])
        y = torch.tensor([0, 1, 0])
        default_evaluator.run([BATCH])
    """
    def __init__(self, function): self.function = function
    def attach(self, engine, name): engine.on(self.update)
    def reset(self): self.parts = []
    def update(self, output):
        if isinstance(output, dict):
            output = output["features"], output["labels"]
        assert output[0].ndim == 2
        self.parts = [*getattr(self, "parts", []), output]
    def compute(self):
        import torch
        return self.function(torch.cat([f for f, _ in self.parts]), torch.cat([y for _, y in self.parts]))
'''


@pytest.mark.parametrize(
    ("batch", "names"), [("(x, y)", ""), ('{"features": x, "labels": y}', ".named('features', 'labels')")]
)
def test_the_batches_of_a_loop_that_the_example_takes_as_given(batch, names):
    got = proposed("import torch\n" + SPREAD.replace("BATCH", batch), "Spread")
    (only,) = got.targets
    assert only.construction == "Spread(share_of_spread)"
    assert only.imports[0] == "from a_metric_library import Spread"
    assert only.imports[1].startswith("def share_of_spread(features, labels):\n    return float(")
    assert only.inputs == f'es.multiclass(classes=2, of="logits"){names}'
    assert "inputs like those of its example" in only.origin


def test_a_window_of_updates_is_no_promise_about_all_samples():
    windowed = proposed(MEAN.replace("MeanError", "WindowedMeanError"), "WindowedMeanError").targets[0]
    assert {"EC201", "EC203", "EC208"} < set(windowed.not_applicable)
    source = write("title", [windowed], {}, [])
    assert "    not_applicable={\n        'EC201': 'the window counts updates, not samples',\n" in source
    assert proposed(MEAN, "MeanError").targets[0].not_applicable == {}


def test_a_class_whose_methods_are_not_implemented_is_abstract():
    source = "class Base:\n    def update(self, preds, target): raise NotImplementedError\n    def compute(self): return 0.0\n"
    assert proposed(source, "Base").why.startswith("abstract: ")


def test_samples_along_another_dimension_are_no_batch():
    source = (
        "import torch\nclass Cat:\n    '''\n    >>> m = Cat(dim=1)\n    >>> m.update(torch.ones(2, 2))\n    '''\n"
        "    def __init__(self, dim=0): self.dim, self.parts = dim, []\n"
        "    def update(self, values): self.parts.append(values.clone())\n"
        "    def compute(self): return torch.cat(self.parts, dim=self.dim)\n    def reset(self): self.parts = []\n"
    )
    assert [each.construction for each in proposed(source, "Cat").targets] == ["Cat()"]


def test_objects_of_an_example_do_not_exclude_words():
    source = '''
class Bleu:
    """
    >>> m = Bleu()
    >>> m.update(["a b"], [[[1, "b"]]])
    """
    def __init__(self): self.hits = []
    def update(self, preds, target): self.hits += [p == t for p, t in zip(preds, target, strict=True)]
    def compute(self): return sum(self.hits) / len(self.hits)
    def reset(self): self.hits = []
'''
    assert proposed(source, "Bleu").targets[0].inputs == "es.text_pairs()"


def test_a_batch_that_is_one_sample_gets_vectors():
    source = """
class Average:
    def __init__(self): self.total, self.count = 0.0, 0
    def update(self, values):
        self.total = self.total + (values.sum(0) if values.ndim > 1 else values)
        self.count += len(values) if values.ndim > 1 else 1
    def compute(self): return self.total / self.count
    def reset(self): self.total, self.count = 0.0, 0
"""
    assert proposed(source, "Average").targets[0].inputs.startswith("es.arrays((2,), ")


def test_a_metric_that_refuses_small_batches_says_so():
    source = MEAN.replace("def update(self, preds, target):", "def update(self, preds, target):\n        preds[3]")
    assert "it refuses small batches: " in proposed(source, "MeanError").why


def test_time_is_no_metric_of_predictions():
    why = "by its name it measures time, which is another one in every run"
    assert proposed(MEAN.replace("MeanError", "Throughput"), "Throughput").why == why


def test_texts_that_are_too_short_give_way_to_those_of_the_example():
    source = '''
class Grams:
    """
    >>> m = Grams()
    >>> m.update(["a b c d", "a b d e"], ["a b c d", "a c d e"])
    """
    def __init__(self): self.hits, self.count = 0, 0
    def update(self, preds, target):
        if any(len(text.split()) < 4 for text in preds):
            raise ValueError("too short")
        self.hits, self.count = self.hits + sum(map(str.__eq__, preds, target)), self.count + len(preds)
    def compute(self): return self.hits / self.count
    def reset(self): self.hits, self.count = 0, 0
'''
    assert proposed(source, "Grams").targets[0].inputs.startswith("es.rows(['a b c d', ")


def test_a_window_counts_updates():
    source = (
        NAN.replace('nan_strategy="drop"', "window=3").replace("self.nan_strategy", "_").replace("nan_strategy,", "0,")
    )
    (first, *_) = proposed(source, "Kept").targets
    assert set(first.not_applicable) == {"EC201", "EC202", "EC203", "EC208", "EC216", "EC221"}
    assert first.not_applicable["EC201"] == "window=3: the window counts updates, not samples"
    again = source.replace("Kept()", "Kept(2)")
    assert proposed(again, "Kept").targets[0].not_applicable["EC201"].startswith("window=2: the window")
    assert proposed(source.replace("window=3", "window_size_of_images=3"), "Kept").targets[0].not_applicable == {}


def test_a_random_metric_is_not_tried_and_says_why():
    source = MEAN.replace("self.total / self.count", "self.total / self.count + __import__('random').random()")
    source = (
        source.replace('"mean", "sum"', '"mean"').replace(", squared: bool = False", "").replace(" if squared", " if 0")
    )
    source = source.replace("reduction, squared, 0.0", "reduction, 0, 0.0")
    assert "it is random, " in proposed(source, "MeanError").why


def test_labels_are_not_measured_as_numbers():
    source = MEAN.replace("[0.5, 2.5]", "[0, 2]").replace("[1.0, 2.0]", "[1, 2]")
    assert all("regression" not in each.inputs for each in proposed(source, "MeanError").targets)


def test_a_function_with_an_argument_that_has_no_default():
    source = '''
def share(y_true, y_pred, *, weight, absent=0.0):
    """
    >>> share([0, 1, 1], [1, 1, 0], weight=2, absent=float("nan"))
    """
    hits = sum(int(t) == int(p) for t, p in zip(y_true, y_pred))
    return weight * hits / len(y_true)
'''
    assert proposed(source, "share").targets[0].construction == "partial(share, weight=2, absent=float('nan'))"


def test_a_value_for_each_sample_counts_the_ignored_ones():
    source = NAN.replace('"drop"', '"samplewise"').replace("nan_strategy", "multidim_average")
    reason = proposed(source, "Kept").targets[0].not_applicable["EC213"]
    assert reason == "multidim_average='samplewise': every sample has a value of its own, the ignored ones, too"
    assert proposed(source.replace("samplewise", "global"), "Kept").targets[0].not_applicable == {}


def test_the_control_compares_right_predictions_with_wrong_ones():
    # Scores that are cut to integers: right and wrong ones are all 0.
    source = MEAN.replace("(preds - target)", "(preds.long() - target)")
    source = source.replace("[0.5, 2.5]", "[[0.5, 0.25], [0.75, 0.5]]").replace("[1.0, 2.0]", "[[1, 0], [0, 1]]")
    assert not any("probabilities" in each.inputs for each in proposed(source, "MeanError").targets)


TO = """
    def to(self, device):
        assert device in DEVICES
        return self
"""
WITH_DEVICE = MEAN.replace("squared: bool = False", "squared: bool = False, device=None")


@pytest.mark.parametrize(
    ("source", "placed"),
    [
        (MEAN, "MeanError()"),
        (WITH_DEVICE, "MeanError(device=device)"),
        (MEAN + TO.replace("DEVICES", "['cpu']"), "MeanError().to(device)"),
        (WITH_DEVICE + TO.replace("DEVICES", "['cpu']"), "MeanError(device=device)"),
        (MEAN + TO.replace("DEVICES", "['tpu']"), "MeanError()"),
        (MEAN + TO.replace("DEVICES", "['cpu']").replace("return self", "return None"), "MeanError()"),
        (WITH_DEVICE.replace("self.reduction,", "device = device and device + 1; self.reduction,"), "MeanError()"),
    ],
    ids=[
        "no way",
        "argument",
        "method",
        "both",
        "the method refuses",
        "a method that returns nothing",
        "an argument of another kind",
    ],
)
def test_an_object_is_put_on_the_device_of_a_target_as_users_do(source, placed):
    assert proposed(source, "MeanError").targets[0].placed == placed


def test_tensors_that_a_constructor_is_given_are_on_the_device_of_a_target():
    source = WITH_DEVICE.replace("device=None", "offset=0.0, device=None")
    source = source.replace("m = MeanError()", "m = MeanError(offset=torch.tensor(0.5))")
    placed = "MeanError(offset=torch.tensor(0.5).to(device), device=device)"

    assert proposed(source, "MeanError").targets[0].placed == placed


RANKS = """
class Recall:
    def __init__(self, top_k=None): self.top_k, self.hits, self.count = top_k, 0.0, 0.0
    def update(self, preds, target):
        import torch
        chosen = preds.round()
        if self.top_k:
            chosen = torch.zeros_like(preds).scatter(-1, preds.topk(self.top_k).indices, 1.0)
        self.hits, self.count = self.hits + (chosen * target).sum(), self.count + target.sum() + 0.001
    def compute(self): return self.hits / self.count
    def reset(self): self.hits, self.count = 0.0, 0.0
"""


def test_candidates_are_no_rows_of_a_batch():
    got = proposed(RANKS.replace("top_k=None", "top_k=2"), "Recall")
    assert got.targets, got.why
    assert not any(each.inputs.startswith("es.binary") for each in got.targets)


@pytest.mark.parametrize(("option", "code"), [("reorder", "EC208"), ("include_background", "EC216")])
def test_an_option_says_what_does_not_count(option, code):
    source = NAN.replace('nan_strategy="drop"', f"{option}=False").replace("self.nan_strategy", "_")
    reasons = proposed(source.replace("nan_strategy,", "0,"), "Kept").targets[0].not_applicable
    assert reasons[code].startswith(f"{option}=False: ")
    source = source.replace("=False", "=True")
    assert proposed(source.replace("nan_strategy,", "0,"), "Kept").targets[0].not_applicable == {}


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


def test_a_parameter_that_is_one_number_takes_no_arrays():
    source = MEAN.replace("def update(self, preds, target)", "def update(self, preds: float, target: int)")
    assert "has no attribute" in proposed(source, "MeanError").why


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


def test_a_function_that_selects_samples_is_no_metric():
    source = (
        "def positive_only(y_true, y_pred):\n"
        "    kept = [(t, p) for t, p in zip(y_true.tolist(), y_pred.tolist()) if t >= 0]\n"
        "    import torch\n"
        "    return torch.tensor([t for t, _ in kept]), torch.tensor([p for _, p in kept])\n"
    )
    got = proposed(source, "positive_only")
    assert got.targets == []
    assert "it returns rows of its arguments, and no value of them" in {got.why.rpartition(": ")[2], *got.left.values()}


def test_a_curve_for_each_class_as_lists_of_tensors_is_a_value():
    source = (
        "import torch\n"
        "class CurvesOfClasses:\n"
        "    def __init__(self): self.preds, self.target = [], []\n"
        "    def update(self, preds: torch.Tensor, target: torch.Tensor):\n"
        "        self.preds.append(preds), self.target.append(target)\n"
        "    def compute(self):\n"
        "        hits = (torch.cat(self.preds) - torch.cat(self.target)).abs().sort().values\n"
        "        return [hits, hits / 2], [hits + 1, hits]\n"
    )
    assert proposed(source, "CurvesOfClasses").targets


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
    ],
)
def test_a_function_that_takes_a_batch_for_one_sample_is_fed_with_one_a_call(value, tried):
    got = proposed(f"import numpy\ndef forecast_error(y_true, y_pred): return {value}", "forecast_error")
    assert [each.one_sample for each in got.targets] == [not tried], got.why


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
    refused = control("es.regression()", lambda: proposed_thing("dice"))[0]
    assert refused.endswith("any number but 0 is the same to it: it takes masks")


@pytest.mark.parametrize("options", ["top_k=1", "top_k=2"])
def test_a_rate_of_hits_takes_no_masks(options):
    """Among the first two of a few samples there is a hit in most orders."""
    retrieval = pytest.importorskip("torchmetrics.retrieval")
    assert control("es.retrieval()", lambda: eval(f"RetrievalHitRate({options})", vars(retrieval)))[0] == ""


def test_a_function_of_one_image_does_not_take_the_rows_of_a_batch_for_its_lines():
    # Neighbours stay neighbours where rows are reversed or rotated, except at the ends.
    source = (
        "def edges(result, reference):\n    import numpy as np\n    a, b = np.asarray(result), np.asarray(reference)\n"
        "    return float((abs(np.diff(a, axis=0, append=a[:1])) * b).sum() + (a * b).sum())\n"
    )
    (only,) = proposed(source, "edges").targets
    assert only.one_sample
    refused = control('es.binary(of="labels").as_numpy()', lambda: proposed_thing("edges"))[0]
    assert "depends on the order of rows" in refused


def test_samples_that_are_all_the_same_are_no_inputs():
    source = "def score(result, reference):\n    return float(abs(result - reference).mean())\n"
    proposed(source, "score")
    same = "es.rows([[0, 1], [0, 1]], [[1, 1], [1, 1]], dtypes=('int64', 'int64'), mixed=False)"
    assert control(same, lambda: proposed_thing("score"))[0].endswith("its samples are all the same")


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


def test_two_arrays_that_are_numbered_are_a_pair_and_no_weighted_value():
    source = "def euclidean_error(h1, h2):\n    return float(((h1 - h2) ** 2).mean())\n"
    (only,) = proposed(source, "euclidean_error").targets
    assert only.inputs.startswith("es.regression()")
