"""EC101 to EC105: a batch is only read, and what comes out belongs to whoever asked."""

from __future__ import annotations

from pytest_evalcheck.expectations.comparison import Raised
from pytest_evalcheck.expectations.failures import NotApplicable, expect, refused
from pytest_evalcheck.guard import Snapshot
from pytest_evalcheck.kinds.common.check import check
from pytest_evalcheck.kinds.wrapper.cases import Batch, Pair
from pytest_evalcheck.kinds.wrapper.outputs import settled, write_into
from pytest_evalcheck.kinds.wrapper.subject import GIVEN, WrapperSubject, in_mode

_EXAMPLES = 12


@check("EC101", regimes=("a batch of one", "several rows"), examples=_EXAMPLES)
def forward_leaves_its_batch_as_it_was(wrapper: WrapperSubject, case: Batch) -> None:
    """`forward` leaves the batch exactly as it found it: keys, order, containers, tensors and their values.

    Why: a batch is scored by several metrics, logged, cached and seen again in the next evaluation.
    Usual cause: labels are popped, shifted in place, or a field such as `decoder_input_ids` is added.
    Fix: pytest_evalcheck.fixes.split_labels, pytest_evalcheck.fixes.shift_labels
    """
    for mode in wrapper.modes:
        batch = wrapper.batch(case.samples, mode, container=case.container)
        before = Snapshot(batch)
        outputs = wrapper.fresh().forward(batch)
        changes = before.changes()
        if isinstance(outputs, Raised) and not changes:
            refused(outputs)
            continue
        expect(batch).holds(
            not changes, about=f"forward changed its batch{in_mode(mode)}", detail="\n".join(changes[:4])
        )


@check("EC102", regimes=("a batch of one", "several rows"), examples=_EXAMPLES)
def the_same_batch_gives_the_same_outputs_again(wrapper: WrapperSubject, case: Batch) -> None:
    """The same batch gives the same outputs again, and metrics the same value.

    Why: cached batches are evaluated every epoch, and two evaluators may share one data set.
    Usual cause: the first call took something out of the batch, or left something on the module.
    Fix: pytest_evalcheck.fixes.split_labels
    """
    for mode in wrapper.modes:
        live, batch = wrapper.fresh(), wrapper.batch(case.samples, mode)
        first = live.seen(batch)
        for time in ("second", "third"):
            expect(live.seen(batch)).equals(first, about=f"what the {time} call gives{in_mode(mode)}")


@check("EC103", regimes=("a batch of one", "several rows"), examples=_EXAMPLES)
def any_metrics_in_any_order_are_fed_from_one_forward(wrapper: WrapperSubject, case: Batch) -> None:
    """Any number of metrics, in any order, can be fed from one batch and one forward.

    A metric of the wrapper that refuses what it is fed, though the forward succeeded, breaks the promise too.

    Why: which metrics are logged beside it must not change what a metric says.
    Usual cause: `update` consumes the labels, or shifts or moves them for all that come after, or never had any.
    Fix: pytest_evalcheck.fixes.split_labels
    """
    if wrapper.record.update is None:
        raise NotApplicable("the wrapper feeds no metric")
    for mode in wrapper.modes:
        alone = {}
        for name in (GIVEN, *wrapper.fresh().scored()):
            live, batch = wrapper.fresh(), wrapper.batch(case.samples, mode)
            alone[name] = live.fed(batch, live.forward(batch), only=name)[name]
            unfed = isinstance(alone[name], Raised) and not isinstance(alone[GIVEN], Raised)
            if unfed:  # an `expect` that always holds would count where everything was refused
                expect(mode).holds(False, about=f"{name} cannot be fed{in_mode(mode)}", detail=str(alone[name]))
        for backwards in (False, True):
            live, batch = wrapper.fresh(), wrapper.batch(case.samples, mode)
            fed = live.fed(batch, live.forward(batch), times=2, backwards=backwards)
            for name, value in alone.items():
                order = "in reverse order" if backwards else "one after the other"
                for which in (name, f"another {name}"):
                    expect(fed[which]).equals(value, about=f"{which}, of metrics fed {order}{in_mode(mode)}")


@check("EC104", regimes=("batches of one size", "batches of unequal sizes"), examples=_EXAMPLES)
def a_batch_is_scored_by_itself(wrapper: WrapperSubject, case: Pair) -> None:
    """What is scored for a batch depends on that batch only, whatever the wrapper saw before or in between.

    Why: the score of a data set must not depend on what was evaluated before it, nor on who calls in which order.
    Usual cause: labels, a mode or a cache are kept on the module from one call to the next.
    Fix: pytest_evalcheck.fixes.split_labels
    """
    for mode in wrapper.modes:
        expected = wrapper.fresh().seen(wrapper.batch(case.after, mode))
        for earlier in wrapper.modes:
            live = wrapper.fresh()
            live.seen(wrapper.batch(case.before, earlier))
            about = f"what is seen of a batch{in_mode(mode)} after another one{in_mode(earlier)}"
            expect(live.seen(wrapper.batch(case.after, mode))).equals(expected, about=about)
        one, other = wrapper.batch(case.after, mode), wrapper.batch(case.before, mode)
        about = f"what is seen of a batch when another forward came between{in_mode(mode)}"
        expect(wrapper.fresh().seen(one, between=other)).equals(expected, about=about)


@check("EC105", regimes=("batches of one size",), examples=_EXAMPLES)
def outputs_own_their_data(wrapper: WrapperSubject, case: Pair) -> None:
    """Outputs own their data: writing into them reaches neither the batch nor other outputs, and they stay as given.

    Why: metrics clamp, round and take the argmax in place, and predictions are kept until the end of an epoch.
    Usual cause: a view of the batch is handed out, or one buffer is filled again for every batch.
    Fix: give out what an operation returned; clone what is a view of the batch or a buffer.
    """
    for mode in wrapper.modes:
        live, batch = wrapper.fresh(), wrapper.batch(case.after, mode)
        outputs = live.forward(batch)
        given, before = settled(outputs), Snapshot(batch)
        live.forward(wrapper.batch(case.as_many_before, mode))  # a buffer is filled again by a batch of its size
        expect(settled(outputs)).equals(given, about=f"outputs after another forward{in_mode(mode)}")
        if isinstance(outputs, Raised):
            continue
        write_into(outputs)
        changes = before.changes()
        expect(batch).holds(
            not changes,
            about=f"writing into the outputs changed the batch{in_mode(mode)}",
            detail="\n".join(changes[:3]),
        )
        again = settled(live.forward(wrapper.batch(case.after, mode)))
        expect(again).equals(given, about=f"outputs of the same rows after the first were overwritten{in_mode(mode)}")
