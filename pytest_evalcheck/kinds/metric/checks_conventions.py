"""EC233 to EC235: the value does not depend on which documented way of calling a metric is used, or on when."""

from __future__ import annotations

from pytest_evalcheck.expectations.comparison import Raised
from pytest_evalcheck.expectations.failures import NotApplicable, expect, inconclusive
from pytest_evalcheck.expectations.ids import slug
from pytest_evalcheck.kinds.common.check import check
from pytest_evalcheck.kinds.metric.cases import ConventionStream, Shards, Stream
from pytest_evalcheck.kinds.metric.subject import MetricSubject

_FEW = 8


@check("EC233", conditions=("several batches", "a last batch of one"), examples=_FEW, after=("EC201",))
def every_way_to_call_gives_the_same_value(metric: MetricSubject, case: ConventionStream) -> None:
    """Each documented way to call a metric gives the same value: by name or by position, in one call or in many.

    The ways are the conventions of its record.

    Why: which of them a script uses is a matter of style, and must not be one of the score.
    Usual cause: one way has code of its own, which forgets a batch, an option or the names of the arguments.
    Fix: let all of them end in one method: `__call__` calls `self.update(*args, **kwargs)`.
    """
    expected = metric.value(case.split)
    for name, sentence, called in metric.by_convention(case.first):
        expect(called.value(case.split)).equals(
            expected, about=f"the value by the convention {name!r}", id=f"called-by-{slug(name)}", detail=sentence
        )


@check(
    "EC234",
    conditions=("uneven shards", "several batches a rank"),
    examples=12,
    after=("EC205", "EC219", "EC203", "EC220"),
)
def a_merge_after_compute_gives_the_merged_value(metric: MetricSubject, case: Shards) -> None:
    """Ranks that were asked for their own values before they are merged give the same merged value.

    Why: each rank logs its score, and the merged one is reported.
    Usual cause: `compute` keeps its value, and merging does not drop it.
    Fix: pytest_evalcheck.fixes.cached_compute; or `self.value = None` in each of `update`, `reset`, the merge and the
    loading of a state.
    """
    methods = [name for name in metric.merges if name not in metric.build().collective]
    if not methods:
        raise NotApplicable("no rank merges the state of another rank: all ranks compute together")
    for method in methods:
        expected = metric.merged(method, case.split)
        if isinstance(expected, Raised):
            inconclusive(f"{expected}, also where no rank was asked before")
            continue
        about = f"the value after merging by {method} what was asked for its value before"
        expect(metric.merged(method, case.split, ask_first=True)).equals(
            expected, about=about, id=f"asked-before-merging-by-{slug(method)}"
        )


@check(
    "EC235",
    conditions=("several batches", "a last batch of one"),
    examples=_FEW,
    after=("EC209", "EC204", "EC205", "EC219"),
)
def a_loaded_state_replaces_what_was_there(metric: MetricSubject, case: Stream) -> None:
    """A checkpoint that is loaded into a metric which was fed and asked for its value gives the value that was saved.

    Why: a metric of a running evaluation goes back to its checkpoint, as after a restart.
    Usual cause: `compute` keeps its value, or what the checkpoint does not hold stays as it was.
    Fix: pytest_evalcheck.fixes.cached_compute; or `self.value = None` when a state is loaded, and save all that
    `compute` reads.
    """
    middle = (len(case.split) + 1) // 2
    loaded = "the value after a checkpoint was loaded into a metric that was fed"
    for about, forgets in ((loaded, False), (f"{loaded}, and the cache was dropped", True)):
        saved, used = metric.fresh().update(*case.split[:middle]), metric.fresh()
        used.update(*case.split[::-1], *case.split[:1]).compute()
        used.load(saved)
        if used.failed:
            new = metric.fresh()
            new.load(saved)
            if new.failed:
                inconclusive(f"{new.failed}, also where it is loaded into a new metric")
                return
        if forgets:
            used.forget()
        expect(used.compute()).equals(saved.compute(), about=about, id="loaded-without-cache" if forgets else "loaded")
