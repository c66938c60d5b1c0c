from __future__ import annotations

import copy
import gc
import re
import weakref

import pytest
import torch
from cache_models import CONTEXT, STOPS, TORCHTUNE, VOCABULARY, Fed, prompts, torchtune_model, uncached

pytest.importorskip("torchtune")

from pytest_evalcheck.fixes.caches import (
    CacheError,
    PersistentKVCaches,
    TorchtuneDecoder,
    UnsupportedModel,
    decode,
    persistent_kv_cache,
)

# torchtune's RMSNorm computes in float32, and torch says so for models in float64.
pytestmark = pytest.mark.filterwarnings("ignore:Mismatch dtype between input and weight:UserWarning")


@pytest.fixture(params=TORCHTUNE)
def model(request):
    return torchtune_model(request.param)


@pytest.fixture
def llama():
    return torchtune_model("llama3")


@pytest.mark.parametrize("count", [1, 4, 11])
def test_tokens_are_those_of_uncached_decoding(model, count):
    given = prompts(count, seed=count)
    expected = [uncached(model, prompt, 12) for prompt in given]
    with TorchtuneDecoder(model, capacity=4, max_length=40) as decoder:
        assert decode(decoder, given, 12, STOPS) == expected
        assert decode(decoder, given[::-1], 12, STOPS) == expected[::-1]  # after other batches


def test_torchtunes_generate_takes_batches_of_every_size(model):
    from torchtune.generation import generate

    alone = copy.deepcopy(model)
    draw = torch.Generator().manual_seed(1)
    with persistent_kv_cache(model, capacity=6, max_seq_len=40) as caches:
        for rows in (6, 2, 5, 1, 6):
            ids = torch.randint(1, VOCABULARY, (rows, 9), generator=draw)
            ids[0, :4] = 0  # which is padding
            caches.start_batch(rows)
            found, _ = generate(model, ids, max_generated_tokens=10, pad_id=0, temperature=0.0)
            expected = [uncached(alone, [token for token in row if token], 10, stops=()) for row in ids.tolist()]
            assert found[:, 9:].tolist() == expected


