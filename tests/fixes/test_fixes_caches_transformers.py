from __future__ import annotations

import gc
import re
import weakref

import pytest
import torch
from cache_models import CONTEXT, STOPS, TRANSFORMERS, VOCABULARY, Fed, prompts, transformers_model, uncached

pytest.importorskip("transformers")

from pytest_evalcheck.fixes.caches import (
    CacheError,
    ResizableStaticCache,
    TransformersDecoder,
    UnsupportedModel,
    decode,
)


@pytest.fixture(params=TRANSFORMERS)
def model(request):
    return transformers_model(request.param)


@pytest.fixture
def llama():
    return transformers_model("llama")


@pytest.mark.parametrize("count", [1, 4, 11])
def test_tokens_are_those_of_uncached_decoding(model, count):
    given = prompts(count, seed=count)
    expected = [uncached(model, prompt, 12) for prompt in given]
    assert count == 1 or len(set(map(len, expected))) > 1, "no rows that stop at different steps"
    with TransformersDecoder(model, capacity=4, max_length=40) as decoder:
        assert decode(decoder, given, 12, STOPS) == expected
        assert decode(decoder, given[::-1], 12, STOPS) == expected[::-1]  # after other batches


@pytest.mark.parametrize("beams", [1, 2])
def test_generate_takes_the_cache_for_batches_of_every_size(model, beams):
    cache = ResizableStaticCache(model.config, max_cache_len=40, max_batch_size=6 * beams)
    draw = torch.Generator().manual_seed(1)
    for rows in (6, 2, 5, 1, 6):
        ids = torch.randint(3, VOCABULARY, (rows, 9), generator=draw)
        mask = torch.ones_like(ids)
        mask[0, :4] = 0  # padding on the left
        options = {"attention_mask": mask, "max_new_tokens": 10, "do_sample": False, "num_beams": beams}
        expected = model.generate(ids, use_cache=False, **options)
        assert torch.equal(model.generate(ids, past_key_values=cache.start_batch(rows * beams), **options), expected)


