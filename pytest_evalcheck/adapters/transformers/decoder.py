"""transformers: a causal language model with one of its caches."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NoReturn

from pytest_evalcheck.adapters.transformers import conventions, sampling
from pytest_evalcheck.errors import nearest
from pytest_evalcheck.expectations.call_log import called
from pytest_evalcheck.kinds.common.convention import Convention
from pytest_evalcheck.kinds.decoder.record import Decoder, truncate_at_stop
from pytest_evalcheck.strategies.samples import Side, padded

CLASSES = ("peft.peft_model.PeftModel", "transformers.modeling_utils.PreTrainedModel")

_CACHE_NAMES = ("cache", "past_key_values", "cache_params", "past_buckets_states", "state")
"""The names of the cache among the parameters of forwards and in their outputs; from 5.24 on ``cache`` for most."""

# Compiling sets a variable of the environment, and a simulated device has no kernels.
GREEDY = {"do_sample": False, "num_beams": 1, "pad_token_id": 0, "disable_compile": True}
"""Arguments of every call of ``generate``."""

CACHES = (
    "dynamic",
    "plain",
    "recording",
    "static",
    "offloaded",
    "offloaded static",
    "fp8",
    "hqq",
    "quanto",
    "encoder-decoder",
    "held",
)
"""The names of caches.

Windows, chunks and recurrent states are layers of a dynamic or static cache: the config of a model says which it has.
``plain`` is a dynamic one without a config, ``recording`` one that can be cropped beyond its window, as assisted
decoding asks for it; ``fp8``, ``hqq`` and ``quanto`` are quantised, ``held`` is the one that the model creates itself.
"""
_CANDIDATES = (
    '"Generates sequences of token ids for models with a language modeling head using **greedy decoding** or '
    '**sample** (depending on `do_sample`), assisted by candidate sequences." (GenerationMixin._assisted_decoding)'
)


def record(made: Any) -> Decoder:
    """The record of a model, with a dynamic cache, or of a `Decoder` that has a cache alone."""
    return _completed(made) if isinstance(made, Decoder) else decoder(made)


def decoder(model: Any, cache: str = "dynamic", *, length: int = 64, generates: bool = True, **fields: Any) -> Decoder:
    """A causal language model with the cache of this name.

    Args:
        model: a `PreTrainedModel` that returns logits.
        cache: one of `CACHES`; ``held`` is for architectures that take no cache of another class.
        length: how many tokens a static cache holds.
        generates: whether its ``generate`` is checked, which takes as long as all else.
        fields: of `Decoder`, in addition to or instead of what is known of the model.

    Raises:
        ValueError: for a name that no cache has.
    """
    # The cache may have the dtype of the model that it is made for.
    known = {
        "make_cache": cache_factory(model, cache, length),
        "in_float32": lambda: decoder(float32_copy(model), cache, length=length, generates=generates, **fields),
    }
    return _completed(Decoder(model, **{**known, **fields}), generates)


def _completed(record: Decoder, generates: bool = True) -> Decoder:
    assert record.make_cache is not None  # a record without a cache needs no adapter
    known, example = _Model(record.model), record.make_cache(1)
    own = known.generate if generates and record.model.can_generate() else None

    def in_float32() -> Decoder:
        return _completed(replace(record, model=float32_copy(record.model)), generates)

    return replace(
        record,
        step=known.step,
        generate=record.generate or own,
        operations=record.operations or offered_operations(example),
        capacity=record.capacity or capacity(example),
        tensors=record.tensors or tensors,
        samplers=record.samplers or (sampling.samplers(record.model) if own else {}),
        in_float32=record.in_float32 or in_float32,
        conventions={
            **conventions.step_conventions(known),
            **(conventions.generation_conventions(known) if own else {}),
            **record.conventions,
        },
    )


def float32_copy(model: Any) -> Any:
    """A copy of a model in float32."""
    return copy.deepcopy(model).float()


@dataclass(frozen=True)
class _Model:
    model: Any

    @cached_property
    def parameters(self) -> Any:
        """The parameters of its forward, which are needed at every step."""
        return inspect.signature(self.model.forward).parameters

    @cached_property
    def cache_name(self) -> str:
        """The name of the cache among the parameters of its forward."""
        return next((name for name in _CACHE_NAMES if name in self.parameters), "past_key_values")

    @cached_property
    def attends(self) -> bool:
        """True if its cache has keys and values, to which a mask applies, and not states alone."""
        if self.cache_name != "cache":
            return self.cache_name == "past_key_values"
        layers = _class("DynamicCache", "dynamic")(config=self.model.config).is_linear
        return not (layers and all(layers))

    def step(self, ids: Any, cache: Any, mask: Any, positions: Any) -> Any:
        """The logits of new ids, called as the model's own ``generate`` calls it."""
        return self.forward(self.inputs(ids, cache, mask, positions), cache)

    def inputs(self, ids: Any, cache: Any, mask: Any, positions: Any) -> dict[str, Any]:
        """The arguments of its forward for new ids."""
        import torch

        name = self.cache_name
        inputs: dict[str, Any] = {"input_ids": ids, "use_cache": cache is not None}
        if "position_ids" in self.parameters:
            inputs["position_ids"] = positions
        if self.attends or mask.shape[1] == ids.shape[1]:  # a mask does not apply to a state
            inputs["attention_mask"] = mask
        if cache is not None:
            inputs[name] = _unwrapped(cache)
            if name == "past_key_values" and "cache_position" in self.parameters:  # releases before 5
                total = mask.shape[1]
                inputs["cache_position"] = torch.arange(total - ids.shape[1], total, device=ids.device)
        return inputs

    def forward(self, inputs: dict[str, Any], cache: Any) -> Any:
        """The logits of one call; a cache that the model creates is kept."""
        import torch

        with torch.no_grad():
            outputs = called(self.model, **inputs)
        if isinstance(cache, ModelCache):
            cache.value = outputs[self.cache_name]
        return outputs["logits"]

    def generate(self, prompts: list[list[int]], cache: Any, max_new_tokens: int, stop: tuple[int, ...]) -> Any:
        """Generate greedily with its own ``generate``, for prompts that are padded on the left."""
        return self.generated(prompts, max_new_tokens, stop, **self.given(cache))

    def generated(self, prompts: list[list[int]], count: int, stop: tuple[int, ...], **options: Any) -> Any:
        """Generate with its own ``generate`` and these options."""
        return generated(self.model, prompts, "left", count, stop, **options)

    def room(self, cache: Any) -> int:
        """Return the number of tokens of a row that a cache has memory for; -1 if it grows, or if there is none."""
        return capacity(cache) or -1

    def given(self, cache: Any) -> dict[str, Any]:
        """A cache as an argument of ``generate``; nothing for one that the model creates itself."""
        name = self.cache_name if self.cache_name in ("cache", "cache_params") else "past_key_values"
        return {} if isinstance(cache, ModelCache) else {name: cache}


