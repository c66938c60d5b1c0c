"""The reference fixes: each is the smallest correct form of something that evaluation code gets wrong.

They need torch alone. Accumulators have one protocol: ``update`` takes a batch, ``compute`` gives the value,
``forward`` (or a call) does ``update`` and gives the value of the batch, ``reset`` forgets, ``merge`` takes
in the accumulators of other shards in rank order, ``state_dict`` and ``load_state_dict`` carry the state
elsewhere, ``to`` moves it. All of them can be copied and pickled in the middle of a stream, leave their
inputs as they were (EC206), own their state (EC207), and refuse a bad batch before they change anything
(EC210).

Over ranks, gather the states and merge them: a sum and its weight travel, never a mean::

    states = [None] * world_size
    torch.distributed.all_gather_object(states, mean.state_dict())
    whole = WeightedMean()
    for state in states:
        shard = WeightedMean()
        shard.load_state_dict(state)
        whole.merge(shard)
"""

from pytest_evalcheck.fixes.accumulation import CompensatedSum
from pytest_evalcheck.fixes.mean import WeightedMean, mean_of
from pytest_evalcheck.fixes.moments import Moments
from pytest_evalcheck.fixes.sample_stream import SampleStream

__all__ = ["CompensatedSum", "Moments", "SampleStream", "WeightedMean", "mean_of"]
