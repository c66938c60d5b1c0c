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

Around a model: `split_labels` and `shift_labels` prepare a batch without a trace in it, `require_batch` says what is
wrong with one, and `evaluating` takes a model back from an evaluation as it was. `pytest_evalcheck.fixes.composer`
mends Composer's ``HuggingFaceModel`` with them, `pytest_evalcheck.fixes.devices` brings together what stands on
different devices, `pytest_evalcheck.fixes.scoring` scores documents in parallel, and `pytest_evalcheck.fixes.caches`
keeps the caches of decoders between batches; these are imported by their names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_evalcheck.fixes.lazy import lazy_exports

if TYPE_CHECKING:
    from pytest_evalcheck.fixes.batches import MissingField as MissingField
    from pytest_evalcheck.fixes.batches import require_batch as require_batch
    from pytest_evalcheck.fixes.compensated_sum import CompensatedSum as CompensatedSum
    from pytest_evalcheck.fixes.eval_mode import evaluating as evaluating
    from pytest_evalcheck.fixes.labels import shift_labels as shift_labels
    from pytest_evalcheck.fixes.labels import split_labels as split_labels
    from pytest_evalcheck.fixes.online_moments import Moments as Moments
    from pytest_evalcheck.fixes.sample_stream import SampleStream as SampleStream
    from pytest_evalcheck.fixes.weighted_mean import WeightedMean as WeightedMean
    from pytest_evalcheck.fixes.weighted_mean import combine_means as combine_means

# Workers that score documents import this package, and have no use for torch.
__getattr__, __all__ = lazy_exports(
    __name__,
    {
        "batches": "MissingField require_batch",
        "compensated_sum": "CompensatedSum",
        "eval_mode": "evaluating",
        "labels": "shift_labels split_labels",
        "online_moments": "Moments",
        "sample_stream": "SampleStream",
        "weighted_mean": "WeightedMean combine_means",
    },
)
