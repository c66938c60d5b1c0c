"""transformers: other documented ways to call a causal language model and its ``generate``."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from pytest_evalcheck.kinds.common.convention import Convention

_POSITIONS = (
    '"If no `position_ids` are passed to the model, the IDs are automatically created as absolute positional '
    'embeddings." (glossary)'
)
_NO_MASK = '"The attention mask is an optional argument used when batching sequences together." (glossary)'
_WIDE_MASK = (
    '"It can also be an already prepared 4D mask, in which case it is returned as-is." '
    "(masking_utils.create_causal_mask)"
)
_EMBEDDED = (
    '"Optionally, instead of passing `input_ids` you can choose to directly pass an embedded representation." '
    "(inputs_embeds of the forward)"
)
_KEEP = '"If an `int`, compute logits for the last `logits_to_keep` tokens." (logits_to_keep of the forward)'
_OWN_CACHE = '"the cache is initialized as a DynamicCache by default" where none is given (kv_cache)'
_UNCACHED = (
    '"Whether or not the model should use the past last key/values attentions (if applicable to the model) to speed up '
    'decoding." (use_cache of GenerationConfig)'
)
_PREFILLED = '"you may want to fill a `Cache` with kv pairs for a certain prefix prompt and reuse it" (kv_cache)'

_FROM_PADDING = '"Position numbers begin at padding_idx+1." (create_position_ids_from_input_ids)'
_ALIBI = '"this should be of shape (batch_size, max_seq_len)" (attention_mask of build_alibi_tensor)'
_PER_LAYER = (
    '"If calling the `forward` with `inputs_embeds` instead of `input_ids`, you should precompute them and forward '
    'them along `inputs_embeds`" (per_layer_inputs of the forward)'
)

Inputs = dict[str, Any]


def step_conventions(known: Any) -> dict[str, Convention]:
    """Ways to call the forward of a model: what may be left out, and what may be given in another form."""
    parameters, cached = known.parameters, known.attends
    ways: dict[str, Convention] = {}

    def way(name: str, sentence: str, change: Callable[[Inputs], Inputs], **fields: Any) -> None:
        def step(ids: Any, cache: Any, mask: Any, positions: Any) -> Any:
            return known.forward(change(known.inputs(ids, cache, mask, positions)), cache)

        ways[name] = Convention(sentence, step=step, **fields)

    left_out: dict[str, str] = {}
    if "position_ids" in parameters:
        left_out["no positions"] = "position_ids"
    if "attention_mask" in parameters:
        left_out["no mask"] = "attention_mask"
    own_positions = _counts_its_own_way(known.model)
    for name, left in left_out.items():
        way(name, _POSITIONS if left == "position_ids" else _NO_MASK, _dropping(left), sides=())
    if len(left_out) == 2:
        way("neither positions nor mask", _NO_MASK, _dropping(*left_out.values()), sides=())
    if own_positions:
        ways |= {name: Convention(_FROM_PADDING, supported=False) for name in ways if "positions" in name}
    if cached and _prepares_masks(known.model):
        way("a mask of four dimensions", _WIDE_MASK, lambda inputs: _widened(known, inputs))
        if _adds_distances(known.model):
            ways["a mask of four dimensions"] = Convention(_ALIBI, supported=False)
    if "inputs_embeds" in parameters:
        way("embeddings in place of ids", _EMBEDDED, lambda inputs: _embedded(known.model, inputs))
        if any(hasattr(module, "get_per_layer_inputs") for module in known.model.modules()):
            ways["embeddings in place of ids"] = Convention(_PER_LAYER, supported=False)
    if "logits_to_keep" in parameters:
        way("as many logits as ids", _KEEP, lambda inputs: {**inputs, "logits_to_keep": inputs["input_ids"].shape[1]})
    return ways


def generation_conventions(known: Any) -> dict[str, Convention]:
    """Ways to call ``generate``: with the cache that it creates, without one, and with one that holds a beginning."""

    def own_cache(prompts: list[list[int]], _cache: Any, count: int, stop: tuple[int, ...]) -> Any:
        return known.generated(prompts, count, stop)

    def uncached(prompts: list[list[int]], _cache: Any, count: int, stop: tuple[int, ...]) -> Any:
        return known.generated(prompts, count, stop, use_cache=False)

    def prefilled(prompts: list[list[int]], cache: Any, count: int, stop: tuple[int, ...]) -> Any:
        import torch

        held = len(prompts[0]) - 1  # several tokens on a cache that is not empty are another matter
        if held:
            ids = torch.tensor([row[:held] for row in prompts], device=known.model.device)
            positions = torch.arange(held, device=ids.device).expand(len(prompts), held)
            known.step(ids, cache, torch.ones_like(ids), positions)
        return known.generated(prompts, count, stop, **known.given(cache))

    ways = {
        "generate with a cache of its own": Convention(_OWN_CACHE, generate=own_cache),
        "generate without a cache": Convention(_UNCACHED, generate=uncached),
    }
    if known.attends:
        ways["generate from a cache that holds a beginning"] = Convention(_PREFILLED, generate=prefilled, sides=())
    return ways


def target_step_conventions(known: Any) -> dict[str, Convention]:
    """Ways to call the decoder of an encoder-decoder."""
    return {"no mask": Convention(_NO_MASK, step=known.unmasked_step, sides=())}


def target_generation_conventions(known: Any) -> dict[str, Convention]:
    """Ways to call ``generate`` of an encoder-decoder."""

    def own_cache(prompts: list[list[int]], _cache: Any, count: int, stop: tuple[int, ...]) -> Any:
        return known.generated(prompts, count, stop)

    def uncached(prompts: list[list[int]], _cache: Any, count: int, stop: tuple[int, ...]) -> Any:
        return known.generated(prompts, count, stop, use_cache=False)

    return {
        "generate with a cache of its own": Convention(_OWN_CACHE, generate=own_cache),
        "generate without a cache": Convention(_UNCACHED, generate=uncached),
    }


def _dropping(*names: str) -> Callable[[Inputs], Inputs]:
    return lambda inputs: {name: each for name, each in inputs.items() if name not in names}


def _counts_its_own_way(model: Any) -> bool:
    """Return whether positions that are not given begin elsewhere than at 0, and skip padding."""
    return any(hasattr(module, "create_position_ids_from_input_ids") for module in model.modules())


def _prepares_masks(model: Any) -> bool:
    """Return whether masks are made by ``create_causal_mask``, and every layer attends to all earlier tokens.

    For a window the author of a mask has to prepare another one.
    """
    config = model.config.get_text_config(decoder=True)
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    plain = kinds == {"full_attention"} and not getattr(config, "sliding_window", None)
    return plain and hasattr(import_module(type(model).__module__), "create_causal_mask")


def _adds_distances(model: Any) -> bool:
    """Return whether distances are added to the scores of attention, which are computed from the mask."""
    has_table = hasattr(import_module(type(model).__module__), "build_alibi_tensor")
    return has_table and bool(getattr(model.config, "alibi", True))


def _widened(known: Any, inputs: Inputs) -> Inputs:
    """The mask as ``[rows, 1, new, past + new]``: 0 where a token attends, and the least number elsewhere."""
    import torch

    mask, new = inputs["attention_mask"], inputs["input_ids"].shape[1]
    key = torch.arange(mask.shape[1], device=mask.device)
    query = key[-new:, None]
    visible = ((key <= query) & mask[:, None, :].bool()) | (key == query)
    table = next(each for each in known.model.parameters() if each.is_floating_point())
    wide = table.new_zeros(visible.shape).masked_fill(~visible, torch.finfo(table.dtype).min)
    # Of a cache of a fixed size all tokens are attended to.
    room = known.room(inputs.get(known.cache_name)) - wide.shape[2]
    if room > 0:
        wide = torch.nn.functional.pad(wide, (0, room), value=torch.finfo(table.dtype).min)
    return {**inputs, "attention_mask": wide[:, None]}


def _embedded(model: Any, inputs: Inputs) -> Inputs:
    embedded = model.get_input_embeddings()(inputs["input_ids"])
    return {**_dropping("input_ids")(inputs), "inputs_embeds": embedded}
