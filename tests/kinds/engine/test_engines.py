"""Records of engines, and requests in any order as a state machine of Hypothesis."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

import pytest_evalcheck as ec
from fixtures.gallery.engines import EvictsWhatIsRead, LeavesWhatWasCancelled
from fixtures.gallery.engines_correct import Refusing, Tiny
from pytest_evalcheck import adapters
from pytest_evalcheck.expectations.failures import TargetError
from pytest_evalcheck.kinds.engine.checks_programs import Requests
from pytest_evalcheck.kinds.engine.subject import EngineUnderTest, drift, joined, plain

PROMPTS = [[1, 2, 3], [4, 5], [3, 2, 1]]
INDEX = st.integers(0, len(PROMPTS) - 1)


class Machine(RuleBasedStateMachine):
    """Requests that are submitted, streamed, forked, cancelled and evicted: each answer is that of it alone."""

    engine: type[Tiny] = Tiny

    def __init__(self) -> None:
        super().__init__()
        self.requests = Requests(EngineUnderTest(self.engine().record()), PROMPTS)
        self.answers: list[Any] = []

    def apply(self, name: str, *numbers: int) -> None:
        self.answers += self.requests.step(name, *numbers)

    @rule(name=st.sampled_from(["ask", "fork", "open"]), index=INDEX)
    def submits(self, name: str, index: int) -> None:
        self.apply(name, index)

    @rule(first=INDEX, second=INDEX)
    def submits_two(self, first: int, second: int) -> None:
        self.apply("together", first, second)

    @precondition(lambda self: self.requests.open)
    @rule(name=st.sampled_from(["take", "cancel"]), place=INDEX)
    def goes_on(self, name: str, place: int) -> None:
        self.apply(name, place)

    @rule()
    def evicts(self) -> None:
        self.apply("evict")

    @invariant()
    def each_answer_is_that_of_its_request_alone(self) -> None:
        while self.answers:
            name, index, answer = self.answers.pop()
            alone = EngineUnderTest(self.engine().record()).choices([PROMPTS[index]], self.requests.given(name))
            assert answer == (alone[0][0] if name == "stream" else alone)

    def teardown(self) -> None:
        self.answers += self.requests.finish()
        self.each_answer_is_that_of_its_request_alone()


def run(engine: type[Tiny]) -> None:
    machine = type("Machine", (Machine,), {"engine": engine})
    budget = settings(
        max_examples=150,
        stateful_step_count=12,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        report_multiple_bugs=False,
    )
    run_state_machine_as_test(machine, settings=budget)


def test_a_correct_engine_passes_in_any_order() -> None:
    run(Tiny)


@pytest.mark.parametrize("engine", [EvictsWhatIsRead, LeavesWhatWasCancelled])
def test_a_bug_of_an_order_is_found(engine: type[Tiny]) -> None:
    with pytest.raises(AssertionError):
        run(engine)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"complete": None}, "complete=None; expected a function"),
        ({"stream": 3}, "stream=3; expected a function"),
        ({"supports": ("logit_biass",)}, "supports has 'logit_biass'; .*did you mean 'logit_bias'"),
        ({"supports": "seed"}, r"supports='seed'; expected a tuple, such as \('seed',\)"),
        ({"context": 1}, "context=1; expected a number of at least 2"),
    ],
)
def test_a_record_that_cannot_be_meant_is_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(TypeError, match=said):
        ec.Engine(**{"complete": Tiny().complete, **fields})


def test_an_object_that_is_no_engine_is_named() -> None:
    with pytest.raises(TargetError, match=r"the factory returned an object of type builtins\.object") as caught:
        adapters.record("engine", object())
    assert "an ec.Engine, an ec.Endpoint, or an LLM of vLLM" in caught.value.expected


def test_an_answer_of_another_type_is_a_mistake_in_the_target() -> None:
    @ec.target("engine", inputs=Tiny.inputs)
    def texts() -> ec.Engine:
        return ec.Engine(lambda prompts, parameters: [["a text"] for _ in prompts])

    (cell,) = ec.run(texts, select="EC801", effort="quick").cells
    assert cell.outcome == "failed"
    assert cell.failure is not None
    assert "complete() gave no answers" in str(cell.failure.about)


@pytest.mark.parametrize(
    ("said", "outcome"),
    [("input_ids is empty; max_tokens must be positive; bad temperature", "passed"), ("internal error", "failed")],
)
def test_an_error_of_compiled_code_refuses_where_it_names_what_it_refuses(said: str, outcome: str) -> None:
    class Compiled(Refusing):
        def require_valid(self, ids: Any, parameters: Any) -> None:
            try:
                super().require_valid(ids, parameters)
            except ValueError as error:
                if "supported" in str(error):
                    raise
            else:
                return
            {}[said]  # no `raise` of Python

        def record(self) -> ec.Engine:
            return ec.Engine(self.complete, supports=self.supports, empty=False)

    @ec.target("engine", inputs=Tiny.inputs)
    def compiled() -> ec.Engine:
        return Compiled().record()

    (cell,) = ec.run(compiled, select="EC813", effort="quick").cells
    assert cell.outcome == outcome


def test_pieces_make_an_answer_and_drift_ends_at_another_token() -> None:
    pieces = [ec.Completion("a", tokens=[1], logprobs=[-0.5]), ec.Completion("b", tokens=[2], logprobs=[-1.0])]
    whole = joined(pieces)
    assert whole == {"text": "ab", "tokens": [1, 2], "logprobs": [-0.5, -1.0]}
    other = {"text": "ac", "tokens": [1, 3], "logprobs": [-0.25, -9.0]}
    assert drift(other, whole) == "up to token 1 log-probabilities are at most 0.25 apart"
    assert plain(ec.Completion("a")) == {"text": "a"}
