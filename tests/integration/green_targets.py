"""Targets whose green would mean nothing: mistakes of a description, targets that no name holds, values that are none.

Each entry is the name of a way, the source of a target of this name, and what the run must say.
"""

from __future__ import annotations


def decorated(keywords: str, factory: str = "(device)", body: str = "return ec.Metric.of(Mean())") -> str:
    return f"@ec.metric({keywords})\ndef {{name}}{factory}: {body}\n"


MISTAKES: dict[str, tuple[str, str]] = {
    "known_failures_as_a_list": (decorated("inputs=numbers, known_failures=['EC201']"), "expected a mapping"),
    "a_known_failure_that_is_text": (decorated("inputs=numbers, known_failures={{'EC201': 'x'}}"), "ec.KnownFailure("),
    "a_known_failure_without_reason": (
        decorated("inputs=numbers, known_failures={{'EC201': ec.KnownFailure('')}}"),
        "gives no reason",
    ),
    "a_known_failure_with_a_number": (
        decorated("inputs=numbers, known_failures={{'EC201': ec.KnownFailure(3)}}"),
        "expected text",
    ),
    "a_known_failure_on_a_gpu": (
        decorated("inputs=numbers, known_failures={{'EC201': ec.KnownFailure('x', devices=('gpu',))}}"),
        "expected some of",
    ),
    "a_known_failure_of_a_list_as_case": (
        decorated("inputs=numbers, known_failures={{'EC201': ec.KnownFailure('x', example=[1])}}"),
        "expected dict(samples=",
    ),
    "not_applicable_as_a_list": (decorated("inputs=numbers, not_applicable=['EC201']"), "expected a mapping"),
    "not_applicable_without_reason": (decorated("inputs=numbers, not_applicable={{'EC201': ' '}}"), "gives no reason"),
    "not_applicable_of_no_check": (decorated("inputs=numbers, not_applicable={{'EC2O1': 'x'}}"), "did you mean 'EC2"),
    "both_by_code_and_by_name": (
        decorated(
            "inputs=numbers, known_failures={{'EC201': ec.KnownFailure('x')}}, "
            "not_applicable={{'splitting_a_stream_does_not_change_the_value': 'x'}}"
        ),
        "EC201 is both",
    ),
    "examples_of_a_number": (decorated("inputs=numbers, examples=3"), "expected a list or a tuple"),
    "examples_of_zero": (decorated("inputs=numbers, examples=0"), "expected a list or a tuple"),
    "examples_without_lists": (decorated("inputs=numbers, examples=[1, 2]"), "expected lists of samples"),
    "devices_of_none": (decorated("inputs=numbers, devices=()"), "names no device"),
    "devices_of_a_number": (decorated("inputs=numbers, devices=3"), "expected a list or a tuple"),
    "devices_as_text": (decorated("inputs=numbers, devices='cpu'"), "a tuple, such as ('cpu',)"),
    "devices_gpu": (decorated("inputs=numbers, devices=('gpu',)"), "did you mean 'cuda'?"),
    "devices_with_an_index": (decorated("inputs=numbers, devices=('cuda:0',)"), "did you mean 'cuda'?"),
    "devices_in_capitals": (decorated("inputs=numbers, devices=('CPU',)"), "did you mean 'cpu'?"),
    "requires_a_number": (decorated("inputs=numbers, requires=3"), "expected a list or a tuple"),
    "requires_as_text": (decorated("inputs=numbers, requires='torch'"), "a tuple, such as ('torch',)"),
    "requires_no_text": (decorated("inputs=numbers, requires=(3,)"), "requires 3"),
    "requires_what_is_no_requirement": (decorated("inputs=numbers, requires=('a b',)"), "requires 'a b'"),
    "extra_checks_of_a_number": (decorated("inputs=numbers, extra_checks=3"), "expected a list or a tuple"),
    "extra_checks_of_functions": (decorated("inputs=numbers, extra_checks=[print]"), "decorated with @ec.check"),
    "a_timeout_as_text": (decorated("inputs=numbers, timeout='5'"), "expected seconds above 0"),
    "a_timeout_of_infinity": (decorated("inputs=numbers, timeout=float('inf')"), "expected seconds above 0"),
    "a_timeout_of_nan": (decorated("inputs=numbers, timeout=float('nan')"), "expected seconds above 0"),
    "a_timeout_of_nothing": (decorated("inputs=numbers, timeout=1e-9"), "expected seconds above 0"),
    "a_timeout_of_true": (decorated("inputs=numbers, timeout=True"), "expected seconds above 0"),
    "isolated_no": (decorated("inputs=numbers, isolated='no'"), "expected True or False"),
    "a_tolerance_of_true": (decorated("inputs=numbers, tolerance=True"), "expected a relative tolerance"),
    "a_tolerance_of_nan": (decorated("inputs=numbers, tolerance=float('nan')"), "expected finite numbers"),
    "a_tolerance_of_infinity": (decorated("inputs=numbers, tolerance=float('inf')"), "expected finite numbers"),
    "a_huge_tolerance": (decorated("inputs=numbers, tolerance=1e9"), "any two values are equal within it"),
    "a_huge_absolute_tolerance": (decorated("inputs=numbers, tolerance=ec.Tolerance(atol=1e9)"), "any two values"),
    "a_reference_of_a_number": (decorated("inputs=numbers, reference=3"), "expected a function from samples"),
    "no_inputs": (decorated(""), "inputs=None; expected samples"),
    "inputs_of_a_list": (decorated("inputs=[1, 2]"), "inputs=[1, 2]; expected samples"),
    "inputs_of_a_class": (decorated("inputs=dict"), "expected samples"),
    "inputs_whose_repr_raises": (decorated("inputs=Shy()"), "whose repr() raised"),
    "a_fresh_of_a_list": (decorated("inputs=numbers, fresh=[]"), "expected 'example' or 'check'"),
    "a_budget_as_a_list": (decorated("inputs=numbers, budget=['syncs']"), "expected a mapping"),
    "a_budget_of_another_name": (decorated("inputs=numbers, budget={{'sync': 1}}"), "did you mean 'syncs'?"),
    "a_budget_of_true": (decorated("inputs=numbers, budget={{'syncs': True}}"), "at least 0"),
    "an_unknown_keyword": (decorated("inputs=numbers, known_failure={{}}"), "did you mean 'known_failures'?"),
    "variants_of_a_number": ("@ec.loop(inputs=numbers, variants=3)\ndef {name}(device): pass\n", "variants"),
    "an_unknown_kind": ("@ec.target('metrik', inputs=numbers)\ndef {name}(device): pass\n", "metrik"),
    "a_kind_forgotten": ("@ec.target(inputs=numbers)\ndef {name}(device): pass\n", "target"),
    "no_parentheses": ("@ec.metric\ndef {name}(device): return ec.Metric.of(Mean())\n", "has no parentheses"),
    "inputs_by_position": ("@ec.metric(numbers)\ndef {name}(device): pass\n", "it takes keywords only"),
    "a_class": ("@ec.metric(inputs=numbers)\nclass {name}(Mean): pass\n", "write a function that returns a new object"),
    "a_partial": (
        "import functools\n{name} = ec.metric(inputs=numbers)(functools.partial(Mean))\n",
        "got a functools.partial",
    ),
    "nothing_at_all": ("{name} = ec.metric(inputs=numbers)(None)\n", "a target is a decorated function, got None"),
    "a_generator": (decorated("inputs=numbers", body="yield ec.Metric.of(Mean())"), "it has `yield`"),
    "an_async_function": (
        "@ec.metric(inputs=numbers)\nasync def {name}(device): return ec.Metric.of(Mean())\n",
        "an async function",
    ),
    "a_method": (decorated("inputs=numbers", "(self, device)"), "it is a method"),
    "stars": (decorated("inputs=numbers", "(*devices)"), "the factory takes *devices"),
    "by_position_only": (decorated("inputs=numbers", "(device, /)"), "by position only"),
    "an_unknown_fixture": (decorated("inputs=numbers", "(devise)"), "did you mean 'device'?"),
    "a_target_of_a_target": (
        "@ec.metric(inputs=numbers)\n" + decorated("inputs=numbers"),
        "one decorator is enough",
    ),
    "two_of_one_name": (decorated("inputs=numbers") * 2, "2 functions have this name"),
}
MISTAKES_HEADER = """
class Shy:
    def __repr__(self): raise RuntimeError("no repr")
"""