def generated(
    model: Any, prompts: Sequence[Sequence[int]], side: Side, count: int, stop: Sequence[int], **options: Any
) -> list[list[int]]:
    """The tokens that ``generate`` returns for prompts, which are padded with 0 on a side."""
    import torch

    width = max(map(len, prompts), default=0)
    ids = [padded(prompt, side, width, 0) for prompt in prompts]
    masks = [padded([1] * len(prompt), side, width, 0) for prompt in prompts]
    tensors = [
        torch.tensor(t, dtype=torch.long, device=model.device).reshape(len(prompts), width) for t in (ids, masks)
    ]
    tokens = called(
        model.generate,
        input_ids=tensors[0],
        attention_mask=tensors[1],
        max_new_tokens=count,
        eos_token_id=list(stop) or None,
        **{name: value for name, value in GREEDY.items() if hasattr(model.generation_config, name)},
        **options,
    )
    # With padding on the left rows begin with the prompt; a source, padded on the right, is replaced by a start token.
    start = width if side == "left" else 1
    # After the first stop token of a row there is padding, by the documentation of ``generate``.
    return [truncate_at_stop(row, stop, keep_stop=True) for row in tokens[:, start:].tolist()]


def speculative_conventions(model: Any, assistant: Any) -> dict[str, Convention]:
    """Ways to generate with candidates that the model verifies: from the prompt, and from a smaller model.

    Prompts are generated one by one, since candidates are for one row. The tokens must be those of greedy decoding.

    Args:
        model: a causal language model of transformers.
        assistant: another one with the same vocabulary.
    """

    def way(**options: Any) -> Convention:
        def generate(prompts: list[list[int]], _cache: Any, count: int, stop: tuple[int, ...]) -> Any:
            return [row for each in prompts for row in generated(model, [each], "left", count, stop, **options)]

        return Convention(_CANDIDATES, generate=generate)

    return {
        "generate with candidates from the prompt": way(prompt_lookup_num_tokens=3),
        "generate with candidates of another model": way(assistant_model=assistant),
    }


@dataclass
class ModelCache:
    """The cache of an architecture that creates its own: empty until the model has created one."""

    value: Any = None


def cache_factory(model: Any, name: str, length: int) -> Callable[[int], Any]:
    """``make_cache`` of a `Decoder`: caches of transformers take the number of rows from their first batch.

    Raises:
        ValueError: for a name that no cache has.
    """
    if name not in CACHES:
        hint = nearest(name, CACHES)
        raise ValueError(f"transformers has no cache {name!r}; expected one of {', '.join(map(repr, CACHES))}{hint}")
    return lambda rows: _new_cache(model, name, length, rows)


