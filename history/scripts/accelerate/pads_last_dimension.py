"""Rows of another length on each of two processes, padded by their last dimension, which is named -1."""

import sys
import tempfile
from pathlib import Path

import torch
from accelerate import PartialState, debug_launcher
from accelerate.utils import pad_across_processes

SHAPES = tempfile.mkdtemp()


def padded():
    """Note the shape of the rows of this process after padding."""
    rank = PartialState().process_index
    try:
        found = list(pad_across_processes(torch.ones(2, 3 + rank), dim=-1).shape)
    except Exception as error:
        found = f"{type(error).__name__}: {error}"
    Path(SHAPES, str(rank)).write_text(str(found), encoding="utf-8")


if __name__ == "__main__":
    debug_launcher(padded, num_processes=2)
    shapes = [Path(SHAPES, str(rank)).read_text(encoding="utf-8") for rank in (0, 1)]
    print("the shapes of both processes:", shapes)
    sys.exit(int(shapes != ["[2, 4]", "[2, 4]"]))
