"""The conventions of transformers: which ways are offered for which model, and that they are other ways."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from pytest_evalcheck.kinds.common.convention import supported, with_convention

transformers = pytest.importorskip("transformers")

from pytest_evalcheck.adapters.transformers.decoder import decoder  # noqa: E402

SIZES = {"vocab_size": 20, "num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 16}
IDS = torch.tensor([[3, 5, 7, 9], [4, 6, 8, 2]])
MASK = torch.ones_like(IDS)
POSITIONS = torch.arange(4).expand(2, 4)
WIDE = "a mask of four dimensions"


def llama(**more: Any) -> Any:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(**SIZES, intermediate_size=32, num_key_value_heads=2, **more)
    return transformers.LlamaForCausalLM(config).double().eval()


@pytest.mark.parametrize("cache", ["dynamic", "static"])
def test_every_way_to_step_gives_the_logits_of_the_usual_one(cache: str) -> None:
    made = decoder(llama(), cache, length=6)
    ways = [name for name, each in supported(made).items() if "step" in each.changes]
    assert {"no positions", "no mask", WIDE, "embeddings in place of ids", "as many logits as ids"} <= {*ways}
    expected = made.step(IDS, None, MASK, POSITIONS)
    for name in ways:
        other, held = with_convention(made, name), made.make_cache(2)
        first = other.step(IDS[:, :3], held, MASK[:, :3], POSITIONS[:, :3])
        last = other.step(IDS[:, 3:], held, MASK, POSITIONS[:, 3:])
        torch.testing.assert_close(torch.cat([first, last], 1), expected)


def test_what_is_left_out_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    model, seen = llama(), []
    made, forward = decoder(model), model.forward
    monkeypatch.setattr(model, "forward", lambda **inputs: seen.append({*inputs}) or forward(**inputs))
    with_convention(made, "neither positions nor mask").step(IDS, None, MASK, POSITIONS)
    assert seen == [{"input_ids", "use_cache"}]


def test_a_window_asks_for_another_mask() -> None:
    config = transformers.MistralConfig(**SIZES, intermediate_size=32, num_key_value_heads=2, sliding_window=3)
    assert WIDE not in decoder(transformers.MistralForCausalLM(config)).conventions


def test_distances_that_come_of_the_mask_need_one_of_two_dimensions() -> None:
    config = transformers.BloomConfig(vocab_size=20, n_layer=2, n_head=2, hidden_size=16)
    way = decoder(transformers.BloomForCausalLM(config)).conventions[WIDE]
    assert not way.supported
    assert "shape (batch_size, max_seq_len)" in way.documented


def test_positions_that_begin_behind_padding_are_not_those_of_the_record() -> None:
    config = transformers.RobertaConfig(**SIZES, intermediate_size=32, is_decoder=True)
    ways = decoder(transformers.RobertaForCausalLM(config)).conventions
    assert not ways["no positions"].supported
    assert ways["no mask"].supported


def test_a_convention_of_the_author_replaces_the_one_of_that_name() -> None:
    from pytest_evalcheck import Convention

    made = decoder(llama(), conventions={"no mask": Convention("It needs a mask.", supported=False)})
    assert not made.conventions["no mask"].supported
    assert made.conventions["no positions"].supported
