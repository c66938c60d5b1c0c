"""Patches of accelerate."""

from __future__ import annotations

from pytest_evalcheck.fixes.patches.patch import Library, Patch, put_after, put_before

LIBRARY = Library(
    "accelerate",
    "1.15",
    "1.16",
    source="src/",
    patches=(
        Patch(
            mends=("accelerate-gather-keeps-padding-of-streams",),
            says="gather_for_metrics drops what fills up the last batch of a stream that every rank reads",
            edits={
                "accelerate.data_loader:IterableDatasetShard.__iter__": (
                    put_before(
                        "if not self.drop_last and len(current_batch) > 0:",
                        "self.remainder = 0 if self.drop_last else len(current_batch)",
                    ),
                ),
                "accelerate.data_loader:DataLoaderShard.__iter__": (
                    put_after(
                        "self.end_of_dataloader = True",
                        """\
# A stream knows at its end how many samples its last batches have; the copies of workers do not tell it.
dataset = self.base_dataloader.dataset
if self.remainder == -1 and self.base_dataloader.num_workers == 0 and isinstance(dataset, IterableDatasetShard):
    self.remainder = dataset.remainder""",
                    ),
                ),
            },
            test="""
                from accelerate import Accelerator
                from accelerate.data_loader import DataLoaderShard, IterableDatasetShard
                from torch.utils.data import IterableDataset


                class Stream(IterableDataset):
                    def __init__(self, size):
                        self.size = size

                    def __iter__(self):
                        return iter(range(self.size))


                accelerator = Accelerator(cpu=True)
                for size, last in ((7, 3), (8, 0), (1, 1)):
                    for rank in range(2):
                        shard = IterableDatasetShard(Stream(size), batch_size=2, num_processes=2, process_index=rank)
                        for _ in DataLoaderShard(shard, batch_size=2):
                            remainder = accelerator.gradient_state.remainder
                        assert remainder == last
            """,
        ),
    ),
)