def _new_cache(model: Any, name: str, length: int, rows: int) -> Any:
    if name == "held":
        return ModelCache()
    dynamic, config = _class("DynamicCache", name), model.config
    if name == "plain":
        return called(dynamic)
    if name == "encoder-decoder":
        # With a configuration, layers with a window would drop what they attend to of the source.
        return called(_class("EncoderDecoderCache", name), _constructed(dynamic, config=config), called(dynamic))
    if name in ("fp8", "hqq", "quanto"):
        from transformers import cache_utils

        quantised = _class("QuantizedCache", name, "backend")
        if name == "fp8" and not hasattr(cache_utils, "Fp8QuantizedLayer"):
            _refuse(name)  # releases before it have the class, for the other two
        return called(quantised, name, config=config)
    offloading = name.startswith("offloaded")
    needed = ("offloading",) if offloading else ()
    if name.endswith("static"):
        # Releases before 4.54 allocate the cache when it is made, and need to know its rows, dtype and device.
        placed = {"dtype": getattr(model, "dtype", None), "device": getattr(model, "device", None)}
        size = {"max_cache_len": length, "max_batch_size": rows, "batch_size": rows}
        static = _class("StaticCache", name, *needed)
        return _constructed(static, config=config, offloading=offloading, **size, **placed)
    cache = _constructed(_class("DynamicCache", name, *needed), config=config, offloading=offloading)
    if name == "recording":
        getattr(cache, "activate_past_recording", partial(_refuse, name))()
    return cache


def _class(cls: str, name: str, *parameters: str) -> Any:
    """A class of transformers whose constructor has these parameters, or the error that the release has no such one."""
    import transformers

    found = getattr(transformers, cls, None)
    if found is None or not set(parameters) <= inspect.signature(found).parameters.keys():
        _refuse(name)
    return found


def _refuse(name: str) -> NoReturn:
    import transformers

    raise ValueError(f"transformers {transformers.__version__} has no cache {name!r}: a newer release has")


def _constructed(cls: Any, **keywords: Any) -> Any:
    """An object of a class, with those keywords that its constructor names in the release that is installed."""
    known = inspect.signature(cls).parameters
    return called(cls, **{name: value for name, value in keywords.items() if name in known})


def capacity(cache: Any) -> int | None:
    """Return the number of tokens of a row that this cache holds; None if it grows, or if all layers have a window."""
    if not _layers(cache):  # before 4.54 a cache had no layers, and one of a fixed size said it itself
        length = getattr(cache, "max_cache_len", None)
        return length if isinstance(length, int) else None
    fixed = [layer for layer in _layers(cache) if hasattr(layer, "max_cache_len") and not layer.is_sliding]
    return min((layer.max_cache_len for layer in fixed), default=None)


def _layers(cache: Any) -> Sequence[Any]:
    return getattr(getattr(cache, "self_attention_cache", cache), "layers", ())


def tensors(cache: Any) -> Iterator[Any]:
    """Every tensor of this cache, those of its layers and of their states included."""
    import torch

    pending, visited = [cache], set()
    while pending:
        item = pending.pop()
        if id(item) not in visited:
            visited.add(id(item))
            if isinstance(item, torch.Tensor):
                yield item
            elif isinstance(item, (list, tuple)):
                pending.extend(item)
            elif isinstance(item, dict) or (hasattr(item, "__dict__") and not isinstance(item, type)):
                pending.extend((item if isinstance(item, dict) else vars(item)).values())


def _reset(cache: Any) -> None:
    if isinstance(cache, ModelCache):
        cache.value = None  # without a cache the model creates a new one
    else:
        called(cache.reset)


def _crop(cache: Any, length: int) -> None:
    current = int(_unwrapped(cache).get_seq_length())
    if not getattr(_unwrapped(cache), "is_croppable", True):  # it says that what left its window cannot come back
        raise NotImplementedError("the cache is not croppable: is_croppable is False")
    if length < current:
        called(_unwrapped(cache).crop, length - current)


def _unwrapped(cache: Any) -> Any:
    return cache.value if isinstance(cache, ModelCache) else cache


OPERATIONS: dict[str, Callable[..., Any]] = {
    "reset": _reset,
    "reorder": lambda cache, order: called(_unwrapped(cache).reorder_cache, order),
    "select": lambda cache, rows: called(_unwrapped(cache).batch_select_indices, rows),
    "repeat": lambda cache, times: called(_unwrapped(cache).batch_repeat_interleave, times),
    "crop": _crop,
}


_METHODS = {
    "reset": "reset",
    "reorder": "reorder_cache",
    "select": "batch_select_indices",
    "repeat": "batch_repeat_interleave",
    "crop": "crop",
}


def offered_operations(cache: Any) -> dict[str, Callable[..., Any]]:
    """Return those of `OPERATIONS` that this cache has in the release that is installed.

    A cache that its model makes shows what it has only then: all of them are offered.
    """
    if isinstance(cache, ModelCache):
        return OPERATIONS
    return {name: made for name, made in OPERATIONS.items() if hasattr(cache, _METHODS[name])}
