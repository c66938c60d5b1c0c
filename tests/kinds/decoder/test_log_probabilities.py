"""Distributions of tokens, records of samplers and of scores of texts, and the adapters that make them."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

import pytest_evalcheck as ec
from fixtures.gallery.decoders_correct import Sampling
from pytest_evalcheck.kinds.decoder.log_probabilities import log_probabilities, tail_of_counts

LOGITS = torch.tensor([[3.0, 1.0, 0.0, 2.0, -1.0]])


@pytest.mark.parametrize(
    ("declared", "left"),
    [
        ({}, [0, 1, 2, 3, 4]),
        ({"temperature": 0.5}, [0, 1, 2, 3, 4]),
        ({"top_k": 2}, [0, 3]),
        ({"top_k": 9}, [0, 1, 2, 3, 4]),
        ({"top_p": 0.5}, [0]),
        ({"top_p": 0.8}, [0, 3]),
        ({"min_p": 0.1}, [0, 1, 3]),
        ({"top_k": 3, "top_p": 0.7}, [0, 3]),
    ],
)
def test_a_truncation_leaves_the_likeliest_tokens(declared: dict[str, Any], left: list[int]) -> None:
    found = ec.TokenDistribution(**declared).log_softmax(LOGITS)[0]
    scores = LOGITS[0].double() / declared.get("temperature", 1.0)
    expected = torch.full((5,), -math.inf, dtype=torch.float64)
    expected[left] = scores[left].log_softmax(-1)
    torch.testing.assert_close(found, expected)


def test_a_token_at_a_bound_is_right_either_way() -> None:
    tie, two = torch.tensor([[1.0, 0.0, 0.0]]), ec.TokenDistribution(top_k=2)
    three, slack = torch.tensor([-0.55144471], dtype=torch.float64), 1e-3
    assert log_probabilities(tie, [0], two, three, slack).item() == pytest.approx(three.item(), abs=1e-6)
    wrong = torch.tensor([-0.4])
    assert log_probabilities(tie, [0], two, wrong, slack).item() != pytest.approx(-0.4, abs=0.01)


@pytest.mark.parametrize("counts", [[500, 300, 200, 0], [480, 310, 210, 0]])
def test_counts_of_a_distribution_are_likely(counts: list[int]) -> None:
    assert tail_of_counts(torch.tensor(counts), torch.tensor([0.5, 0.3, 0.2, 0.0])) > 0.1


@pytest.mark.parametrize("counts", [[600, 250, 150, 0], [499, 300, 200, 1]])
def test_counts_of_another_distribution_are_not(counts: list[int]) -> None:
    assert tail_of_counts(torch.tensor(counts), torch.tensor([0.5, 0.3, 0.2, 0.0])) < 1e-7


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"temperature": 0}, "temperature=0; expected a number above 0"),
        ({"temperature": math.inf}, "temperature=inf"),
        ({"top_k": 0}, "top_k=0; expected a number of at least 1"),
        ({"top_p": 0}, "expected 0 < top_p <= 1"),
        ({"min_p": 2}, "expected 0 < top_p <= 1, 0 <= min_p <= 1"),
    ],
)
def test_a_distribution_that_is_none_is_refused(declared: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        ec.TokenDistribution(**declared)


@pytest.mark.parametrize(("field", "expected"), [("samplers", "ec.Sampler"), ("text_scores", "ec.TextScore")])
def test_a_function_in_place_of_a_record_is_refused(field: str, expected: str) -> None:
    with pytest.raises(TypeError, match=rf"{field}\['mine'\] is of type function; expected an {expected}"):
        ec.Decoder(object(), make_cache=lambda rows: [], step=print, **{field: {"mine": lambda: None}})


class NoPairs(Sampling):
    """A sampler that returns tokens alone."""

    def draw(self, prompts: list[list[int]], count: int, seed: int) -> Any:
        return [tokens for tokens, _ in super().draw(prompts, count, seed)]


class NanForTheFirst(Sampling):
    """A text whose log-probability is NaN, of logits that are numbers."""

    def text_score(self, context: list[int], continuation: list[int]) -> Any:
        return math.nan, False


def run(made: type, code: str) -> ec.Cell:
    def factory() -> ec.Decoder:
        return made().record()  # type: ignore[no-any-return]

    return ec.run(ec.decoder(inputs=made.inputs)(factory), "cpu", select=code, effort="quick").cells[0]  # type: ignore[attr-defined]


def test_tokens_without_log_probabilities_are_a_mistake_in_the_target() -> None:
    cell = run(NoPairs, "EC320")
    assert (cell.outcome, cell.cause) == ("failed", "log-probabilities")
    assert "no log-probabilities came" in cell.reason


def test_a_log_probability_that_is_nan_is_wrong() -> None:
    cell = run(NanForTheFirst, "EC322")
    assert (cell.outcome, cell.signature) == ("failed", "EC322: text-by-score: NaN")


def test_generate_of_transformers_draws_what_it_declares() -> None:
    transformers = pytest.importorskip("transformers", minversion="5")
    from pytest_evalcheck.adapters.transformers.sampling import samplers

    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(vocab_size=12, **sizes)).eval()
    before = torch.get_rng_state()
    for sampler in samplers(model).values():
        first, again, other = (sampler.draw([[4, 5], [6]], 3, seed) for seed in (1, 1, 2))
        assert first == again != other
        assert all(len(tokens) == len(numbers) == 3 for tokens, numbers in first)
    assert torch.equal(torch.get_rng_state(), before)
