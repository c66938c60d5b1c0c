"""The reference fixes: each is the smallest correct form of something that evaluation code gets wrong.

They need torch alone, which is loaded with the first of them. Accumulators have one protocol: ``update`` takes
a batch, ``compute`` gives the value, ``forward`` (or a call) does ``update`` and gives the value of the batch,
``reset`` forgets, ``merge`` takes in the accumulators of other shards in rank order, ``state_dict`` and
``load_state_dict`` carry the state elsewhere, ``to`` moves it. All of them can be copied and pickled in the middle
of a stream, leave their inputs as they were (EC206), own their state (EC207), and refuse a bad batch before they
change anything (EC210).

Over ranks, gather the states and merge them: a sum and its weight travel, never a mean::

    states = [None] * world_size
    torch.distributed.all_gather_object(states, mean.state_dict())
    whole = WeightedMean()
    for state in states:
        shard = WeightedMean()
        shard.load_state_dict(state)
        whole.merge(shard)

Around a model: `split_labels` and `shifted` prepare a batch without a trace in it, `require_batch` says what is
wrong with one, and `lent` takes a model back from an evaluation as it was. `pytest_evalcheck.fixes.composer`
mends Composer's ``HuggingFaceModel`` with them, `pytest_evalcheck.fixes.devices` brings together what stands on
different devices, `pytest_evalcheck.fixes.scoring` scores documents in parallel, and `pytest_evalcheck.fixes.caches`
keeps the caches of decoders between batches; these are imported by their names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_evalcheck.fixes.lazy import lazily

if TYPE_CHECKING:
    from pytest_evalcheck.fixes.accumulation import CompensatedSum
    from pytest_evalcheck.fixes.batches import MissingField, require_batch
    from pytest_evalcheck.fixes.labels import shifted, split_labels
    from pytest_evalcheck.fixes.lending import lent
    from pytest_evalcheck.fixes.mean import WeightedMean, mean_of
    from pytest_evalcheck.fixes.moments import Moments
    from pytest_evalcheck.fixes.sample_stream import SampleStream

# Workers that score documents import this package, and have no use for torch.
_HOMES = {
    "CompensatedSum": "accumulation",
    "MissingField": "batches",
    "Moments": "moments",
    "SampleStream": "sample_stream",
    "WeightedMean": "mean",
    "lent": "lending",
    "mean_of": "mean",
    "require_batch": "batches",
    "shifted": "labels",
    "split_labels": "labels",
}

__all__ = [
    "CompensatedSum",
    "MissingField",
    "Moments",
    "SampleStream",
    "WeightedMean",
    "lent",
    "mean_of",
    "require_batch",
    "shifted",
    "split_labels",
]

__getattr__ = lazily(__name__, _HOMES)
