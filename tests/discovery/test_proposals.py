"""From a class or a function to targets: what is used, and what the control refuses."""

import pytest
from proposed_targets import MEAN, proposed

from pytest_evalcheck.discovery.target_source import write


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
        "es.regression().replace(min_samples=2)"
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
        "es.regression().replace(min_samples=6)"
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
    named = MEAN.replace("MeanError", "WindowedMeanError")
    fades = named.replace("self.total + error", "0.5 * self.total + error")
    windowed = proposed(fades, "WindowedMeanError").targets[0]
    assert {"EC201", "EC203", "EC208"} < set(windowed.not_applicable)
    source = write("title", [windowed], {}, [])
    assert "    not_applicable={\n        'EC201': 'the window counts updates, not samples',\n" in source
    assert proposed(MEAN, "MeanError").targets[0].not_applicable == {}
    assert (
        proposed(named, "WindowedMeanError").targets[0].not_applicable == {}
    )  # the order of its updates does not count


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


@pytest.mark.parametrize(
    "time",
    ["round(time.time(), -2)", "time.perf_counter_ns() // 10**9", "round(time.monotonic() - began, 1)"],
)
def test_a_value_that_has_a_time_is_decided_by_another_clock_and_not_by_a_word(time: str):
    assert proposed(MEAN.replace("MeanError", "SpeedError"), "SpeedError").targets
    begun = "began = time.monotonic()\n        time.sleep(1e-3)\n        return " + time + " + ("
    source = "import time\n" + MEAN.replace("return ", begun).replace("/ self.count", "/ self.count)")
    found = proposed(source, "MeanError")
    assert found.decided.startswith("its value has a time, ")
    assert not found.targets


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
    assert set(first.not_applicable) == {"EC201", "EC202", "EC203", "EC208", "EC216", "EC221", "EC224"}
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


@pytest.mark.parametrize(
    "body",
    [
        "    kept = [(t, p) for t, p in zip(y_true.tolist(), y_pred.tolist()) if t >= 0]\n"
        "    import torch\n"
        "    return torch.tensor([t for t, _ in kept]), torch.tensor([p for _, p in kept])\n",
        "    import numpy\n"
        "    t, p = numpy.asarray(y_true), numpy.asarray(y_pred)\n"
        "    return list(t[t >= 0]), list(p[t >= 0])\n",
    ],
    ids=["tensors", "lists of numbers of numpy"],
)
@pytest.mark.slow(every=2)
def test_a_function_that_selects_samples_is_no_metric(body):
    got = proposed(f"def positive_only(y_true, y_pred):\n{body}", "positive_only")
    assert got.targets == []
    assert "it returns rows of its arguments, and no value of them" in {got.why.rpartition(": ")[2], *got.left.values()}


def test_a_module_that_is_called_is_evaluated_in_its_eval_mode():
    source = (
        "import torch\n"
        "class QueueLoss(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.calls = 0\n"
        "    def forward(self, preds, target):\n"
        "        self.calls += self.training\n"
        "        return (preds - target).abs().mean() * (1 + self.calls)\n"
    )
    got = proposed(source, "QueueLoss")
    assert {target.setup for target in got.targets} == {("eval",)}
    assert "made.eval()" in write("title", got.targets, {}, [])

    # Where the queue is written in eval mode, too, the loss is no metric.
    source = source.replace("self.training", "1")
    got = proposed(source, "QueueLoss")
    assert not got.targets
    assert got.decided.startswith("a call changes what the next one gives, ")


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


def test_inputs_of_another_configuration_have_the_ignored_label_of_this_one():
    source = (
        "import torch\n"
        "class Hits:\n"
        "    def __init__(self, ignore_index=-100): self.ignore_index, self.hits, self.count = ignore_index, 0, 0\n"
        "    def update(self, preds, target):\n"
        "        kept = target == target if self.ignore_index is None else target != self.ignore_index\n"
        "        self.hits, self.count = self.hits + ((preds == target) & kept).sum(), self.count + kept.sum()\n"
        "    def compute(self): return self.hits / self.count\n"
        "    def reset(self): self.hits, self.count = 0, 0\n"
    )
    inputs = {each.label: each.inputs for each in proposed(source, "Hits").targets}
    assert "ignore_index=-100" in inputs[""]
    assert "ignore_index" not in inputs["ignore_index=None"]
    assert "ignore_index=-1)" in inputs["ignore_index=-1"]


def test_words_decide_nothing_where_a_call_shows_a_form():
    refusing = MEAN.replace(
        "        error =", "        assert not preds.is_floating_point(), 'labels'\n        error ="
    )
    assert proposed(refusing.replace(">>> m.update", ">>> # m.update"), "MeanError").targets
    got = proposed(refusing, "MeanError")
    assert (got.targets, "update raised AssertionError: labels" in got.why) == ([], True)
