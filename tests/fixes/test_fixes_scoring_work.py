"""How far is read ahead of the workers."""

from __future__ import annotations

from pytest_evalcheck.fixes.scoring.cache import Lookup
from pytest_evalcheck.fixes.scoring.work import Sizes, Work
from pytest_evalcheck.fixes.scoring.worker import Outcome


def test_who_is_done_finds_something_to_do_when_chunks_grow_smaller():
    sizes = Sizes(total=None, jobs=2, target=0.2, fixed=None)
    lookup = Lookup(None, score=len, seed=None, depends_on={})
    work = Work(range(100_000), sizes=sizes, lookup=lookup, document_id="id", window=None)
    for _ in range(4):
        sizes.measured(1, 0.002)
    work.top_up()
    assert [len(piece.places) for piece in work.ready] == [100] * 8
    sent = [work.ready.popleft() for _ in range(8)]
    # The first is done, and ten times as dear as those before it: the others that were sent are still out.
    work.done(sent[0], Outcome(scores=[0] * 100, seconds=2.0))
    assert [len(chunk.documents) for chunk in work.finished()] == [100]
    work.top_up()
    assert work.ready