def test_logits_are_those_of_a_forward_without_a_cache(model):
    cache = ResizableStaticCache(model.config, max_cache_len=40, max_batch_size=3)
    ids = torch.randint(VOCABULARY, (3, 24), generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        for rows, chunks in ((3, (24,)), (2, (1,) * 24), (3, (7, 1, 1, 8, 7)), (1, (12, 12))):
            full = model(ids[:rows], use_cache=False).logits
            cache.start_batch(rows)
            parts = [model(part, past_key_values=cache).logits for part in ids[:rows].split(chunks, dim=1)]
            torch.testing.assert_close(torch.cat(parts, dim=1), full)


def test_rows_and_positions_can_be_taken_away_and_repeated(llama):
    cache = ResizableStaticCache(llama.config, max_cache_len=40, max_batch_size=6)
    ids = torch.randint(VOCABULARY, (3, 9), generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        llama(ids, past_key_values=cache.start_batch(3))
        cache.crop(-2)
        cache.crop(0)
        with pytest.raises(CacheError, match="below zero"):
            cache.crop(1)
        cache.batch_select_indices(torch.tensor([2, 0]))
        cache.batch_repeat_interleave(3)
        cache.reorder_cache(torch.tensor([5, 1]))
        found = llama(ids[[0, 2], 7:8], past_key_values=cache).logits
        expected = llama(ids[[0, 2], :8], use_cache=False).logits[:, -1:]
    torch.testing.assert_close(found, expected)


def test_no_row_is_computed_that_is_not_there_or_has_stopped(llama):
    given = prompts(7, seed=7)
    lengths = sorted((len(uncached(llama, prompt, 12)) for prompt in given), reverse=True)
    with TransformersDecoder(llama, capacity=4, max_length=40) as decoder, Fed(llama) as fed:
        decode(decoder, given, 12, STOPS)
    assert sum(rows for rows, _ in fed.shapes) == sum(lengths)


def test_a_batch_of_one_length_has_no_mask(llama):
    seen = []
    llama.register_forward_pre_hook(lambda _, args, kwargs: seen.append("attention_mask" in kwargs), with_kwargs=True)
    with TransformersDecoder(llama, capacity=4, max_length=40) as decoder:
        decode(decoder, [[5, 6], [7, 8]], 3)
        assert not any(seen)
        decode(decoder, [[5, 6], [8]], 3)
        assert seen[-1]


def test_the_cache_keeps_its_memory_between_batches_and_gives_it_back(model):
    with TransformersDecoder(model, capacity=4, max_length=40) as decoder:
        decode(decoder, prompts(9), 8)
        kept = [weakref.ref(layer.store.keys) for layer in decoder.cache.layers]
        places = [layer.store.keys.data_ptr() for layer in decoder.cache.layers]
        decode(decoder, prompts(3), 8)
        assert [layer.store.keys.data_ptr() for layer in decoder.cache.layers] == places
        assert decoder.cache.nbytes > 0
    gc.collect()
    assert all(each() is None for each in kept)
    assert decoder.cache.nbytes == 0
    assert decode(decoder, [[5]], 2) == [uncached(model, [5], 2, stops=())]  # and can be used again


def test_memory_is_at_most_that_of_one_static_cache_with_full_attention(model):
    from transformers import StaticCache

    ids = torch.ones(4, 30, dtype=torch.long)
    static = StaticCache(config=model.config, max_cache_len=30)
    narrow = ResizableStaticCache(model.config, max_cache_len=30, max_batch_size=4)
    with torch.no_grad():
        model(ids, past_key_values=static)
        model(ids, past_key_values=narrow.start_batch(4))
    whole = sum(layer.keys.nbytes + layer.values.nbytes for layer in static.layers)
    assert narrow.nbytes <= whole * (1 if model.config.model_type in ("gpt2", "llama") else 1.25)


def test_a_stop_token_that_is_also_the_padding_is_a_token_like_others(llama):
    """Prompts that contain it, begin with it, or are made of it: only lengths tell what is padding."""
    padding = 7
    given = [[padding], [padding, padding, 5], [4, padding, 9, padding], [1, 2, 3, 4, 5, 6]]
    expected = [uncached(llama, prompt, 8, stops=(padding,)) for prompt in given]
    with TransformersDecoder(llama, capacity=4, max_length=20) as decoder:
        assert decode(decoder, given, 8, (padding,)) == expected


def test_a_stop_rule_ends_its_row_alone(llama):
    given = prompts(5, seed=3)
    free = [uncached(llama, prompt, 9, stops=()) for prompt in given]
    with TransformersDecoder(llama, capacity=8, max_length=40) as decoder:
        found = decode(decoder, given, 9, stop=lambda tokens: len(tokens) > 2 and tokens[-1] % 2 == 0)
    for each, whole in zip(found, free, strict=True):
        ends = [n for n, token in enumerate(whole, 1) if n > 2 and token % 2 == 0]
        assert each == whole[: ends[0] if ends else 9]


def test_no_requests_give_no_answers(llama):
    with TransformersDecoder(llama, capacity=2, max_length=20) as decoder:
        assert decode(decoder, [], 5) == []


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        ([[1], []], {}, "prompts[1]: expected one token or more, got none"),
        ([[1, VOCABULARY]], {}, "prompts[0]: expected ids from 0 to 60, got 61"),
        ([[-1]], {}, "prompts[0]: expected ids from 0 to 60, got -1"),
        ([[1] * 16], {}, "16 tokens and 5 new ones do not fit into 20 positions; cut it to 15"),
        ([[1]], {"stop_tokens": [99]}, "stop_tokens: expected ids from 0 to 60, got 99"),
        ([[1]], {"max_new_tokens": 0}, "max_new_tokens: expected a whole number of one or more, got 0"),
    ],
)
def test_bad_prompts_are_refused_before_anything_is_computed(llama, given, options, message):
    with TransformersDecoder(llama, capacity=2, max_length=20) as decoder, Fed(llama) as fed:
        with pytest.raises(CacheError, match=re.escape(message)):
            decode(decoder, given, **{"max_new_tokens": 5, **options})
        assert fed.shapes == []


def test_what_the_model_and_the_cache_cannot_do_together_is_named(llama):
    import transformers

    with pytest.raises(
        CacheError, match=f"at most {CONTEXT} positions, which is the model's context, got {CONTEXT + 1}"
    ):
        ResizableStaticCache(llama.config, max_cache_len=CONTEXT + 1, max_batch_size=2)
    cache = ResizableStaticCache(llama.config, max_cache_len=8, max_batch_size=2, dtype=torch.bfloat16)
    with pytest.raises(CacheError, match=r"expected torch.bfloat16, the dtype of the cache, got torch.float64"):
        llama(torch.tensor([[1, 2]]), past_key_values=cache)
    cache = ResizableStaticCache(llama.config, max_cache_len=8, max_batch_size=2)
    with pytest.raises(CacheError, match=r"at most 2 rows, which is what the cache was made for, got 3"):
        cache.start_batch(3)
    with pytest.raises(CacheError, match=r"at most 2 rows, which is what the cache was made for, got 3"):
        llama(torch.ones(3, 2, dtype=torch.long), past_key_values=cache)
    with pytest.raises(CacheError, match=r"it has 8 positions, 0 of them filled: no room for 9 more"):
        llama(torch.ones(1, 9, dtype=torch.long), past_key_values=cache.start_batch(1))
    with pytest.raises(UnsupportedModel, match=r"full, sliding or chunked attention, got 'conv'"):
        ResizableStaticCache(transformers.Lfm2Config(layer_types=["conv"], num_hidden_layers=1), 8, 2)
    with pytest.raises(UnsupportedModel, match="T5Config"):
        ResizableStaticCache(transformers.T5Config(), 8, 2)
    llama.train()
    with pytest.raises(CacheError, match=r"expected one in eval\(\)"):
        decode(TransformersDecoder(llama, capacity=2, max_length=20), [[1]], 2)
