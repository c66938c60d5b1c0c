"""A batch with a text in it, from a loader that dispatches its batches."""

import sys

from accelerate import Accelerator, DataLoaderConfiguration
from torch.utils.data import DataLoader

accelerator = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(dispatch_batches=True))
loader = accelerator.prepare(DataLoader([{"x": 1.0, "text": "a"}, {"x": 2.0, "text": "b"}], batch_size=1))
try:
    print([batch["text"] for batch in loader])
except TypeError as error:
    print(error)
    sys.exit(1)
