"""Tests that PyTorch's own test classes generate: of every operator and module that it has samples for.

They say what its `test_ops.py` and `test_modules.py` say: on the device there are the results of the CPU, each result
and each gradient is on the device, and the device is that of the samples.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.testing._internal.common_device_type import instantiate_device_type_tests, ops
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_modules import module_db, modules
from torch.testing._internal.common_utils import TestCase
from torch.utils._pytree import tree_leaves, tree_map

_RANDOM = (
    "dropout random normal bernoulli uniform multinomial exponential cauchy geometric rrelu fractional empty rand "
    "poisson lowrank scaled"
)
DETERMINISTIC = [op for op in op_db if not any(part in op.name.lower() for part in _RANDOM.split())]
_SCRAMBLES = (torch.nn.modules.dropout._DropoutNd, torch.nn.RReLU)


def on_cpu(value: Any) -> Any:
    return tree_map(lambda item: item.detach().cpu() if isinstance(item, torch.Tensor) else item, value)


class TestOperators(TestCase):
    @ops(DETERMINISTIC, dtypes=(torch.float32, torch.int64))
    def test_results_are_those_of_the_cpu(self, device: str, dtype: torch.dtype, op: Any) -> None:
        for number, sample in zip(range(3), op.sample_inputs(device, dtype), strict=False):
            inputs, arguments, options = sample.input, sample.args, sample.kwargs
            found = op(inputs, *arguments, **options)
            if any("device" in key for key in options):
                continue
            plain = op(*map(on_cpu, (inputs, *arguments)), **on_cpu(options))
            torch.testing.assert_close(on_cpu(found), plain, equal_nan=True, msg=f"sample {number}")
            if any(isinstance(item, torch.Tensor) for item in tree_leaves((inputs, arguments))):
                for item in tree_leaves(found):
                    if isinstance(item, torch.Tensor):
                        assert item.device.type == torch.device(device).type

    @ops([op for op in DETERMINISTIC if op.supports_autograd], dtypes=(torch.float32,))
    def test_gradients_are_on_the_device(self, device: str, dtype: torch.dtype, op: Any) -> None:
        sample = next(iter(op.sample_inputs(device, dtype, requires_grad=True)))
        found = op(sample.input, *sample.args, **sample.kwargs)
        floating = [item for item in tree_leaves(found) if isinstance(item, torch.Tensor) and item.requires_grad]
        if not floating:
            self.skipTest("the first sample has no result with a gradient")
        sum(item.abs().sum() for item in floating).backward()
        for item in tree_leaves((sample.input, sample.args, sample.kwargs)):
            if isinstance(item, torch.Tensor) and item.grad is not None:
                assert item.grad.device == item.device


class TestModules(TestCase):
    @modules(module_db, allowed_dtypes=(torch.float32,))
    def test_a_module_gives_the_results_of_the_cpu(
        self, device: str, dtype: torch.dtype, module_info: Any, training: bool
    ) -> None:
        samples = module_info.module_inputs_func(
            module_info, device=device, dtype=dtype, requires_grad=False, training=training
        )
        for sample in list(samples)[:3]:
            if sample.forward_input is None or "dropout" in module_info.name.lower():
                continue
            module = module_info.module_cls(*sample.constructor_input.args, **sample.constructor_input.kwargs)
            module = module.to(device).to(dtype).train(training)
            plain = module_info.module_cls(*on_cpu(sample.constructor_input.args), **sample.constructor_input.kwargs)
            plain = plain.to(dtype).train(training)
            plain.load_state_dict(module.state_dict())
            if any(isinstance(child, _SCRAMBLES) for child in module.modules()):
                continue
            inputs, options = sample.forward_input.args, sample.forward_input.kwargs
            found = module(*inputs, **options)
            torch.testing.assert_close(on_cpu(found), plain(*on_cpu(inputs), **on_cpu(options)), equal_nan=True)


instantiate_device_type_tests(TestOperators, globals())
instantiate_device_type_tests(TestModules, globals())
