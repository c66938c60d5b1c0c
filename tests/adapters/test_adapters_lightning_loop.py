from __future__ import annotations

import pytest
import torch
from loop_data import collate, data, mean_loss, network

from pytest_evalcheck import LoopData, adapters
from pytest_evalcheck.devices import simulate
from pytest_evalcheck.kinds.common.process_state import loader_seeds_not_counted, same_random_numbers

lightning = pytest.importorskip("lightning")

from pytest_evalcheck.adapters.lightning import loop as lightning_loop  # noqa: E402

# Of torch's pytrees, as Lightning uses them.
pytestmark = pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")


def module(returned="logits", trains=True):
    class Classifier(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.network = network()

        def validation_step(self, batch, batch_idx, dataloader_idx=0):
            logits = self.network(batch["x"])
            self.log("loss", torch.nn.functional.cross_entropy(logits, batch["labels"]))
            return {"logits": logits, "nothing": None, "one": logits.mean()}[returned]

        test_step = validation_step

    class Trained(Classifier):
        def training_step(self, batch, batch_idx):
            return torch.nn.functional.cross_entropy(self.network(batch["x"]), batch["labels"])

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    return Trained() if trains else Classifier()


@pytest.mark.parametrize("way", ["validate", "test"])
def test_what_is_logged_are_the_numbers_and_what_is_returned_the_records(way):
    made = module()
    found = lightning_loop.loop(made, way).evaluate(data(), batch_size=2)
    assert found.numbers == {"loss": pytest.approx(mean_loss(made.network), rel=1e-5)}
    with torch.no_grad():
        logits = made.network.eval()(collate(data())["x"])
    assert [place for place, _ in found.records] == [0, 1, 2, 3, 4]
    torch.testing.assert_close(torch.tensor([fields["prediction"] for _, fields in found.records]), logits)


@pytest.mark.parametrize("kind", ["cuda", "mps"])
def test_a_module_is_evaluated_where_it_is(kind):
    with simulate(kind):
        made, seen = module().to(kind), []
        made.network.register_forward_hook(lambda _, __, logits: seen.append(logits.device.type))
        loop = lightning_loop.loop(made)
        first, second = loop.evaluate(data()).numbers, loop.evaluate(data()).numbers
    assert set(seen) == {kind}
    assert first == second


@pytest.mark.parametrize("returned", ["nothing", "one"])
def test_a_step_that_returns_no_rows_gives_no_records(returned):
    assert lightning_loop.loop(module(returned)).evaluate(data()).records is None


def test_a_module_alone_becomes_a_loop_which_trains_where_it_can():
    assert adapters.record("loop", module()).train is not None
    assert adapters.record("loop", module(trains=False)).train is None
    assert lightning_loop.loop(module(), "test").train is None


def test_several_loaders_are_several_evaluators():
    loop = lightning_loop.loop(module())
    sets = {"first": data(2), "second": data(5)}
    found = loop.evaluators(sets, order=("second", "first"), batch_size=2)
    for name, one in sets.items():
        alone = loop.evaluate(one, batch_size=2)
        assert found[name].numbers == pytest.approx(alone.numbers)
        assert found[name].records == alone.records


def test_an_evaluation_within_fit_is_that_of_its_own_trainer_and_leaves_its_loader():
    made = module()
    loop, calls = lightning_loop.loop(made), []
    other = LoopData(list(data(3)), collate)

    def evaluate_in_between():
        calls.append((loop.evaluate(other, batch_size=2), mean_loss(made.network, list(other))))
        assert made.trainer.training

    found = loop.train(data(), evaluate_in_between)
    ((inside, expected),) = calls
    assert inside.numbers == {"loss": pytest.approx(expected, rel=1e-5)}
    assert [place for place, _ in inside.records] == [0, 1, 2]
    assert len(found["losses"]) == 8
    assert made.trainer.callback_metrics["loss"].item() == pytest.approx(mean_loss(made.network), rel=1e-5)


def test_an_evaluation_falls_between_batches_whose_gradients_are_accumulated():
    made = module()
    loop, gradients = lightning_loop.loop(made), []

    def evaluate_in_between():
        gradients.append(made.network[0].weight.grad.abs().sum().item())

    loop.train(data(), evaluate_in_between)
    assert len(gradients) == 1
    assert gradients[0] > 0


def test_a_module_that_steps_by_itself_has_a_batch_for_each_step():
    class Steps(type(module())):
        def __init__(self):
            super().__init__()
            self.automatic_optimization = False

        def training_step(self, batch, batch_idx):
            loss = super().training_step(batch, batch_idx)
            self.optimizers().zero_grad()
            self.manual_backward(loss)
            self.optimizers().step()
            return loss

    calls = []
    found = lightning_loop.loop(Steps()).train(data(), lambda: calls.append(1))
    assert calls == [1]
    assert len(found["losses"]) == 4


@pytest.mark.parametrize("clears", [True, False])
def test_a_validation_that_clears_accumulated_gradients_changes_what_training_produces(clears):
    class Clearing(type(module())):
        def on_validation_start(self):
            if clears:
                self.zero_grad()

    def outcome(evaluates):
        loop = lightning_loop.loop(Clearing())
        with same_random_numbers(), loader_seeds_not_counted():
            return loop.train(data(), lambda: evaluates and loop.evaluate(data()))["parameters"]

    alone, interrupted = outcome(False), outcome(True)
    same = all(torch.equal(alone[name], interrupted[name]) for name in alone)
    assert same is not clears
