"""SampleStream: rows as they came, and nothing else."""

from __future__ import annotations

import pytest
import torch

from pytest_evalcheck.fixes import SampleStream


def test_rows_come_back_in_order_with_their_dtype_and_shape():
    samples = SampleStream(["logits", "labels", "mask"])
    logits = torch.arange(12, dtype=torch.bfloat16).reshape(4, 3)
    labels, mask = torch.tensor([0, 2, 1, 2], dtype=torch.int32), torch.tensor([True, False, True, True])
    samples.update(logits[:1], labels[:1], mask[:1])
    samples.update(mask=mask[1:], logits=logits[1:], labels=labels[1:])
    rows = samples.compute()
    assert list(rows) == ["logits", "labels", "mask"] == list(samples.fields)
    for name, expected in (("logits", logits), ("labels", labels), ("mask", mask)):
        assert rows[name].dtype == expected.dtype
        assert torch.equal(rows[name], expected)
    assert len(samples) == 4


def test_a_view_does_not_keep_what_it_views_alive():
    samples = SampleStream(["scores"])
    samples.update(torch.zeros(1000)[:1].expand(3))
    samples.update(torch.zeros(1000, 2)[::500, 0])
    assert [batch["scores"].untyped_storage().nbytes() for batch in samples._batches] == [12, 8]


def test_no_sample_has_the_shape_of_the_template():
    samples = SampleStream({"logits": torch.empty(0, 5, dtype=torch.float16), "labels": torch.empty(0).long()})
    rows = samples.compute()
    assert [(rows[name].shape, rows[name].dtype) for name in rows] == [
        ((0, 5), torch.float16),
        ((0,), torch.int64),
    ]
    assert len(samples) == 0


def test_no_sample_and_no_template_is_an_error_that_names_the_field():
    samples = SampleStream({"logits": torch.empty(0, 5), "labels": None})
    samples.update(torch.empty(0, 5), torch.empty(0))
    with pytest.raises(ValueError, match=r"no template says what an empty 'labels' is; .*'labels': torch.empty\(0"):
        samples.compute()


def test_an_empty_batch_does_not_decide_what_rows_are_like():
    samples = SampleStream(["labels"])
    samples.update(torch.tensor([]))
    assert samples(torch.tensor([]))["labels"].shape == (0,)
    samples.update(torch.tensor([[1, 2]]))
    samples.update(torch.tensor([]))
    assert samples.compute()["labels"].tolist() == [[1, 2]]


def test_the_first_rows_decide_until_reset():
    samples = SampleStream(["labels"])
    samples.update(torch.tensor([1]))
    with pytest.raises(
        TypeError, match=r"labels: expected torch.int64, got torch.float32; cast it with .to\(torch.int64\)"
    ):
        samples.update(torch.tensor([1.0]))
    with pytest.raises(ValueError, match=r"labels: expected rows of shape \(\), got \(2,\)"):
        samples.update(torch.tensor([[1, 2]]))
    samples.reset()
    samples.update(torch.tensor([[1.0]]))
    assert samples.compute()["labels"].tolist() == [[1.0]]


def test_the_later_field_being_wrong_keeps_nothing_of_the_earlier():
    samples = SampleStream(["scores", "labels"])
    samples.update(torch.tensor([0.5]), torch.tensor([1]))
    with pytest.raises(TypeError, match="labels"):
        samples.update(torch.tensor([0.5]), torch.tensor([1.0]))
    assert [len(rows) for rows in samples.compute().values()] == [1, 1]


def test_a_field_given_twice_or_unknown_is_refused():
    samples = SampleStream(["scores", "labels"])
    with pytest.raises(TypeError, match=r"got 2 by position and \['scores'\] by name"):
        samples.update(torch.ones(1), torch.ones(1), scores=torch.ones(1))
    with pytest.raises(TypeError, match=r"got 1 by position and \['label'\] by name"):
        samples.update(torch.ones(1), label=torch.ones(1))


def test_shards_of_other_fields_or_rows_do_not_merge_and_change_nothing():
    samples, good, bad = SampleStream(["scores"]), SampleStream(["scores"]), SampleStream(["scores"])
    good.update(torch.tensor([1.0]))
    bad.update(torch.tensor([1]))
    with pytest.raises(
        ValueError, match=r"merge: expected SampleStream of the fields \('scores',\), got \('labels',\)"
    ):
        samples.merge(good, SampleStream(["labels"]))
    with pytest.raises(TypeError, match=r"scores: expected torch\.float32, got torch\.int64"):
        samples.merge(good, bad)
    assert len(samples) == 0


def test_a_state_with_unequal_rows_is_refused():
    samples = SampleStream(["scores", "labels"])
    with pytest.raises(ValueError, match="as many rows in every field"):
        samples.load_state_dict({"scores": torch.ones(2), "labels": torch.ones(3)})
    with pytest.raises(TypeError, match=r"scores: expected torch\.float16, got torch\.float32"):
        SampleStream({"scores": torch.empty(0).half()}).load_state_dict({"scores": torch.ones(2)})


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ((), ValueError, "at least one name"),
        ("scores", TypeError, r"such as \('scores',\), got a string"),
        (["a", "a"], ValueError, "different names"),
        ([1], TypeError, "expected names, got 1"),
        ({"a": 5}, TypeError, "expected an empty tensor or None for 'a', got int"),
        ({"a": torch.empty(2, 5)}, ValueError, r"torch.empty\(0, 5\) for 'a', got one of shape \(2, 5\)"),
        ({"a": torch.empty(())}, ValueError, r"got one of shape \(\)"),
    ],
)
def test_fields_that_cannot_be_are_refused(fields: object, error: type[Exception], message: str):
    with pytest.raises(error, match=message):
        SampleStream(fields)  # type: ignore[arg-type]
