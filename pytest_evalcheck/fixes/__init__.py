"""The reference fixes: for each common fault of evaluation code, the smallest correct code.

They need torch alone, which is imported with the first of them. Accumulators have one protocol: ``update`` adds
a batch, ``compute`` returns the value, ``forward`` (or a call) does ``update`` and returns the value of the batch,
``reset`` forgets all values, ``merge`` adds the accumulators of other shards in rank order, ``state_dict`` and
``load_state_dict`` copy the state, ``to`` moves it. All of them can be copied and pickled in the middle of a stream,
do not change their inputs (EC206), own their state (EC207), and check a batch before they change anything (EC210).

Over ranks, gather the states and merge them: send a sum and its weight, never a mean::

    states = [None] * world_size
    torch.distributed.all_gather_object(states, mean.state_dict())
    whole = WeightedMean()
    for state in states:
        shard = WeightedMean()
        shard.load_state_dict(state)
        whole.merge(shard)

Around a model: `split_labels` and `shift_labels` prepare a batch without changing it, `require_batch` checks one, and
`evaluating` restores the state of a model after an evaluation. `pytest_evalcheck.fixes.composer` applies them to
Composer's ``HuggingFaceModel``, `pytest_evalcheck.fixes.devices` moves the arguments of metrics to one device,
`pytest_evalcheck.fixes.scoring` scores documents in parallel, and `pytest_evalcheck.fixes.caches` keeps the caches of
decoders between batches; import these by their names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_evalcheck.fixes.lazy import lazy_exports

if TYPE_CHECKING:
    from pytest_evalcheck.fixes.batches import MissingField as MissingField
    from pytest_evalcheck.fixes.batches import require_batch as require_batch
    from pytest_evalcheck.fixes.batches import shift_labels as shift_labels
    from pytest_evalcheck.fixes.batches import split_labels as split_labels
    from pytest_evalcheck.fixes.compensated_sum import CompensatedSum as CompensatedSum
    from pytest_evalcheck.fixes.eval_mode import evaluating as evaluating
    from pytest_evalcheck.fixes.online_moments import Moments as Moments
    from pytest_evalcheck.fixes.patches.applying import patched as patched
    from pytest_evalcheck.fixes.patches.editing import PatchError as PatchError
    from pytest_evalcheck.fixes.results import cached_compute as cached_compute
    from pytest_evalcheck.fixes.results import copy_result as copy_result
    from pytest_evalcheck.fixes.sample_stream import SampleStream as SampleStream
    from pytest_evalcheck.fixes.weighted_mean import WeightedMean as WeightedMean
    from pytest_evalcheck.fixes.weighted_mean import combine_means as combine_means

# Workers that score documents import this package, and have no use for torch.
__getattr__, __all__ = lazy_exports(
    __name__,
    {
        "batches": "MissingField require_batch shift_labels split_labels",
        "compensated_sum": "CompensatedSum",
        "eval_mode": "evaluating",
        "online_moments": "Moments",
        "patches.applying": "patched",
        "patches.editing": "PatchError",
        "results": "cached_compute copy_result",
        "sample_stream": "SampleStream",
        "weighted_mean": "WeightedMean combine_means",
    },
)
