"""A few steps of training on a simulated device, in parts of a batch, give the weights of the CPU bit for bit."""

from __future__ import annotations

import pytest
import torch

from pytest_evalcheck.devices import simulate


def trained(device: str, *, moved_late: bool) -> list[float]:
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 3)
    if not moved_late:
        model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if moved_late:
        model.to(device)
    inputs = torch.randn(6, 4, generator=torch.Generator().manual_seed(1)).to(device)
    labels = torch.tensor([0, 1, 2, 0, 1, 2]).to(device)
    for _ in range(2):
        optimizer.zero_grad()
        for part in (slice(0, 3), slice(3, 6)):
            loss = torch.nn.functional.cross_entropy(model(inputs[part]), labels[part]) * 0.5
            loss.backward()
        optimizer.step()
    return [float(weight) for weight in model.weight.detach().cpu().flatten()]


@pytest.mark.parametrize("moved_late", [False, True])
@pytest.mark.parametrize("device", ["cuda", "mps"])
def test_training_gives_the_weights_of_the_cpu(device: str, *, moved_late: bool) -> None:
    expected = trained("cpu", moved_late=moved_late)
    with simulate(device):
        assert trained(device, moved_late=moved_late) == expected
