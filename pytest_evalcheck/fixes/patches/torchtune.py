"""Patches of torchtune."""

from __future__ import annotations

from pytest_evalcheck.fixes.patches.patch import Library, Patch, replace

LIBRARY = Library(
    "torchtune",
    "0.6.1",
    "0.7",
    patches=(
        Patch(
            mends=("torchtune-not-causal-with-caches-disabled", "torchtune-no-mask-with-caches-disabled"),
            says="attention without a mask is causal where its cache is set up and disabled",
            edits={
                "torchtune.modules.attention:MultiHeadAttention.forward": (
                    replace(
                        "is_causal=self.kv_cache is None and mask is None and self.is_causal",
                        """\
is_causal=(self.kv_cache is None or not self.cache_enabled)
and mask is None
and self.is_causal""",
                    ),
                )
            },
            test="""
                import torch
                from torchtune.models.llama3._component_builders import llama3
                from torchtune.modules.common_utils import disable_kv_cache

                sizes = {"num_layers": 1, "num_heads": 2, "num_kv_heads": 2, "embed_dim": 16, "max_seq_len": 32}
                model = llama3(vocab_size=20, **sizes).eval()
                ids = torch.tensor([[3, 5, 7]])
                with torch.no_grad():
                    alone = model(ids)
                    model.setup_caches(1, torch.float32, decoder_max_seq_len=8)
                    with disable_kv_cache(model):
                        torch.testing.assert_close(model(ids), alone)
            """,
        ),
        Patch(
            mends=("torchtune-window-of-the-first-places",),
            says="the window of Gemma 2 is that of the last places, also in a step with a cache",
            edits={
                "torchtune.models.gemma2._attention:Gemma2Attention.forward": (
                    replace(
                        """\
all_ones = torch.ones_like(mask)

sliding_mask = torch.triu(
    all_ones, -1 * self.sliding_window_size + 1
) * torch.tril(all_ones, self.sliding_window_size - 1)
mask = torch.where(sliding_mask == 1, mask, -2.3819763e38)""",
                        """\
columns = torch.arange(mask.shape[-1], device=x.device)
rows = torch.arange(s_x, device=x.device)
if self.kv_cache is not None and self.cache_enabled:
    # the cache has been updated: the last of its places is that of the last row
    rows = rows + self.kv_cache.cache_pos[0] - s_x
outside = (rows[:, None] - columns).abs() >= self.sliding_window_size
mask = torch.where(outside, -2.3819763e38, mask)""",
                    ),
                )
            },
            test="""
                import torch
                from torchtune.models.gemma2._component_builders import gemma2

                torch.manual_seed(0)
                sizes = {"num_heads": 2, "head_dim": 8, "num_kv_heads": 1, "embed_dim": 16, "intermediate_dim": 32}
                windows = {"sliding_window_size": 2, "query_pre_attn_scalar": 8}
                model = gemma2(vocab_size=20, num_layers=1, max_seq_len=32, **windows, **sizes).eval()
                ids, causal = torch.tensor([[3, 5, 7, 9]]), torch.ones(1, 8, 8, dtype=torch.bool).tril()
                with torch.no_grad():
                    whole = model(ids)
                    model.setup_caches(1, torch.float32, decoder_max_seq_len=8)
                    for places in ([0, 1], [2], [3]):
                        step = model(ids[:, places], mask=causal[:, places], input_pos=torch.tensor([places]))
                        torch.testing.assert_close(step, whole[:, places])
            """,
        ),
        Patch(
            mends=("torchtune-full-cache-is-a-bare-assertion",),
            says="the error of a cache that is full says so",
            edits={
                "torchtune.modules.kv_cache:KVCache.update": (
                    replace(
                        "assert (self.cache_pos[0] + seq_len) <= self.k_cache.shape[2]",
                        """\
# the text is a constant, as torch.compile asks for
assert (self.cache_pos[0] + seq_len) <= self.k_cache.shape[2], (
    "the cache is full: it has no room for the new tokens, see `max_seq_len` of its setup"
)""",
                    ),
                )
            },
            test="""
                import torch
                from torchtune.modules import KVCache

                cache = KVCache(batch_size=1, max_seq_len=2, num_kv_heads=1, head_dim=4, dtype=torch.float32)
                try:
                    cache.update(torch.ones(1, 1, 3, 4), torch.ones(1, 1, 3, 4))
                except AssertionError as error:
                    assert "max_seq_len" in str(error)
                else:
                    raise RuntimeError("a full cache took new tokens")
            """,
        ),
    ),
)