def test_logits_are_those_of_a_forward_without_a_cache(model):
    ids = torch.randint(VOCABULARY, (3, 24), generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        full = model(ids)
        causal = torch.ones(1, 24, 40, dtype=torch.bool).tril()
        with persistent_kv_cache(model, capacity=3, max_seq_len=40) as caches:
            for rows, chunks in ((3, (24,)), (2, (1,) * 24), (3, (7, 1, 1, 8, 7)), (1, (12, 12))):
                caches.start_batch(rows)
                parts = []
                for place in torch.arange(24).split(chunks):
                    parts.append(model(ids[:rows, place], mask=causal[:, place], input_pos=place[None]))
                torch.testing.assert_close(torch.cat(parts, dim=1), full[:rows], atol=2e-5, rtol=1e-5)


def test_torchtunes_own_ways_to_reset_and_to_do_without_work(llama):
    from torchtune.modules.common_utils import disable_kv_cache

    ids = torch.randint(VOCABULARY, (2, 9), generator=torch.Generator().manual_seed(2))
    causal, places = torch.ones(1, 9, 9, dtype=torch.bool).tril(), torch.arange(9)[None]
    with torch.no_grad():
        full = llama(ids)
        with persistent_kv_cache(llama, capacity=4, max_seq_len=40):
            for _ in range(2):
                torch.testing.assert_close(llama(ids, mask=causal, input_pos=places), full)
                assert llama.layers[0].attn.kv_cache.size == 9
                with disable_kv_cache(llama):
                    torch.testing.assert_close(llama(ids), full)
                assert llama.layers[0].attn.kv_cache.size == 9
                llama.reset_caches()


def test_no_row_is_computed_that_is_not_there_or_has_stopped(llama):
    given = prompts(7, seed=7)
    lengths = [len(uncached(llama, prompt, 12)) for prompt in given]
    with TorchtuneDecoder(llama, capacity=4, max_length=40) as decoder, Fed(llama) as fed:
        decode(decoder, given, 12, STOPS)
    assert sum(rows for rows, _ in fed.shapes) == sum(lengths)


def test_the_caches_keep_their_memory_between_batches_and_leave_nothing_behind(model):
    before = set(vars(model)), len(model._forward_pre_hooks), list(model.state_dict())
    with TorchtuneDecoder(model, capacity=4, max_length=40) as decoder:
        caches = decoder.cache
        kept = [weakref.ref(layer.attn.kv_cache.store.keys) for layer in model.layers]
        places = [each().data_ptr() for each in kept]
        size = caches.nbytes
        for count in (9, 3, 1):
            decode(decoder, prompts(count), 8)
        assert [layer.attn.kv_cache.store.keys.data_ptr() for layer in model.layers] == places
        assert (caches.nbytes, size > 0) == (size, True)
        assert list(model.state_dict()) == before[2]
    gc.collect()
    assert all(each() is None for each in kept)
    assert caches.nbytes == 0
    assert not model.caches_are_setup()
    assert not model.caches_are_enabled()
    assert model.decoder_max_cache_seq_len is None
    assert (set(vars(model)), len(model._forward_pre_hooks), list(model.state_dict())) == before
    assert not any(module._forward_pre_hooks for module in model.modules())
    caches.release()  # twice does no harm
    model.setup_caches(2, torch.float64, decoder_max_seq_len=8)  # and torchtune's own fit in again


def test_memory_is_at_most_that_of_torchtunes_caches(model):
    with persistent_kv_cache(model, capacity=4, max_seq_len=40) as caches:
        ours = caches.nbytes
    model.setup_caches(4, torch.float64, decoder_max_seq_len=40)
    theirs = [layer.attn.kv_cache for layer in model.layers]
    assert ours <= sum(each.k_cache.nbytes + each.v_cache.nbytes for each in theirs)


def test_the_caches_go_where_the_model_goes(llama):
    with TorchtuneDecoder(llama, capacity=4, max_length=40) as decoder:
        llama.float()
        assert llama.layers[0].attn.kv_cache.k_cache.dtype == torch.float32
        assert len(decode(decoder, [[5, 6]], 4)[0]) == 4


def test_a_stop_token_that_is_also_the_padding_is_a_token_like_others(llama):
    padding = 7
    given = [[padding], [padding, padding, 5], [4, padding, 9, padding], [1, 2, 3, 4, 5, 6]]
    expected = [uncached(llama, prompt, 8, stops=(padding,)) for prompt in given]
    with TorchtuneDecoder(llama, capacity=4, max_length=20) as decoder:
        assert decode(decoder, given, 8, (padding,)) == expected


def test_a_batch_that_was_not_announced_is_refused(llama):
    from torchtune.generation import generate

    ids = torch.ones(2, 5, dtype=torch.long)
    with persistent_kv_cache(llama, capacity=4, max_seq_len=40) as caches:
        generate(llama, ids, max_generated_tokens=3)
        with pytest.raises(
            CacheError, match=r"7 positions of the batch before are in the cache; call start_batch\(rows\)"
        ):
            generate(llama, ids, max_generated_tokens=3)
        caches.start_batch(3)
        assert generate(llama, torch.ones(3, 5, dtype=torch.long), max_generated_tokens=3)[0].shape == (3, 8)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda model: PersistentKVCaches(model, capacity=0),
            "capacity: expected a whole number of one or more, got 0",
        ),
        (
            lambda model: PersistentKVCaches(model, capacity=2, max_seq_len=CONTEXT + 1),
            "which is the model's context, got 65",
        ),
        (
            lambda model: PersistentKVCaches(model, capacity=2, dtype=torch.bfloat16),
            "expected torch.float64, the model's",
        ),
        (
            lambda model: PersistentKVCaches(torch.nn.Linear(1, 1), capacity=2),
            "TransformerDecoder of torchtune, got Linear",
        ),
        (lambda model: PersistentKVCaches(model, capacity=2).install().start_batch(3), "at most 2 rows"),
        (lambda model: [PersistentKVCaches(model, capacity=2).install() for _ in range(2)], "it has caches already"),
        (lambda model: decode(TorchtuneDecoder(model.train(), capacity=2), [[1]], 2), "expected one in eval()"),
        (lambda model: decode(TorchtuneDecoder(model, capacity=2), [[1], []], 2), "prompts[1]: expected one token"),
        (lambda model: decode(TorchtuneDecoder(model, capacity=2), [[99]], 2), "ids from 0 to 60, got 99"),
        (lambda model: decode(TorchtuneDecoder(model, capacity=2), [[1] * 63], 2), "do not fit into 64 positions"),
    ],
)
def test_what_does_not_fit_is_named(llama, call, message):
    with pytest.raises(CacheError, match=re.escape(message)):
        call(llama)


def test_memory_that_is_not_there_leaves_the_model_as_it_was(llama, monkeypatch):
    from pytest_evalcheck.fixes.caches.layer_cache import LayerCache

    allocate, made = LayerCache.allocate, []

    def short(self, *sizes):
        if made:
            raise MemoryError
        made.append(allocate(self, *sizes))

    monkeypatch.setattr(LayerCache, "allocate", short)
    with pytest.raises(MemoryError):
        PersistentKVCaches(llama, capacity=2).install()
    assert not llama.caches_are_setup()
    assert llama.layers[1].attn.kv_cache is None
    assert not llama.caches_are_enabled()


def test_cross_attention_is_not_served(llama):
    from torchtune.modules import MultiHeadAttention, TransformerCrossAttentionLayer

    sizes = {"embed_dim": 32, "num_heads": 4, "num_kv_heads": 4, "head_dim": 8}
    attention = MultiHeadAttention(
        **sizes, **{name: torch.nn.Linear(32, 32) for name in ("q_proj", "k_proj", "v_proj", "output_proj")}
    )
    llama.layers.append(TransformerCrossAttentionLayer(attention, torch.nn.Linear(32, 32)))
    with pytest.raises(UnsupportedModel, match="cross-attention"):
        PersistentKVCaches(llama, capacity=2)
