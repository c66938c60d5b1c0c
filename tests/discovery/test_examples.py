"""Calls that are read from the examples of a docstring."""

import sys
import types

import pytest

from pytest_evalcheck.discovery.examples import observe, source_blocks

MODULE = types.ModuleType("an_example_library")
sys.modules["an_example_library"] = MODULE


def defined(source):
    exec(source, MODULE.__dict__)
    return MODULE.__dict__


@pytest.fixture
def top_k():
    return defined(
        '''
class TopK:
    """The share of hits.

    >>> from an_example_library import TopK
    >>> scores, k = [0.1, 0.7], 2
    >>> limit = 3
    >>> metric = TopK(limit, average="micro")
    >>> other = TopK(1)
    >>> metric.update(scores, target=[0, 1])
    >>> other.update([0.5], [1])
    >>> metric.compute()
    0.5
    >>> metric.update([0.2], [1])
    """
    def __init__(self, k, average="macro"): self.k = k
    def update(self, preds, target, weight=None): self.last = preds
    def compute(self): return 0.5
'''
    )["TopK"]


def test_the_construction_and_the_arguments_of_an_example(top_k):
    found, problem = observe(top_k, ("update",))
    assert problem == ""
    first, second = found
    assert first.construction == "TopK(3, average='micro')"  # the name of a variable became its value
    assert first.imports == ("from an_example_library import TopK",)
    assert first.calls == [
        {"preds": [0.1, 0.7], "target": [0, 1], "weight": None},
        {"preds": [0.2], "target": [1], "weight": None},
    ]
    assert second.construction == "TopK(1)"
    assert second.calls[0]["preds"] == [0.5]


def test_an_example_that_ends_early_keeps_what_it_has_shown(top_k):
    top_k.__doc__ = ">>> m = TopK(1)\n>>> m.update([1], [1])\n>>> raise SystemExit\n>>> m.update([2], [2])\n"
    found, problem = observe(top_k, ("update",))
    assert problem == ""
    assert [call["preds"] for call in found[0].calls] == [[1]]
    top_k.__doc__ = ">>> m = TopK(1)\n>>> import not_there_at_all\n>>> m.update([2], [2])\n"
    found, problem = observe(top_k, ("update",))
    assert found == []
    assert problem == "its example raised ModuleNotFoundError: No module named 'not_there_at_all'"


def test_an_object_that_is_fed_where_it_is_made(top_k):
    top_k.__doc__ = ">>> TopK(2).update([1], [0])\n"
    ((observed,), _) = observe(top_k, ("update",))
    assert observed.construction == "TopK(2)"
    assert observed.calls == [{"preds": [1], "target": [0], "weight": None}]


def test_testcode_blocks_are_examples_too(top_k):
    top_k.__doc__ = "Words.\n\n.. testcode::\n\n    m = TopK(4)\n    m.update([1], [1])\n\n.. testoutput::\n\n    1\n"
    assert source_blocks(top_k.__doc__) == ["\nm = TopK(4)\nm.update([1], [1])\n\n"]
    ((observed,), _) = observe(top_k, ("update",))
    assert observed.construction == "TopK(4)"


def test_a_function_is_watched_when_it_is_called():
    share = defined(
        '''
def share(y_true, y_pred, *, normalize=True):
    """
    >>> share([0, 1], [1, 1], normalize=False)
    """
    return 1.0
'''
    )["share"]
    ((observed,), _) = observe(share, ())
    assert observed.calls == [{"y_true": [0, 1], "y_pred": [1, 1], "normalize": False}]


def test_without_examples_it_says_so(top_k):
    top_k.__doc__ = "No example."
    assert observe(top_k, ("update",)) == ([], "its docstring has no example")
    top_k.__doc__ = ">>> TopK(3).compute()\n0.5\n"
    assert observe(top_k, ("update",)) == ([], "its examples never feed it")


def test_nothing_of_the_library_is_replaced_while_its_examples_run(top_k):
    update = top_k.update
    observe(top_k, ("update",))
    assert top_k.update is update
    assert sys.getprofile() is None


def test_what_is_called_before_it_is_fed():
    tracker = defined(
        '''
class Tracker:
    """The score of each epoch.

    >>> tracker = Tracker()
    >>> for epoch in range(2):
    ...     tracker.increment()
    ...     for batch in range(2):
    ...         tracker.update([1], [1])
    ...     tracker.finish()
    >>> tracker.close()
    """
    def increment(self): self.open = True
    def update(self, preds, target): assert self.open
    def compute(self): return 0.5
    def finish(self): ...
    def close(self): ...
'''
    )["Tracker"]
    (found,), problem = observe(tracker, ("update",))
    assert (found.construction, found.setup, problem) == ("Tracker()", ("increment",), "")


