from __future__ import annotations

import importlib.util
import sys
import types
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

import pytest_evalcheck as ec
from pytest_evalcheck import adapters
from pytest_evalcheck.expectations.failures import TargetError
from pytest_evalcheck.upstream import faults

transformers = pytest.importorskip("transformers")

from pytest_evalcheck.adapters.transformers.decoder import (  # noqa: E402
    CACHES,
    cache_factory,
    capacity,
    decoder,
    tensors,
)

IDS = torch.tensor([[3, 5, 7, 9], [4, 6, 8, 2]])
MASK = torch.ones_like(IDS)
POSITIONS = torch.arange(4).expand(2, 4)
RELEASE = tuple(map(int, transformers.__version__.split(".")[:2]))
NEWEST = pytest.param("recording", marks=pytest.mark.skipif(RELEASE < (5, 0), reason="a newer release has it"))
BOTH = pytest.param("encoder-decoder", marks=pytest.mark.skipif(RELEASE < (4, 44), reason="a newer release has it"))
HAS_FP8 = hasattr(transformers.cache_utils, "Fp8QuantizedLayer")
FP8 = pytest.param("fp8", marks=pytest.mark.skipif(not HAS_FP8, reason="a newer release has it"))


def llama(**sizes):
    torch.manual_seed(0)
    small = {"vocab_size": 20, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2}
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**small, **heads, **sizes)).double().eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(torch.randn_like(weight))
    return model


def stepwise(made, cache):
    first = made.step(IDS[:, :3], cache, MASK[:, :3], POSITIONS[:, :3])
    return torch.cat([first, made.step(IDS[:, 3:], cache, MASK, POSITIONS[:, 3:])], 1)


@pytest.mark.parametrize("name", ["dynamic", "plain", NEWEST, "static"])
def test_a_cache_by_name_decodes_as_none_does(name):
    made = decoder(llama(), name, length=6)
    torch.testing.assert_close(stepwise(made, made.make_cache(2)), made.step(IDS, None, MASK, POSITIONS))


def test_a_model_whose_module_was_forgotten_has_its_conventions(monkeypatch):
    model = llama()
    expected = set(decoder(model, "dynamic", length=6).conventions)
    monkeypatch.delitem(sys.modules, type(model).__module__)  # what a run of pytest in the process does afterwards
    assert set(decoder(model, "dynamic", length=6).conventions) == expected


def test_a_name_that_no_cache_has_is_told_with_the_nearest_one():
    with pytest.raises(ValueError, match=r"no cache 'statik'; expected one of .* did you mean 'static'\?"):
        cache_factory(llama(), "statik", 6)


@pytest.mark.parametrize("name", ["dynamic", "plain", NEWEST, "static", FP8, BOTH, "held"])
def test_every_name_that_needs_nothing_else_makes_a_cache(name):
    assert name in CACHES
    assert cache_factory(SimpleNamespace(config=llama().config), name, 6)(2) is not None


def test_a_model_alone_is_given_a_dynamic_cache():
    made = adapters.record("decoder", llama())
    assert isinstance(made.make_cache(2), transformers.DynamicCache)
    assert made.capacity is None
    assert not made.refuses


def test_a_cache_of_a_fixed_size_tells_its_capacity_and_that_it_refuses_fewer_rows():
    model = llama()
    made = adapters.record("decoder", ec.Decoder(model, make_cache=cache_factory(model, "static", 6)))
    assert made.capacity == 6
    assert made.refuses == ()


@pytest.mark.skipif(RELEASE < (4, 54), reason="its static cache keeps all tokens of every layer")
def test_a_window_is_no_capacity():
    made = cache_factory(SimpleNamespace(config=transformers.MistralConfig(sliding_window=3)), "static", 6)(1)
    assert capacity(made) is None


def test_operations_act_on_the_rows():
    made = decoder(llama())
    cache = made.make_cache(2)
    made.step(IDS[:, :3], cache, MASK[:, :3], POSITIONS[:, :3])
    made.operations["reorder"](cache, torch.tensor([1, 0]))
    after = made.step(IDS.flip(0)[:, 3:], cache, MASK, POSITIONS[:, 3:])
    torch.testing.assert_close(after, made.step(IDS.flip(0), None, MASK, POSITIONS)[:, 3:])
    made.operations["crop"](cache, 3)
    assert cache.get_seq_length() == 3
    if RELEASE >= (5, 0):  # older ones have no reset, or one that keeps the length
        made.operations["reset"](cache)
        torch.testing.assert_close(stepwise(made, cache), made.step(IDS, None, MASK, POSITIONS))


@pytest.mark.skipif(RELEASE >= (5, 0), reason="this release has it")
def test_a_cache_that_came_later_is_told_with_the_release():
    with pytest.raises(ValueError, match=rf"transformers {transformers.__version__} has no cache 'recording'"):
        cache_factory(llama(), "recording", 6)(1)


def test_a_quantised_cache_that_came_later_is_told_with_the_release(monkeypatch):
    """Releases before it have the class of such caches, with an error of its own for a name that it does not know."""
    monkeypatch.delattr(transformers.cache_utils, "Fp8QuantizedLayer", raising=False)
    with pytest.raises(ValueError, match=rf"transformers {transformers.__version__} has no cache 'fp8'"):
        cache_factory(llama(), "fp8", 6)(1)


def test_the_memory_of_a_cache_is_that_of_its_layers():
    made = decoder(llama(), "static", length=6)
    cache = made.make_cache(2)
    stepwise(made, cache)
    assert sum(one.numel() for one in tensors(cache) if one.is_floating_point()) == 2 * 2 * 2 * 2 * 6 * 8


