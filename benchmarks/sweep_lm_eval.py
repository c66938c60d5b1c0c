"""Targets of the registries of lm-evaluation-harness: filters, pipelines, metrics, aggregations and output types.

Each filter and metric has the options that change its path. What a registry has and no target here has is an error.
"""

from __future__ import annotations

import itertools
import re
import string
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "fixtures" / "targets"))

import _lm_eval
import evalcheck_lm_eval_metrics as of_metrics
from _lm_eval import metrics, pipeline, task

import pytest_evalcheck as ec
from pytest_evalcheck import strategies as es

Made = tuple[str, ec.Target]
DIGITS = es.responses(template="#### {}.", max_repeats=3)
TEXTS = es.responses(answers=("Yes", " no", "12"), max_repeats=3)
WORDS = es.responses(answers=("Paris.", "paris", "42 paris"))
THREE = es.responses(answers=("Yes", " no", "#### 12"), min_repeats=3, max_repeats=3)


def _last(responses: Any, _documents: Any) -> list[Any]:
    return [own[-1:] for own in responses]


def _answers(samples: Any, change: Callable[[str], str]) -> list[Any]:
    return [{"exact_match": float(change(given[0]) == change(document["answer"]))} for document, given in samples]


def _lettered(answers: tuple[str, ...], template: str) -> es.SampleStrategy:
    """Responses about documents with three choices, of which one begins another."""
    plain = es.responses(answers=answers, template=template, max_repeats=2)

    def collate(rows: Any) -> Any:
        responses, documents = plain.collate(rows)
        return responses, [{**document, "choices": ["A cat", "A cat.s", "a dog"]} for document in documents]

    return plain.replace(collate=collate)


_LETTERS = {"regex_pattern": r"(\([A-Z]\))"}
_NUMBER = {"regex_pattern": r"(\d+)|(none)", "fallback": "no answer"}
FILTERS: dict[str, tuple[es.SampleStrategy, list[dict[str, Any]]]] = {
    "custom": (TEXTS, [{"filter_fn": _last}]),
    "format_span": (es.responses(answers=("person: Ada", "Location: Rome $$ org: UN"), max_repeats=2), [{}]),
    "lowercase": (TEXTS, [{}]),
    "majority_vote": (TEXTS, [{}]),
    "map": (TEXTS, [{"mapping_dict": {"Yes": "1"}}, {"mapping_dict": {"Yes": "1"}, "default_value": "0"}]),
    "multi_choice_regex": (
        _lettered(("(A)", "A cat.s", "a dog", ": C"), "so it is {}"),
        [  # not all combinations: it takes half a second a call
            {},
            _LETTERS,
            {**_LETTERS, "group_select": -1},
            {"ignore_case": True, "ignore_punctuation": True},
            {"regexes_to_ignore": ["so it is "], "ignore_case": True},
        ],
    ),
    "regex": (
        DIGITS,
        [
            {},
            {"group_select": -1},
            {"fallback": ""},
            _NUMBER,
            {**_NUMBER, "group_select": -1},
            {"regex_pattern": r"\d+"},
            {"regex_pattern": r"(\d)(\d)?"},
            {"regex_pattern": r"(\d)", "group_select": 1},
        ],
    ),
    "regex_pos": (
        es.responses(answers=("NN", "VB"), template="[('a', '{}')]", max_repeats=3),
        [{}, {"fallback": ["none"]}],
    ),
    "remove_whitespace": (TEXTS, [{}]),
    "take_first": (TEXTS, [{}]),
    "take_first_k": (THREE, [{"k": k} for k in (1, 2, 3)]),
    "uppercase": (TEXTS, [{}]),
}
"""By name: the responses that a filter is given, and its options."""

_OF_TEXTS = {
    "custom": {"filter_fn": _last},
    "format_span": {},
    "lowercase": {},
    "majority_vote": {},
    "map": {"mapping_dict": {"Yes": "1", "yes": "2", "12": "3"}, "default_value": "0"},
    "regex": {"regex_pattern": r"(\d+)"},
    "remove_whitespace": {},
    "take_first_k": {"k": 1},
    "uppercase": {},
}
"""Filters that give texts for texts, so that another may come after them."""