def test_testcode_below_a_heading_is_an_example_too(top_k):
    top_k.__doc__ = (
        "Words.\n\nExamples:\n    More words.\n\n    .. testcode:: 1\n\n        m = TopK(4)\n        m.update([1], [1])\n"
        "\n    .. testoutput:: 1\n\n        1\n\n    .. testcode:: 2\n\n        m = TopK(5)\n        m.update([1], [0])\n"
    )
    found, _ = observe(top_k, ("update",))
    assert [each.construction for each in found] == ["TopK(4)", "TopK(5)"]


LOOP = """
.. testcode::

    m = TopK(4)
    m.attach(default_evaluator, "hits")
    pred, true = [0.5, 0.2], [1, 0]
    state = default_evaluator.run([[pred, true]])
    print(state.metrics["hits"])

.. testcode::

    m = TopK(5)
    m.attach(default_evaluator, "hits")
    default_evaluator.run([{"preds": pred, "target": true}, "no batch"])

.. testcode::

    m = TopK(6)
    default_evaluator.run(zip([pred], [true]))
"""


def test_what_an_example_takes_as_given_notes_its_batches(top_k):
    top_k.__doc__ = LOOP
    top_k.attach = lambda self, engine, name: engine.on(self.update, name)
    first, second, third = observe(top_k, ("update",))[0]
    assert first.construction == "TopK(4)"
    assert first.calls == [{"0": [0.5, 0.2], "1": [1, 0]}]  # what the loop returns, by position
    assert second.calls == [{"preds": [0.5, 0.2], "target": [1, 0]}]
    assert third.calls == first.calls


def test_an_object_that_an_example_takes_as_given_cannot_be_written(top_k):
    top_k.__doc__ = ">>> m = TopK(default_model)\n>>> m.update([1], [1])\n"
    assert observe(top_k, ("update",)) == ([], "its examples never feed it")


def test_functions_of_an_example_are_written_with_the_construction(top_k):
    top_k.__doc__ = """
    >>> import math
    >>> def gain(x):
    ...     y = math.log(x)
    ...     return y / 2
    >>> m = TopK(gain, average=lambda row: sum(row))
    >>> m.update([1], [1])
    """
    ((observed,), _) = observe(top_k, ("update",))
    assert observed.construction == "TopK(gain_of_top_k, average=lambda row: sum(row))"
    assert observed.imports == (
        "from an_example_library import TopK",
        "import math",
        "def gain_of_top_k(x):\n    y = math.log(x)\n    return y / 2",
    )


def test_modules_that_an_example_forgot_to_import(top_k):
    top_k.__doc__ = ">>> m = an_example_library.TopK(np.int64(3))\n>>> m.update(np.ones(2), [1, 0])\n"
    ((observed,), _) = observe(top_k, ("update",))
    assert observed.construction == "an_example_library.TopK(np.int64(3))"
    assert observed.imports == ("import an_example_library", "import numpy as np")


def test_public_names_of_the_package_of_an_example(top_k):
    inner = types.ModuleType("an_example_library.inner")
    sys.modules["an_example_library.inner"] = inner
    exec(
        "class Weighted:\n    def __init__(self, other): pass\n    def update(self, preds, target): pass\n", vars(inner)
    )
    inner.Weighted.__doc__ = ">>> m = Weighted(TopK(2))\n>>> m.update([1], [1])\n"
    inner.Weighted.__module__ = "an_example_library.inner"
    ((observed,), _) = observe(inner.Weighted, ("update",))
    assert observed.construction == "Weighted(TopK(2))"
    assert observed.imports[1] == "from an_example_library import TopK"


def test_random_numbers_of_an_example_are_the_same_in_every_run():
    names = defined(
        '''
class Drawn:
    """The mean of what is drawn.

    >>> import random
    >>> import torch
    >>> Drawn().update(torch.randn(3), [random.random()])
    """
    def update(self, preds, target): pass
'''
    )
    first, second = (observe(names["Drawn"], ("update",))[0][0].calls[0] for _ in range(2))
    assert first["preds"].tolist() == second["preds"].tolist()
    assert first["target"] == second["target"]
