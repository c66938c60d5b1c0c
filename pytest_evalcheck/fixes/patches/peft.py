"""Patches of peft."""

from __future__ import annotations

from pytest_evalcheck.fixes.patches.patch import Library, Patch, replace

LIBRARY = Library(
    "peft",
    "0.21.2",
    "0.22",
    source="src/",
    patches=(
        Patch(
            mends=("peft-prefix-tuning-ignores-the-cache",),
            says="forward() of prefix tuning keeps a cache that it is given, and fills an empty one with the prefix",
            edits={
                "peft.peft_model:PeftModelForCausalLM.forward": (
                    replace(
                        'kwargs["past_key_values"] = self.get_prompt(batch_size, max_cache_len=max_cache_len)',
                        """\
cache = kwargs.get("past_key_values")
if not isinstance(cache, transformers.Cache):
    kwargs["past_key_values"] = self.get_prompt(batch_size, max_cache_len=max_cache_len)
elif not cache.get_seq_length():  # what an earlier call filled has the prefix already
    prefix = self.get_prompt(batch_size, max_cache_len=max_cache_len)
    for place, layer in enumerate(prefix.layers):
        if layer.get_seq_length():  # layers that share the cache of another one have none
            cache.update(layer.keys, layer.values, place)""",
                    ),
                )
            },
            test="""
                import peft
                import torch
                from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

                torch.manual_seed(0)
                sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
                base = LlamaForCausalLM(LlamaConfig(vocab_size=50, initializer_range=0.5, **sizes))
                config = peft.PrefixTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=3)
                model = peft.get_peft_model(base, config).eval()
                ids = torch.tensor([[1, 2, 3, 4]])
                with torch.no_grad():
                    whole = model(ids).logits[:, -1]
                    for empty in (None, DynamicCache()):
                        cache = model(ids[:, :3], use_cache=True, past_key_values=empty).past_key_values
                        assert empty is None or cache is empty
                        mask = torch.ones(1, 4)
                        step = model(ids[:, 3:], attention_mask=mask, past_key_values=cache).logits[:, -1]
                        torch.testing.assert_close(step, whole, rtol=1e-4, atol=1e-4)
            """,
        ),
    ),
)