def test_generated_tokens_end_with_the_stop_token():
    made = decoder(llama())
    free = made.generate([[3, 5], [4, 6, 8]], made.make_cache(2), 5, ())
    assert [len(row) for row in free] == [5, 5]
    stop = free[0][2]
    stopped = made.generate([[3, 5], [4, 6, 8]], made.make_cache(2), 5, (stop,))
    assert stopped[0] == free[0][: free[0].index(stop) + 1]


def test_generate_can_be_left_out_also_in_float32():
    made = decoder(llama(), generates=False)
    assert made.generate is None
    lower = made.in_float32()
    assert lower.generate is None
    assert lower.step(IDS, None, MASK, POSITIONS).dtype == torch.float32


def test_what_is_no_decoder_is_told():
    with pytest.raises(TargetError, match=r"the factory returned an object of type builtins\.object"):
        adapters.record("decoder", object())


needs_torchtune = pytest.mark.skipif(
    importlib.util.find_spec("torchtune") is None or importlib.util.find_spec("torchao") is None, reason="no torchtune"
)


def llama3():
    from torchtune.models.llama3._component_builders import llama3 as build

    torch.manual_seed(0)
    sizes = {"num_layers": 1, "num_heads": 2, "num_kv_heads": 2, "embed_dim": 16, "max_seq_len": 32}
    return build(vocab_size=20, **sizes).eval()


@needs_torchtune
def test_caches_inside_a_model_of_torchtune_decode_as_none_does():
    made = adapters.record("decoder", llama3())
    whole = made.full(IDS, MASK, POSITIONS)
    cache = made.make_cache(2)
    torch.testing.assert_close(stepwise(made, cache), whole)
    torch.testing.assert_close(made.full(IDS, MASK, POSITIONS), whole)  # caches are disabled meanwhile
    made.operations["reset"](cache)
    torch.testing.assert_close(stepwise(made, cache), whole)
    made.operations["tear_down"](cache)
    assert made.tensors(cache) == []


@needs_torchtune
def test_torchtune_generates_for_fewer_prompts_than_there_are_rows():
    from pytest_evalcheck.adapters.torchtune import decoder as torchtune

    model = llama3()
    made, here = torchtune.decoder(model, length=16), torchtune.local(model, length=16)
    full = here.generate([[3, 5], [4, 6, 8]], here.make_cache(2), 4, ())
    assert here.generate([[3, 5]], here.make_cache(3), 4, ()) == full[:1]
    assert made.generate([[3, 5]], made.make_cache(3), 4, ()) == full[:1]


def called_by(made, names):
    """The same with these of its conventions."""
    return replace(made, conventions={name: each for name, each in made.conventions.items() if name in names})


@needs_torchtune
def test_ways_to_call_a_model_of_torchtune_leave_its_caches_as_they_were():
    from pytest_evalcheck.kinds.common.convention import supported, with_convention

    made = adapters.record("decoder", llama3())
    assert {*made.conventions} - {*supported(made)} == {"no mask with caches", "no positions with caches"}
    cache = made.make_cache(2)
    made.step(IDS, cache, MASK, POSITIONS)
    before = [tensor.clone() for tensor in made.tensors(cache)]
    for name in supported(made):
        way = with_convention(made, name)
        way.full(IDS, MASK, POSITIONS)
        if way.generate is not made.generate:
            way.generate([[3, 5], [4, 6]], cache, 3, ())
        for old, new in zip(before, made.tensors(cache), strict=True):
            torch.testing.assert_close(new, old, rtol=0, atol=0)


@needs_torchtune
@pytest.mark.parametrize("name", ["positions of one dimension", "generate without caches", "no mask, caches disabled"])
def test_a_model_that_is_wrong_in_one_way_to_call_it_is_red(name):
    from torchtune.modules import TransformerDecoder

    def forward(self, tokens, *, mask=None, input_pos=None, **more):
        if name.startswith("positions") and input_pos is not None and input_pos.dim() == 1:
            input_pos = torch.zeros_like(input_pos)
        if name.startswith("generate") and not self.caches_are_setup() and mask is not None:
            mask = torch.ones_like(mask)
        return TransformerDecoder.forward(self, tokens, mask=mask, input_pos=input_pos, **more)

    def target(ways, wrong=True):
        @ec.decoder(inputs=ec.strategies.prompts(vocab=20))
        def decodes(device):
            model = llama3().double()
            if wrong:
                model.forward = types.MethodType(forward, model)
            return called_by(adapters.record("decoder", model), ways)

        return decodes

    (cell,) = ec.run(target([name]), select="EC319", effort="quick").cells
    assert cell.outcome == "failed", cell
    if name != "no mask, caches disabled":  # where it is wrong itself
        (cell,) = ec.run(target([name], wrong=False), select="EC319", effort="quick").cells
        assert cell.outcome == "passed", cell


@needs_torchtune
def test_a_way_to_disable_that_is_none_is_told():
    from pytest_evalcheck.adapters.torchtune import decoder as torchtune

    with pytest.raises(ValueError, match="disabled='no'; expected one of 'masked', 'unmasked'"):
        torchtune.decoder(llama3(), disabled="no")


def test_a_model_in_half_precision_is_judged_without_its_rounding():
    """A static cache attends to places that are masked, in another order of sums than without a cache."""
    model = llama().bfloat16()

    @ec.decoder(inputs=ec.strategies.prompts(vocab=20))
    def halved(device):
        return decoder(model, "static", length=16, generates=False)

    report = ec.run(halved, select="EC301,EC306,EC308,EC312", effort="quick")
    # The registry has the fault for the newest release; others, which have it too, say so in a note.
    (full,) = (fault for fault in faults() if fault.id == "transformers-static-cache-full")
    shown = ["full" if full.shows(cell.signature) else cell.outcome for cell in report.cells]
    assert shown == ["passed", "passed", "full", "passed"], report.cells
