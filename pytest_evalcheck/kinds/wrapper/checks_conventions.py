"""EC116: the outputs of a wrapper do not depend on which documented way of calling it is used."""

from __future__ import annotations

from pytest_evalcheck.expectations.failures import expect
from pytest_evalcheck.expectations.ids import slug
from pytest_evalcheck.kinds.common.check import check
from pytest_evalcheck.kinds.wrapper.cases import ConventionBatch
from pytest_evalcheck.kinds.wrapper.subject import WrapperSubject, in_mode, mode_id


@check("EC116", conditions=("several rows", "a batch of one"), examples=6, after=("EC102", "EC109"))
def every_way_to_call_gives_the_same_outputs(wrapper: WrapperSubject, case: ConventionBatch) -> None:
    """Each documented way to call a wrapper gives the same outputs and values: bare or wrapped, by name or by position.

    The ways are the conventions of its record.

    Why: a model is wrapped for several devices, or exported, and its scores are compared with those before.
    Usual cause: an attribute is looked for in the model, which is inside another module now; outputs lose their names.
    Fix: unwrap where attributes are read, `getattr(model, 'module', model)`, and let all ways end in one method.
    """
    for mode in wrapper.modes:
        expected = wrapper.fresh().scores(wrapper.batch(case.samples, mode))
        for name, sentence, called in wrapper.by_convention(case.first):
            actual = called.fresh().scores(wrapper.batch(case.samples, mode))
            about = f"the results by the convention {name!r}{in_mode(mode)}"
            expect(actual).equals(expected, about=about, id=f"called-by-{slug(name)}{mode_id(mode)}", detail=sentence)
