"""The release of torch that is installed: what a device lacks, and the words of errors, differ between them."""

from __future__ import annotations

import torch

TORCH_RELEASE = tuple(int(part) for part in torch.__version__.split(".")[:2])
"""For example ``(2, 13)``."""
