"""A batch sampler of one's own, which has no sampler inside."""

import sys

from accelerate import Accelerator
from torch.utils.data import DataLoader


class Pairs:
    """Two batches."""

    batch_size, drop_last = 2, False

    def __iter__(self):
        return iter([[0, 1], [2]])

    def __len__(self):
        return 2


try:
    loader = Accelerator(cpu=True).prepare(DataLoader([1.0, 2.0, 3.0], batch_sampler=Pairs()))
    print([batch.tolist() for batch in loader])
except AttributeError as error:
    print(error)
    sys.exit(1)
