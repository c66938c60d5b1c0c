from __future__ import annotations

from pathlib import Path

import pytest

TARGETS = Path(__file__).parents[2] / "fixtures" / "targets"
transformers = pytest.importorskip("transformers")


@pytest.fixture
def decoders(monkeypatch):
    monkeypatch.syspath_prepend(str(TARGETS))
    import _decoder_names
    import _decoders

    return _decoder_names, _decoders


@pytest.mark.skipif(not transformers.__version__.startswith("5.23."), reason="another release of transformers")
def test_every_architecture_is_swept_or_left_out_for_a_reason(decoders):
    names, builder = decoders
    assert sorted([*names.SWEPT, *names.LEFT_OUT]) == sorted(set(builder.architectures()))
    assert all(names.LEFT_OUT.values())


def test_a_tiny_model_tells_its_tokens_apart(decoders):
    import torch

    _, builder = decoders
    model = builder.tiny("llama")
    assert next(model.parameters()).dtype == torch.float64
    assert not model.training
    with torch.no_grad():
        logits = model(torch.arange(4, 44)[None]).logits
    assert logits.std() > 0.3
    assert len(set(logits.argmax(-1)[0].tolist())) > 10


def test_a_config_with_sizes_of_other_names_is_told(decoders):
    _, builder = decoders
    with pytest.raises(ValueError, match=r"llama has .* parameters: its config has sizes of other names"):
        builder.tiny("llama", vocab_size=2_000_000)


def test_every_id_has_a_letter(decoders):
    _, builder = decoders
    tokenizer = builder.characters()
    ids = list(range(4, 99))
    assert tokenizer.encode(tokenizer.decode(ids), add_special_tokens=False) == ids
