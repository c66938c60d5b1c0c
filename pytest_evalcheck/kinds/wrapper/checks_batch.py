"""EC101 to EC105: a wrapper only reads its batch, and the caller owns the outputs."""

from __future__ import annotations

from pytest_evalcheck.expectations.comparison import EXACT, Raised
from pytest_evalcheck.expectations.failures import NotApplicable, expect, refused
from pytest_evalcheck.expectations.ids import slug
from pytest_evalcheck.guard import Snapshot
from pytest_evalcheck.kinds.common.check import check
from pytest_evalcheck.kinds.common.tensors import overwrite
from pytest_evalcheck.kinds.wrapper.cases import Batch, TwoBatches
from pytest_evalcheck.kinds.wrapper.outputs import plain_copy
from pytest_evalcheck.kinds.wrapper.subject import METRIC_INPUTS, WrapperSubject, in_mode, mode_id

_EXAMPLES = 12


@check("EC101", conditions=("a batch of one", "several rows"), examples=_EXAMPLES)
def forward_does_not_change_its_batch(wrapper: WrapperSubject, case: Batch) -> None:
    """`forward` does not change the batch: keys, their order, containers, tensors and their values.

    Why: a batch is scored by several metrics, logged, cached and used again in the next evaluation.
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
            not changes,
            about=f"forward changed its batch{in_mode(mode)}",
            id=f"changed-batch{mode_id(mode)}",
            detail="\n".join(changes[:4]),
            form="unchanged",
        )


@check("EC102", conditions=("a batch of one", "several rows"), examples=_EXAMPLES, after=("EC101",))
def the_same_batch_gives_the_same_outputs(wrapper: WrapperSubject, case: Batch) -> None:
    """The same batch gives the same outputs every time, bit by bit, and metrics the same value.

    Why: cached batches are evaluated every epoch, and two evaluators may share one data set.
    Usual cause: the first call removed a field from the batch, or stored something on the module.
    Fix: pytest_evalcheck.fixes.split_labels
    """
    for mode in wrapper.modes:
        live, batch = wrapper.fresh(), wrapper.batch(case.samples, mode)
        first = live.evaluate(batch)
        for time in ("second", "third"):
            about = f"the results of the {time} call{in_mode(mode)}"
            expect(live.evaluate(batch)).equals(first, about=about, id=f"{time}-call{mode_id(mode)}", tolerance=EXACT)


@check("EC103", conditions=("a batch of one", "several rows"), examples=_EXAMPLES, after=("EC101", "EC102", "EC109"))
def metrics_can_be_updated_in_any_order(wrapper: WrapperSubject, case: Batch) -> None:
    """Any number of metrics can be updated from one batch and one forward, in any order, with the same values.

    It is a failure too when a metric of the wrapper refuses its inputs although the forward succeeded.

    Why: the value of a metric must not depend on which other metrics are logged.
    Usual cause: `update` consumes the labels, or shifts or moves them for all later metrics, or has none.
    Fix: pytest_evalcheck.fixes.split_labels
    """
    if wrapper.record.update is None:
        raise NotApplicable("the wrapper feeds no metric")
    for mode in wrapper.modes:
        alone = {}
        for name in (METRIC_INPUTS, *wrapper.fresh().metrics()):
            live, batch = wrapper.fresh(), wrapper.batch(case.samples, mode)
            alone[name] = live.metric_values(batch, live.forward(batch), only=name)[name]
            # Only a failure is an `expect`: one that always holds would count where everything is refused.
            if isinstance(alone[name], Raised) and not isinstance(alone[METRIC_INPUTS], Raised):
                error = alone[name]
                expect(error).holds(
                    False,
                    about=f"{name} cannot be fed{in_mode(mode)}",
                    id=f"feeding-{slug(name)}{mode_id(mode)}",
                    detail=str(error),
                )
        for backwards in (False, True):
            live, batch = wrapper.fresh(), wrapper.batch(case.samples, mode)
            values = live.metric_values(batch, live.forward(batch), times=2, backwards=backwards)
            for name, value in alone.items():
                order = "in reverse order" if backwards else "one after the other"
                for metric in (name, f"{name} (repeated)"):
                    expect(values[metric]).equals(
                        value,
                        about=f"{metric}, of metrics fed {order}{in_mode(mode)}",
                        id=f"{slug(metric)}-fed-{'backwards' if backwards else 'in-turn'}{mode_id(mode)}",
                    )


@check(
    "EC104",
    conditions=("batches of one size", "batches of unequal sizes"),
    examples=_EXAMPLES,
    after=("EC101", "EC102"),
)
def other_batches_do_not_change_the_outputs(wrapper: WrapperSubject, case: TwoBatches) -> None:
    """The outputs of a batch and the values of its metrics do not depend on earlier batches, or on one in between.

    Why: the score of a data set must not depend on what was evaluated before it, nor on the order of calls.
    Usual cause: labels, a mode or a cache are stored on the module from one call to the next.
    Fix: pytest_evalcheck.fixes.split_labels
    """
    for mode in wrapper.modes:
        expected = wrapper.fresh().evaluate(wrapper.batch(case.second_rows, mode))
        for earlier in wrapper.modes:
            live = wrapper.fresh()
            live.evaluate(wrapper.batch(case.first_rows, earlier))
            about = f"the results of a batch{in_mode(mode)} after another one{in_mode(earlier)}"
            expect(live.evaluate(wrapper.batch(case.second_rows, mode))).equals(
                expected, about=about, id=f"batch{mode_id(mode)}-after-another{mode_id(earlier)}"
            )
        batch, other = wrapper.batch(case.second_rows, mode), wrapper.batch(case.first_rows, mode)
        about = f"the results of a batch with another forward before its metrics{in_mode(mode)}"
        expect(wrapper.fresh().evaluate(batch, between=other)).equals(
            expected, about=about, id=f"another-in-between{mode_id(mode)}"
        )


@check("EC105", conditions=("batches of one size",), examples=_EXAMPLES, after=("EC104", "EC102"))
def outputs_own_their_data(wrapper: WrapperSubject, case: TwoBatches) -> None:
    """Outputs own their data: writing into them changes neither the batch nor other outputs, nor does another forward.

    Why: metrics clamp, round and take the argmax in place, and predictions are kept until the end of an epoch.
    Usual cause: a view of the batch is returned, or one buffer is filled again for every batch.
    Fix: pytest_evalcheck.fixes.copy_result; a view of the batch or a buffer becomes `buffer.clone()`.
    """
    for mode in wrapper.modes:
        live, batch = wrapper.fresh(), wrapper.batch(case.second_rows, mode)
        outputs = live.forward(batch)
        expected, before = plain_copy(outputs), Snapshot(batch)
        live.forward(wrapper.batch(case.as_many_first_rows, mode))  # a buffer is filled again by a batch of its size
        expect(plain_copy(outputs)).equals(
            expected, about=f"outputs after another forward{in_mode(mode)}", id=f"after-another-forward{mode_id(mode)}"
        )
        if isinstance(outputs, Raised):
            continue
        overwrite(outputs)
        changes = before.changes()
        expect(batch).holds(
            not changes,
            about=f"writing into the outputs changed the batch{in_mode(mode)}",
            id=f"batch-after-writing{mode_id(mode)}",
            form="unchanged",
            detail="\n".join(changes[:3]),
        )
        again = plain_copy(live.forward(wrapper.batch(case.second_rows, mode)))
        expect(again).equals(
            expected,
            about=f"outputs of the same rows after the first were overwritten{in_mode(mode)}",
            id=f"outputs-after-overwriting{mode_id(mode)}",
        )
