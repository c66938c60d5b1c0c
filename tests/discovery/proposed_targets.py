"""A module of metrics that only tests know, and what is proposed for one of them."""

import sys
import types
from dataclasses import replace

from pytest_evalcheck.discovery.candidates import Candidate
from pytest_evalcheck.discovery.proposals import propose

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


def proposed_thing(name):
    return getattr(MODULE, name)


def proposed(source, name, call=""):
    for known in [each for each in vars(MODULE) if not each.startswith("__")]:
        delattr(MODULE, known)  # what a module imports decides about the inputs: a test has its own imports alone
    exec(source, MODULE.__dict__)
    thing = getattr(MODULE, name)
    thing.__module__ = "a_metric_library"
    got = propose(Candidate(module="a_metric_library", name=name, is_class=isinstance(thing, type), call=call))
    return replace(got, targets=[replace(each, inputs=str(each.inputs)) for each in got.targets])
