"""A static cache of a config that says that no layer shares its keys and values."""

import sys

from transformers import Gemma3nTextConfig, StaticCache

config = Gemma3nTextConfig(
    num_hidden_layers=2, num_kv_shared_layers=0, layer_types=["sliding_attention", "full_attention"]
)
layers = len(StaticCache(config=config, max_cache_len=16).layers)
print("two layers, of which the cache has", layers)
sys.exit(int(layers != 2))
