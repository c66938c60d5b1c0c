"""Subjects of the wrappers of the gallery, and samples for them."""

from __future__ import annotations

from typing import Any

import torch

import pytest_evalcheck as ec
from fixtures.gallery.wrappers_correct import ImageClassifier
from pytest_evalcheck.kinds.wrapper.subject import WrapperSubject

IMAGE = ((0.0, 0.25, 0.5, 1.0), 1)
IMAGES = [IMAGE, ((1.0, 0.0, 0.0, 0.0), 2), ((-1.0, 0.0, 0.0, 0.5), 0)]


def subject(made: Any = ImageClassifier, **more: Any) -> WrapperSubject:
    """The subject of a class of the gallery, some of whose callables are replaced."""

    def build() -> ec.Wrapper:
        torch.manual_seed(0)
        record: ec.Wrapper = made().record()
        return ec.Wrapper(**{**vars(record), **more})

    return WrapperSubject(build=build, inputs=made.inputs)