LOST: dict[str, tuple[str, str]] = {
    "in_a_class": (
        "class Metrics:\n    @ec.metric(inputs=numbers)\n    def {name}(device): return ec.Metric.of(Mean())\n",
        "it is an attribute of the class Metrics",
    ),
    "in_a_test_class": (
        "class TestMetrics:\n    @ec.metric(inputs=numbers)\n    def {name}(device): return ec.Metric.of(Mean())\n",
        "it is an attribute of the class TestMetrics",
    ),
    "in_a_list": (
        "def {name}(device): return ec.Metric.of(Mean())\nall_of_them = [ec.metric(inputs=numbers)({name})]\n",
        "it is held in all_of_them",
    ),
    "in_a_tuple": (
        "def {name}(device): return ec.Metric.of(Mean())\nboth = (ec.metric(inputs=numbers)({name}), 1)\n",
        "it is held in both",
    ),
    "in_a_dict": (
        "def {name}(device): return ec.Metric.of(Mean())\nby_name = dict(a=ec.metric(inputs=numbers)({name}))\n",
        "it is held in by_name",
    ),
    "under_a_wrapping_decorator": (
        "import functools\n"
        "def logged(f):\n    @functools.wraps(f)\n    def inner(*a, **k): return f(*a, **k)\n    return inner\n"
        "@logged\n" + decorated("inputs=numbers"),
        "another decorator stands above",
    ),
    "under_a_plain_wrapper": (
        "def logged(f):\n    def inner(*a, **k): return f(*a, **k)\n    return inner\n@logged\n"
        + decorated("inputs=numbers"),
        "another decorator stands above",
    ),
    "under_a_decorator_that_drops_it": (
        "def dropped(f): return None\n@dropped\n" + decorated("inputs=numbers"),
        "its name was taken by something else",
    ),
    "made_and_thrown_away": (
        "def {name}(device): return ec.Metric.of(Mean())\nec.metric(inputs=numbers)({name})\n",
        "or it never had one",
    ),
    "made_in_a_function": (
        "def build():\n    @ec.metric(inputs=numbers)\n    def {name}(device): return ec.Metric.of(Mean())\n"
        "    return 1\nbuild()\n",
        "or it never had one",
    ),
    "deleted": (decorated("inputs=numbers") + "del {name}\n", "its name was taken"),
    "overwritten": (decorated("inputs=numbers") + "{name} = 3\n", "its name was taken"),
    "overwritten_by_a_loop": (
        "for number in range(2):\n    @ec.metric(inputs=numbers)\n    def {name}(device): return ec.Metric.of(Mean())\n",
        "its name was taken",
    ),
    "in_a_file_that_is_no_test": ("__test__ = False\n" + decorated("inputs=numbers"), "the file says __test__ = False"),
}

