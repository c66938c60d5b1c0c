"""A KV cache is set up for the size of the first batch, and the last batch is smaller.

The report: https://github.com/meta-pytorch/torchtune/issues/1600
"""

from _small import PAD, SPECIAL, TorchtuneRecipe, llama
from torchtune.generation import generate

import pytest_evalcheck as ec
from pytest_evalcheck import strategies as es
from pytest_evalcheck.adapters.lm_eval import decoder as lm_eval

NEEDS = ("torchtune>=0.6.1,<0.7", "lm_eval>=0.4.13,<0.5")
PROMPTS = es.prompts(vocab=40, special=SPECIAL)


class Recipe(TorchtuneRecipe):
    """torchtune's evaluation recipe for lm-eval, as it was reported."""

    def _model_generate(self, context, max_length, stop, **options):
        if self.model.caches_are_setup():
            self.model.reset_caches()
        else:
            self.model.setup_caches(len(context), dtype=self._dtype, decoder_max_seq_len=self.max_length)
        new = max_length - context.shape[1]
        tokens, _ = generate(self.model, context, max_generated_tokens=new, pad_id=PAD, temperature=0.0)
        return tokens


@ec.decoder(inputs=PROMPTS, requires=NEEDS)
def faulty():
    return lm_eval.decoder(lambda batch_size: Recipe(llama(), batch_size), suppressed=SPECIAL)


# EC302 a_smaller_batch_is_decoded_as_with_a_new_cache
#     what 1 row get by generate from a cache for 2
#         actual    generate raised RuntimeError: The expanded size of the tensor (1) must match the existing ...


@ec.decoder(inputs=PROMPTS, requires=NEEDS)
def mended():
    from pytest_evalcheck.fixes.caches import PersistentTorchtuneCache

    class Mended(PersistentTorchtuneCache, Recipe): ...

    return lm_eval.decoder(lambda batch_size: Mended(llama(), batch_size), suppressed=SPECIAL)
