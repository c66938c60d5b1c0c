"""Tensors brought to a device: containers keep their type, each tensor crosses once, and only what is read."""

from __future__ import annotations

import contextlib
import copy
import gc
import pickle
from collections import defaultdict
from typing import Any

import pytest
import torch
from device_cases import CONTAINERS, Batch, Pair, Tagged, inputs, labels, named, places, shape, ways

from pytest_evalcheck.devices import simulate
from pytest_evalcheck.fixes.devices import TransferCache

with contextlib.suppress(ImportError):
    # At once: pytester, in other tests of the same process, forgets what is imported after it, and NumPy loads only once.
    import transformers

each_container = pytest.mark.parametrize("make", CONTAINERS.values(), ids=CONTAINERS)


def library_containers() -> list[Any]:
    pytest.importorskip("transformers")
    from transformers.modeling_outputs import CausalLMOutputWithPast

    cache = transformers.DynamicCache()
    return [
        transformers.BatchEncoding(named()),
        CausalLMOutputWithPast(loss=torch.tensor(1.0), logits=inputs(), past_key_values=cache),
    ]


@each_container
def test_a_container_comes_whole_and_keeps_its_type_its_order_and_the_original(make: Any):
    given = make()
    before = shape(given)
    with simulate("mps"):
        there = TransferCache().to_device(given, "mps")
        if not isinstance(there, torch.nn.utils.rnn.PackedSequence):
            assert places(there) == {"mps:0"}
        assert shape(there) == shape(make()) == before
        back = TransferCache().to_device(there, "cpu")
        assert shape(back) == before
    assert places(given) == {"cpu"}
    assert shape(given) == before
    assert TransferCache().to_device(given, "cpu") is given


def test_a_packed_sequence_keeps_its_batch_sizes_on_the_cpu():
    with simulate("mps"):
        there = TransferCache().to_device(CONTAINERS["packed sequence"](), "mps")
        assert (str(there.data.device), str(there.batch_sizes.device)) == ("mps:0", "cpu")


def test_containers_of_transformers_keep_their_type_and_what_is_no_tensor():
    for given in library_containers():
        with simulate("mps"):
            there = TransferCache().to_device(given, "mps")
            assert type(there) is type(given)
            assert list(there) == list(given)
            for name in ("inputs", "labels", "loss", "logits"):
                if name in given:
                    assert str(there[name].device) == str(getattr(there, name).device) == "mps:0"
            if "past_key_values" in given:
                assert there.past_key_values is given.past_key_values
    assert str(given.logits.device) == "cpu"


def test_attributes_of_containers_come_along():
    tagged, counted = Tagged([labels()]), defaultdict(int, labels=labels())
    tagged.tag = "mine"
    with simulate("mps"):
        assert TransferCache().to_device(tagged, "mps").tag == "mine"
        assert TransferCache().to_device(counted, "mps").default_factory is int


def test_only_what_has_to_move_is_made_anew():
    with simulate("mps"):
        near, far = labels().to("mps"), labels()
        given = {"near": [near], "far": [far], "text": ["a"]}
        there = TransferCache().to_device(given, "mps")
        assert there["near"] is given["near"]
        assert there["text"] is given["text"]
        assert there["far"] is not given["far"]
        assert given["far"] == [far]


def test_a_tensor_crosses_once_however_often_it_occurs():
    x = inputs()
    with simulate("mps") as ledger:
        transfers = TransferCache()
        there = transfers.to_device({"batch": [x, x], "outputs": (x,)}, "mps")
        again = transfers.to_device([x], "mps:0")
        assert there["batch"][0] is there["batch"][1] is there["outputs"][0] is again[0]
        assert ways(ledger) == [("cpu", "mps:0", 24)]


def test_a_tensor_that_was_written_to_crosses_again_and_so_does_one_whose_copy_was():
    x = inputs()
    with simulate("mps") as ledger:
        transfers = TransferCache()
        first = transfers.to_device(x, "mps")
        x.add_(1)
        second = transfers.to_device(x, "mps")
        assert second.cpu().tolist() == x.tolist() != first.cpu().tolist()
        second.zero_()
        assert transfers.to_device(x, "mps").cpu().tolist() == x.tolist()
        assert sum(way[:2] == ("cpu", "mps:0") for way in ways(ledger)) == 3


def test_what_came_from_there_goes_back_without_a_transfer():
    x = inputs()
    with simulate("mps") as ledger:
        transfers = TransferCache()
        there = x.to("mps")
        transfers.record_copy(there, x)
        assert transfers.to_device({"x": there}, "cpu")["x"] is x
        assert len(ledger.transfers) == 1
        there.add_(1)
        assert transfers.to_device(there, "cpu").tolist() == (x + 1).tolist()


def test_a_copy_goes_when_its_tensor_goes_and_copies_of_the_record_are_empty():
    with simulate("mps"):
        transfers = TransferCache()
        x = inputs()
        there = transfers.to_device(x, "mps")
        assert len(transfers._copies) == 1
        for empty in (copy.deepcopy(transfers), pickle.loads(pickle.dumps(transfers))):
            assert not empty._copies
        del x
        gc.collect()
        assert not transfers._copies
        assert there.cpu().tolist() == inputs().tolist()


def test_inference_tensors_cross_once_too():
    with simulate("mps") as ledger, torch.inference_mode():
        transfers, x = TransferCache(), inputs()
        assert transfers.to_device(x, "mps") is transfers.to_device(x, "mps")
        assert len(ledger.transfers) == 1


@pytest.mark.parametrize("make", [named, lambda: Batch(**named()), lambda: Pair(**named()), lambda: [named()]])
def test_only_the_fields_that_are_read_cross(make: Any):
    with simulate("mps") as ledger:
        there = TransferCache().to_device(make(), "mps", reads=("labels",))
        assert type(there) is type(make())
        assert ways(ledger) == [("cpu", "mps:0", 16)]
        assert places(there) == {"cpu", "mps:0"}


def test_a_field_that_is_read_comes_with_all_that_is_inside():
    with simulate("mps") as ledger:
        TransferCache().to_device({"read": {"a": labels(), "b": [labels()]}, "other": labels()}, "mps", reads={"read"})
        assert ways(ledger) == [("cpu", "mps:0", 16)] * 2


def test_a_container_that_its_content_does_not_make_is_named():
    class Odd(tuple):
        def __new__(cls, a: Any, b: Any) -> Any:
            return super().__new__(cls, (a, b))

    with simulate("mps"), pytest.raises(TypeError, match=r"expected a container that Odd\(content\) makes"):
        TransferCache().to_device(Odd(inputs(), labels()), "mps")