FOUND: dict[str, str] = {
    "under_a_private_name": "def _made(device): return ec.Metric.of(MeanOfMeans())\n_hidden = ec.metric(inputs=numbers)(_made)\n",
    "in_a_branch": "if True:\n    @ec.metric(inputs=numbers)\n    def branched(device): return ec.Metric.of(MeanOfMeans())\n",
    "in_a_try": "try:\n    @ec.metric(inputs=numbers)\n    def tried(device): return ec.Metric.of(MeanOfMeans())\nfinally: pass\n",
    "through_globals": (
        "def _target():\n    @ec.metric(inputs=numbers)\n    def made(device): return ec.Metric.of(MeanOfMeans())\n"
        "    return made\nglobals().update(by_update=_target())\n"
    ),
    "through_a_call": (
        "def _made():\n    return ec.metric(inputs=numbers)(lambda device: ec.Metric.of(MeanOfMeans()))\nfrom_call = _made()\n"
    ),
}
"""Targets in unusual places that are collected: the planted bug of each is found."""

VALUES: dict[str, str] = {
    "nothing": "None",
    "an_empty_dict": "{}",
    "an_empty_text": "''",
    "a_text": "'ok'",
    "an_empty_list": "[]",
    "an_empty_tuple": "()",
    "a_mock": "mock.ANY",
    "a_magic_mock": "mock.MagicMock()",
    "nan_for_ever": "float('nan')",
    "infinity_for_ever": "float('inf')",
    "zero_for_ever": "0.0",
    "one_for_ever": "1.0",
    "true_for_ever": "True",
    "a_tensor_of_nan": "__import__('torch').tensor(float('nan'))",
    "an_empty_tensor": "__import__('torch').zeros(0)",
    "a_constant_in_a_dict": "{'accuracy': 1.0}",
    "nothing_in_a_dict": "{'accuracy': None}",
    "the_class": "Mean",
    "a_function": "print",
    "ellipsis": "...",
    "an_object_equal_to_all": "Agrees()",
    "a_nan_that_is_equal": "EqualNan('nan')",
}
"""Value of every stream for a stub, or for code that forgets to return."""
