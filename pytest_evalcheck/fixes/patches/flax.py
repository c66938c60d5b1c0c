"""Patches of flax."""

from __future__ import annotations

from pytest_evalcheck.fixes.patches.patch import Library, Patch, put_before, replace

LIBRARY = Library(
    "flax",
    "0.12.8",
    "0.13",
    patches=(
        Patch(
            mends=("flax-welford-of-an-empty-batch",),
            says="Welford takes an empty batch",
            edits={
                "flax.nnx.training.metrics:Welford.update": (
                    put_before("original_count = ", "if count == 0:  # has no mean\n  return"),
                )
            },
            test="""
                import jax.numpy as jnp
                from flax import nnx

                metric = nnx.metrics.Welford()
                for batch in ([], [1.0, 3.0], []):
                    metric.update(values=jnp.array(batch))
                assert metric.compute().mean == 2
            """,
        ),
        Patch(
            mends=("flax-nan-is-the-largest-logit",),
            says="Accuracy is NaN where a logit that counts is NaN",
            edits={
                "flax.nnx.training.metrics:Accuracy.update": (
                    replace(
                        "if self.threshold is not None:  # Binary classification case\nsuper()",
                        """\
is_nan = jnp.isnan(logits)
if self.threshold is None:
  is_nan = is_nan.any(axis=-1)
if mask is not None:
  is_nan = is_nan & mask.astype(bool)
self.total[...] = jnp.where(is_nan.any(), jnp.nan, self.total[...])

if self.threshold is not None:  # Binary classification case
  super()""",
                    ),
                )
            },
            test="""
                import jax.numpy as jnp
                from flax import nnx

                logits = jnp.array([[jnp.nan, 0.0], [1.0, 0.0]])
                labels = jnp.array([0, 0])
                for options, given in (({}, logits), ({"threshold": 0.5}, logits[:, 0])):
                    metric = nnx.metrics.Accuracy(**options)
                    metric.update(logits=given, labels=labels, mask=jnp.array([0, 1]))
                    assert metric.compute() == (0 if options else 1)
                    metric.update(logits=given, labels=labels)
                    assert jnp.isnan(metric.compute())
            """,
        ),
    ),
)
