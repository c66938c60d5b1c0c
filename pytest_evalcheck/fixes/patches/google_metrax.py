"""Patches of metrax."""

from __future__ import annotations

from pytest_evalcheck.fixes.patches.patch import Library, Patch, replace

LIBRARY = Library(
    "google-metrax",
    "0.2.4",
    "0.3",
    patches=(
        Patch(
            mends=("google-metrax-perplexity-of-an-empty-batch",),
            says="an empty batch does not change the perplexity",
            edits={
                "metrax.nlp_metrics:Perplexity.from_model_output": (
                    replace(
                        "crossentropy = jnp.mean(crossentropy)",
                        "# an empty batch has no mean\n"
                        "crossentropy = jnp.mean(crossentropy) if crossentropy.size else jnp.sum(crossentropy)",
                    ),
                )
            },
            test="""
                import jax.numpy as jnp
                from metrax.nnx import Perplexity

                metric = Perplexity()
                for size in (0, 2, 0):
                    metric.update(predictions=jnp.full((size, 3, 4), 0.25), labels=jnp.zeros((size, 3), int))
                assert abs(metric.compute() - 4) < 1e-5
            """,
        ),
    ),
)