def _described(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={getattr(value, '__name__', value)!r}" for name, value in options.items())


def _scorer(name: str, inputs: es.SampleStrategy, make: Callable[[], Any], **more: Any) -> Made:
    def made() -> Any:
        return make()

    return name, ec.scorer(inputs=inputs, **more)(made)


def filters() -> Iterator[Made]:
    """Every filter with its options, and every two filters of texts after one another."""
    from lm_eval.api.registry import filter_registry, get_filter
    from lm_eval.filters import build_filter_ensemble

    theirs = {name for name, made in filter_registry.items() if made.__module__.startswith("lm_eval.")}
    missing = theirs - {*FILTERS}
    assert not missing, f"filters that are not swept: {missing}"
    for name, (inputs, several) in FILTERS.items():
        for options in several:
            yield _scorer(
                f"{name}({_described(options)})", inputs, lambda name=name, options=options: get_filter(name)(**options)
            )
    for first, second in itertools.product(_OF_TEXTS, _OF_TEXTS):
        steps = [(name, dict(_OF_TEXTS[name])) for name in (first, second)]
        yield _scorer(
            f"{first}, {second}, take_first",
            THREE,
            lambda steps=steps: build_filter_ensemble("two", [*steps, ("take_first", None)]),
        )


def exact_matches() -> Iterator[Made]:
    """`exact_match` with every combination of its options, beside its definition."""
    for case, marks, numbers, ignored in itertools.product((0, 1), (0, 1), (0, 1), ([], ["P"], ["x+", "par"])):
        options = {"ignore_case": bool(case), "ignore_punctuation": bool(marks), "ignore_numbers": bool(numbers)}
        options |= {"regexes_to_ignore": ignored} if ignored else {}

        def normal(text: str, options: dict[str, Any] = options) -> str:
            for pattern in options.get("regexes_to_ignore", ()):
                text = re.sub(pattern, "", text)
            text = text.lower() if options["ignore_case"] else text
            without = string.punctuation * options["ignore_punctuation"] + string.digits * options["ignore_numbers"]
            return text.translate(str.maketrans("", "", without))

        yield _scorer(
            f"exact_match({_described(options)})",
            WORDS,
            lambda options=options: of_metrics.exact_match(**options),
            reference=lambda samples, normal=normal: _answers(samples, normal),
        )


def aggregations() -> Iterator[Made]:
    """Every aggregation, beside its definition; those that give nothing of what they get are left out."""
    import lm_eval.api.metrics  # noqa: F401 - registers them
    from lm_eval.api.registry import aggregation_registry

    for name in aggregation_registry:
        if name == "bypass":
            continue  # it gives 999 for anything
        if name == "chrf++":
            inputs, reference = of_metrics.TRANSLATED, of_metrics.corpus(_chrf_with_words)
            factory = ec.metric(inputs=inputs, reference=reference)(lambda: of_metrics.aggregation("chrf++"))
            yield f"aggregation {name}", factory
            continue
        ours = getattr(of_metrics, name, None)
        assert isinstance(ours, ec.Target), f"the aggregation {name} is not swept"
        yield f"aggregation {name}", ours


def _chrf_with_words(texts: Any, references: Any) -> Any:
    import sacrebleu

    return sacrebleu.corpus_chrf(texts, references, word_order=2)


_BY_AGGREGATION = {"brier_score": "brier_score", "mcc": "matthews_corrcoef", "f1": "f1"}
_CHOSEN: dict[str, dict[str, Any]] = {
    "": {},
    "a template of choices": {"doc_to_choice": "{{choices}}"},
    "a function of choices": {"doc_to_choice": lambda document: document["choices"]},
    "a template of the answer": {"doc_to_target": "{{answer}}"},
    "the text of the answer": {"doc_to_target": "{{choices[answer]}}"},
    "a function of the answer": {"doc_to_target": lambda document: document["answer"]},
    "several answers": {"doc_to_target": lambda document: [document["answer"], 0]},
    "several inputs": {
        "doc_to_text": lambda document: document["answer"],
        "doc_to_choice": lambda document: [f"{document['question']}{choice}" for choice in document["choices"]],
        "doc_to_target": lambda _: "so",
    },
    "no delimiter": {"target_delimiter": ""},
    "a description": {"description": "Choose. "},
}
_GENERATED: dict[str, dict[str, Any]] = {
    "": {},
    "a template": {"doc_to_target": "{{answer}}"},
    "a function": {"doc_to_target": lambda document: document["answer"]},
    "several answers": {"doc_to_target": lambda document: [document["answer"], "none"]},
    "a prefix": {"gen_prefix": "So"},
    "choices": {
        "doc_to_choice": lambda _: ["4", "5", "12"],
        "doc_to_target": lambda document: ["4", "5", "12"].index(document["answer"]),
    },
    "a filter": {"filter_list": [pipeline("plain", "remove_whitespace", "take_first")]},
}


def _numbers(*names: str) -> list[dict[str, Any]]:
    return [{**entry, "aggregation": _BY_AGGREGATION.get(entry["metric"], "mean")} for entry in metrics(*names)]


def _right(name: str, form: str) -> Callable[[Any], list[Any]] | None:
    """The definition of a number of a document with choices, or None where it is a pair."""
    places: dict[str, Callable[[Any], float]] = {
        "acc": lambda _: 1.0,
        "acc_norm": len,
        "acc_bytes": lambda choice: len(choice.encode()),
    }

    def score(document: Any, given: Any) -> float:
        right = {document["answer"], *([0] if form == "several answers" else [])}
        if name == "exact_match":
            return float(any(given[place][1] for place in right))
        start = document["question"] if form == "several inputs" else ""
        norms = [
            value / places[name](start + choice) for (value, _), choice in zip(given, document["choices"], strict=True)
        ]
        return float(norms.index(max(norms)) in right)

    if name not in (*places, "exact_match"):
        return None
    return lambda samples: [{f"{name},none": score(*sample)} for sample in samples]


def tasks() -> Iterator[Made]:
    """A task of each output type, with each metric that it has a number for, and each form of its configuration."""
    chosen = ("acc", "acc_norm", "acc_bytes", "exact_match", "brier_score", "mcc", "f1")
    for (form, config), name in itertools.product(_CHOSEN.items(), chosen):
        if form and name not in ("acc", "acc_norm", "exact_match"):
            continue
        made = {"metric_list": _numbers(name), **config}
        inputs = es.choices(count=2 if name == "f1" else 3)  # the F1 of three classes is refused by scikit-learn
        yield _task("multiple_choice", f"{name} {form}".strip(), inputs, made, _right(name, form))
    for form in ("", "several answers"):
        both = {"metric_list": _numbers("acc", "acc_mutual_info"), **_CHOSEN[form]}
        yield _task("multiple_choice", f"acc_mutual_info {form}".strip(), _unconditional(), both)
    for (form, config), name in itertools.product(_GENERATED.items(), ("exact_match", "bleu", "chrf", "chrf++", "ter")):
        if form and name != "exact_match":
            continue
        entries = metrics(name) if name == "exact_match" else [{**metrics(name)[0], "aggregation": name}]
        yield _task("generate_until", f"{name} {form}".strip(), es.responses(), {"metric_list": entries, **config})
    for options in ({"ignore_case": True}, {"ignore_punctuation": True}, {"regexes_to_ignore": ["4"]}):
        listed = {"metric_list": metrics("exact_match", **options)}
        yield _task("generate_until", f"exact_match {_described(options)}", WORDS, listed)
    for form in ("", "no delimiter"):
        yield _task("loglikelihood", form or "default", es.loglikelihoods(), _CHOSEN[form])
    for name in ("word_perplexity", "byte_perplexity", "bits_per_byte"):
        how = "bits_per_byte" if name == "bits_per_byte" else "weighted_perplexity"
        entry = {"metric": name, "aggregation": how, "higher_is_better": False}
        yield _task("loglikelihood_rolling", name, _rolling(), {"metric_list": [entry]})


def _unconditional() -> es.SampleStrategy:
    """Log-likelihoods of the choices after the question, and of the same choices alone."""
    plain = es.choices(count=3)

    def collate(rows: Any) -> Any:
        responses, documents = plain.collate(rows)
        return [[*own, *[(-3.0, False)] * 3] for own in responses], documents

    return plain.replace(collate=collate)


def _rolling() -> es.SampleStrategy:
    return es.loglikelihoods().replace(
        collate=lambda rows: ([[given[0][0]] for _, given in rows], [dict(document) for document, _ in rows])
    )


def _task(kind: str, name: str, inputs: es.SampleStrategy, config: dict[str, Any], reference: Any = None) -> Made:
    return _scorer(f"{kind}: {name}", inputs, lambda: task(kind, **config), fresh="check", reference=reference)


def targets() -> Iterator[Made]:
    """All of them, by name."""
    assert _lm_eval.NEEDS
    yield from filters()
    yield from exact_matches()
    yield from aggregations()
    yield from tasks()
