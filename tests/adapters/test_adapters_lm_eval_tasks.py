"""Tasks of lm-evaluation-harness as tasks: requests, shots, marks and tallies of the real thing."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest

import pytest_evalcheck as ec
from pytest_evalcheck import adapters
from pytest_evalcheck.errors import UsageError
from pytest_evalcheck.expectations.failures import NotApplicable, NotCheckable

os.environ.setdefault("LM_HARNESS_CACHE_PATH", os.path.join(tempfile.gettempdir(), "lm_eval"))
pytest.importorskip("lm_eval", reason="lm_eval is not installed")
datasets = pytest.importorskip("datasets")

from pytest_evalcheck.adapters.lm_eval import registry  # noqa: E402

SUMS = [{"question": f"{n} + {n}?", "answer": f"Twice {n}.\n#### {2 * n:,}"} for n in (9, 17, 600)]
CHOICES = [{"question": f"q{n}", "choices": ["a", "bb", "ccc"], "answer": n} for n in range(3)]


def task(rows: Any = SUMS, output_type: str = "generate_until", **config: Any) -> Any:
    from lm_eval.api.task import ConfigurableTask

    plain = {
        "task": "own",
        "custom_dataset": lambda **_: {
            "test": datasets.Dataset.from_list(rows),
            "train": datasets.Dataset.from_list(rows),
        },
        "test_split": "test",
        "output_type": output_type,
        "doc_to_text": "Q: {{question}}\nA:",
        "doc_to_target": "{{answer}}",
        "num_fewshot": 0,
    }
    if output_type == "multiple_choice":
        plain |= {"doc_to_choice": "choices"}
    return ConfigurableTask(config={**plain, **config})


WORKED: dict[str, Any] = {
    "metric_list": [
        {"metric": "exact_match", "aggregation": "mean", "higher_is_better": True,
         "regexes_to_ignore": [",", r"(?s).*#### "]}
    ],
    "filter_list": [{"name": "strict", "filter": [{"function": "regex", "regex_pattern": r"#### (\-?[0-9\.\,]+)"},
                                                  {"function": "take_first"}]}],
    "generation_kwargs": {"until": ["Q:"], "max_gen_toks": 12},
}  # fmt: skip


def recorded(made: Any) -> ec.Task:
    return adapters.record("task", made)


def test_a_worked_answer_is_asked_for_and_scored() -> None:
    made = recorded(task(**WORKED))
    document = made.documents[0]
    assert made.gold is not None
    assert made.response is not None
    assert made.score is not None
    assert made.answer is not None
    assert made.requests is not None
    assert made.gold(document) == ["18"]
    text = made.response(document, "18")
    assert text.endswith("#### 18")
    assert made.score(document, [text]) == {"exact_match,strict": 1.0}
    assert made.score(document, [made.response(document, "19")]) == {"exact_match,strict": 0.0}
    assert made.answer(document, ["no number"]) == {"strict": ["[invalid]"]}
    ((request,),) = made.requests([document])
    assert (request.prompt, request.stops, request.max_tokens) == ("Q: 9 + 9?\nA:", ["Q:"], 12)
    assert made.fields == ("question",)
    assert made.shots is None


def test_a_choice_is_scored_by_its_likelihood() -> None:
    made = recorded(task(CHOICES, "multiple_choice"))
    document = made.documents[1]
    assert made.gold is not None
    assert made.score is not None
    assert made.requests is not None
    assert made.reordered is not None
    assert made.gold(document) == 1
    assert [each.continuation for each in made.requests([document])[0]] == [" a", " bb", " ccc"]
    marks = made.score(document, [(-9.0, False), (-1.0, True), (-9.0, False)])
    assert marks["acc"] == marks["acc_norm"] == 1.0
    changed = made.reordered(document, [1, 2, 0])
    assert (changed["choices"], changed["answer"]) == (["bb", "ccc", "a"], 0)
    with pytest.raises(ValueError, match="asks 3 requests of this document, and got 1"):
        made.score(document, [(-1.0, True)])


def test_shots_are_those_of_the_sampler() -> None:
    made = recorded(task(CHOICES, "multiple_choice", training_split="train", num_fewshot=2))
    assert made.shots is not None
    assert made.requests is not None
    shown = made.shots(made.documents[0])
    assert len(shown) == 2
    (first, *_), *_ = made.requests(made.documents[:1])
    assert all(f"Q: {each['question']}\n" in first.prompt for each in shown)


def test_other_runs_send_what_one_run_sends() -> None:
    made = recorded(task(CHOICES, "multiple_choice"))
    assert made.requests is not None
    whole = made.requests(made.documents)
    for name, places in (("limit 2", [0, 1]), ("rank 1 of 2", [1])):
        run = made.other_runs[name](made.documents)
        assert [*run] == places
        assert all(run[place] == whole[place] for place in places)


def test_a_run_counts_its_documents_and_raises_the_error_of_one() -> None:
    made = recorded(task(**WORKED))
    assert made.tally is not None
    tally = made.tally(made.documents, [["#### 18"], ["#### 35"], ["#### 1,200"]])
    assert (tally.asked, tally.scored) == (3, 3)
    assert tally.value["exact_match,strict"] == pytest.approx(2 / 3)
    with pytest.raises(OSError, match="no answer"):
        made.tally(made.documents, [["#### 18"], OSError("no answer"), ["#### 1,200"]])


def test_a_task_of_likenesses_has_no_right_answer() -> None:
    chrf = [{"metric": lambda references, predictions: len({*references[0]} & {*predictions[0]}) / 20,
             "aggregation": "mean", "higher_is_better": True}]  # fmt: skip
    assert recorded(task(metric_list=chrf)).score is None


def test_perplexity_has_no_answer() -> None:
    made = recorded(task(output_type="loglikelihood_rolling", doc_to_text="", doc_to_target="question"))
    assert made.gold is made.score is made.choices is None
    assert made.requests is not None
    assert made.requests(made.documents[:1])[0][0].continuation == "9 + 9?"


def test_a_task_of_the_registry_is_made_without_its_data() -> None:
    made = recorded(registry.task("arc_easy"))
    assert made.choices is not None
    assert made.gold is not None
    document = made.documents[0]
    assert len(made.choices(document)) == 4
    assert document["choices"]["label"][made.gold(document)] == document["answerKey"]


def test_a_task_of_the_registry_over_given_rows() -> None:
    made = recorded(registry.task("gsm8k", SUMS, num_fewshot=1))
    assert made.gold is not None
    assert [made.gold(document) for document in made.documents] == [["18"], ["34"], ["1,200"]]


def test_names_that_lead_to_no_task(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = {"gsm8k_cot": "TASK", "math_words": "TAG"}
    known = {name: _Entry(_Kind(kind)) for name, kind in kinds.items()}
    monkeypatch.setattr(registry, "_file_of", lambda _: None)
    monkeypatch.setattr(registry, "entries", lambda: known)
    with pytest.raises(UsageError, match="lm_eval has no task 'gsm8k_cots'; did you mean 'gsm8k_cot'"):
        registry.task("gsm8k_cots")
    with pytest.raises(UsageError, match="lm_eval has no task, group or tag 'math_word'; did you mean 'math_words'"):
        registry.names_of("math_word")
    with pytest.raises(UsageError, match="math_words is a tag of several tasks: name one of them, such as gsm8k_cot"):
        registry.task("math_words")
    with pytest.raises(UsageError, match=r"there is no file .*own\.yaml"):
        registry.task("own.yaml")


class _Kind:
    def __init__(self, name: str) -> None:
        self.name = name


class _Entry:
    def __init__(self, kind: _Kind) -> None:
        self.kind, self.tags = kind, {"gsm8k_cot"}


def test_a_task_without_documents_says_what_to_give(tmp_path: Any) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(
        "task: own\ndataset_path: nobody/nothing\ntest_split: test\noutput_type: generate_until\n"
        "doc_to_text: '{{image.pixels()}}'\ndoc_to_target: '{{answer}}'\n"
    )
    with pytest.raises(UsageError, match=r"cannot be loaded without a network .* give rows of it: task\(.*documents="):
        registry.task(str(path))


def test_a_mark_needs_a_metric_that_says_right_or_wrong() -> None:
    from pytest_evalcheck.adapters.lm_eval.task import Run

    run = Run(task(**WORKED))
    run.__dict__["metrics"] = ("another",)
    with pytest.raises(NotApplicable, match="no metric of exact_match,strict says whether an answer is right"):
        run.score(run.documents[0], ["#### 18"])


def test_the_labels_of_made_documents_are_those_of_choices(tmp_path: Any) -> None:
    """Three choices in the template: the label of every document, and of every example, is one of them."""
    path = tmp_path / "own.yaml"
    lines = ["task: own", "dataset_path: nobody/nothing", "test_split: test", "training_split: train"]
    lines += ["output_type: multiple_choice", 'doc_to_text: "{{text}}"', "doc_to_target: label"]
    path.write_text("\n".join([*lines, 'doc_to_choice: ["for", "against", "neither"]', "num_fewshot: 2"]))
    made = recorded(registry.task(str(path)))
    assert made.gold is not None
    assert {made.gold(document) for document in made.documents} == {0, 1, 2}


def test_a_metric_that_loads_from_a_network_is_not_applicable() -> None:
    def results(document: Any, responses: Any) -> Any:
        import evaluate

        return {"exact_match": evaluate.load("nobody/nothing").compute(predictions=responses)}

    made = recorded(task(process_results=results, **WORKED))
    assert made.tally is not None
    with registry.offline(), pytest.raises(NotApplicable, match="loads what is not on this machine"):
        made.tally([SUMS[0]], [["18"]])


def test_documents_without_a_field_that_a_template_names_are_not_checkable() -> None:
    made = task()
    made.config.doc_to_text = "{{passage}} {{question}}"
    own = recorded(made)
    assert own.requests is not None
    with pytest.raises(NotCheckable, match="'passage' is undefined; give documents with all fields"):
        own.requests([SUMS[0]])
    with pytest.raises(NotCheckable, match="give documents with all fields that it names"):
        registry.task("gsm8k", documents=[{"question": "9 + 9?"}])


def test_an_error_of_the_task_itself_is_no_network() -> None:
    def results(document: Any, responses: Any) -> Any:
        raise FileNotFoundError("no such file")

    made = recorded(task(process_results=results, **WORKED))
    assert made.tally is not None
    with pytest.raises(FileNotFoundError, match="no such file"):
        made.tally([SUMS[0]], [["18"]])


def test_a_metric_of_form_is_left_out_of_made_documents_beside_one_of_answers() -> None:
    def results(document: Any, responses: Any) -> Any:
        return {"right": float(responses[0] == document["answer"]), "in_form": float("####" in responses[0])}

    for is_made, names in ((True, {"right"}), (False, {"right", "in_form"})):
        own = task(process_results=results)
        own.made_documents = is_made
        made = recorded(own)
        assert made.score is not None
        assert {*made.score(made.documents[0], ["Twice 9.\n#### 18"])} == names


def test_a_metric_that_every_answer_gets_stays_where_no_other_one_tells_them_apart() -> None:
    own = task(process_results=lambda _, responses: {"in_form": float("####" in responses[0])})
    own.made_documents = True
    made = recorded(own)
    assert made.score is not None
    assert made.score(made.documents[0], ["#### 3"]) == {"in_form": 1.0}


def test_a_metric_of_form_is_left_out_beside_one_that_no_made_answer_gets() -> None:
    rising = [{"metric": name, "aggregation": "mean", "higher_is_better": True} for name in ("in_form", "valid")]
    marks = {"in_form": "####", "valid": "@"}
    results = {"process_results": lambda _, given: {name: float(sign in given[0]) for name, sign in marks.items()}}
    own = task(metric_list=rising, **results)
    own.made_documents = True
    made = recorded(own)
    assert made.score is None


def pairs(value: Any, total: Any) -> ec.Task:
    """A task of choices whose metric gives a pair for each document."""
    metric = {"metric": "own", "aggregation": total, "higher_is_better": True}
    return recorded(task(CHOICES, "multiple_choice", process_results=value, metric_list=[metric]))


def test_a_pair_of_counts_is_no_pair_of_labels() -> None:
    """BBQ counts right answers among the documents of one kind; another document has no mark."""

    def counts(document: Any, responses: Any) -> Any:
        asked = int(document["answer"] == 1)
        return {"own": (asked and int(responses[1][0] > responses[0][0]), asked)}

    made = pairs(counts, lambda items: sum(one for one, _ in items) / sum(one for _, one in items))
    assert made.score is not None
    right, wrong = [(-9.0, False), (-1.0, False), (-9.0, False)], [(-1.0, False), (-9.0, False), (-9.0, False)]
    assert [made.score(made.documents[1], each) for each in (right, wrong)] == [{"own": 1.0}, {"own": 0.0}]
    with pytest.raises(NotApplicable, match="no metric of the task says"):
        made.score(made.documents[0], right)


def test_a_pair_of_labels_says_whether_they_are_equal() -> None:
    def labels(document: Any, responses: Any) -> Any:
        return {"own": (document["answer"], max(range(3), key=lambda place: responses[place][0]))}

    made = pairs(labels, lambda items: sum(one == other for one, other in items) / len(items))
    assert made.score is not None
    assert made.score(made.documents[0], [(-1.0, False), (-9.0, False), (-9.0, False)]) == {"own": 1.0}
    assert made.score(made.documents[1], [(-1.0, False), (-9.0, False), (-9.0, False)]) == {"own": 0.0}


@pytest.mark.parametrize(("filters", "number"), [("", False), (r"[{regex_pattern: '(\d+)', function: regex}]", True)])
def test_an_answer_is_a_number_where_the_task_takes_no_name(tmp_path: Any, filters: str, number: bool) -> None:
    path = tmp_path / "own.yaml"
    lines = ["task: own", "dataset_path: nobody/nothing", "test_split: test", "output_type: generate_until"]
    lines += ["doc_to_text: '{{question}}'", "doc_to_target: '{{answer}}'", "metric_list: [{metric: exact_match}]"]
    if filters:
        lines.append(f"filter_list: [{{name: own, filter: {filters[:-1]}, {{function: take_first}}]}}]")
    path.write_text("\n".join(lines))
    made = recorded(registry.task(str(path)))
    assert made.gold is not None
    assert made.gold(made.documents[0])[0].isdigit() == number


def test_an_answer_is_a_number_where_the_scorer_reads_numbers(tmp_path: Path) -> None:
    (tmp_path / "scorer.py").write_text(
        "def read(text):\n    try:\n        return float(text.split()[-1])\n    except ValueError:\n        return None\n\n\n"
        "def results(doc, given):\n    return {'exact_match': float(read(given[0]) == read(doc['answer']))}\n"
    )
    path = tmp_path / "own.yaml"
    lines = ["task: own", "dataset_path: nobody/nothing", "test_split: test", "output_type: generate_until"]
    lines += ["doc_to_text: '{{question}}'", "doc_to_target: '{{answer}}'", "metric_list: [{metric: exact_match}]"]
    path.write_text("\n".join([*lines, "process_results: !function scorer.results"]))
    made = recorded(registry.task(str(path)))
    assert made.gold is not None
    assert made.gold(made.documents[0])[0].isdigit()


def test_a_module_of_a_task_that_ends_the_process_is_said(tmp_path: Path) -> None:
    (tmp_path / "needs.py").write_text("import sys\nsys.exit('a program is missing')\n", encoding="utf-8")
    path = tmp_path / "own.yaml"
    path.write_text("task: own\ntest_split: test\ndoc_to_text: !function needs.text\ndoc_to_target: answer\n")
    with pytest.raises(UsageError, match=r"own\.yaml cannot be read: SystemExit: a program is missing"):
        registry.task(str(path))


@pytest.mark.parametrize("needs", ["MULTIMODAL", "UNSAFE_CODE"])
def test_a_run_of_a_task_that_asks_for_more_than_texts_is_counted(needs: str) -> None:
    own = task(**WORKED)
    setattr(own, needs, True)
    made = recorded(own)
    assert made.tally is not None
    assert made.tally(made.documents[:1], [["#### 18"]]).value["exact_match,strict"] == 1


def test_made_choices_are_several_and_the_right_one_is_marked(tmp_path: Path) -> None:
    """A field that gives the choices holds no text, of which each letter would be one, and the marks name one."""
    (tmp_path / "marks.py").write_text(
        "import numpy as np\n\n\ndef results(doc, pairs):\n"
        "    probabilities = np.exp([pair[0] for pair in pairs])\n"
        "    right = np.array(doc['marks']) == 1\n"
        "    return {'acc': float((probabilities / probabilities.sum())[right].sum())}\n",
        encoding="utf-8",
    )
    path = tmp_path / "own.yaml"
    lines = ["task: own", "dataset_path: nobody/nothing", "test_split: test", "output_type: multiple_choice"]
    lines += ["doc_to_text: '{{text}}'", "doc_to_target: 0", "doc_to_choice: options"]
    path.write_text("\n".join([*lines, "process_results: !function marks.results", "metric_list: [{metric: acc}]"]))
    made = recorded(registry.task(str(path)))
    assert made.choices is not None
    assert made.score is not None
    document = made.documents[0]
    assert document["marks"] == [1, 0, 0, 0]
    assert len({*made.choices(document)}) == 4
    responses = [(-0.5, True), *[(-1000.0, False)] * 3]
    assert made.score(document, responses) == {"acc": 1.0}
    assert made.score(document, responses[::-1]) == {"acc": 0.0}


def small_model(cls: Any = None) -> tuple[Any, Any]:
    """A model of lm_eval that has a tokenizer which begins a text, and a chat template."""
    transformers = pytest.importorskip("transformers")
    from lm_eval.models.huggingface import HFLM

    from fixtures.targets._tokenizers import tokenizer

    tokens = tokenizer("bytes_that_begin")
    sizes = {"vocab_size": len(tokens), "n_embd": 8, "n_layer": 1, "n_head": 1}
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes))
    lm = HFLM(pretrained=model, tokenizer=tokens, max_length=512, device="cpu")
    if cls is not None:
        lm.apply_chat_template = cls(lm).apply_chat_template
    return lm, tokens


class Twice:
    """A template that is applied to a text which has it."""

    def __init__(self, lm: Any) -> None:
        self._once = lm.apply_chat_template

    def apply_chat_template(self, messages: Any, **options: Any) -> str:
        return str(self._once([{"role": "user", "content": self._once(messages, **options)}], **options))


@pytest.mark.parametrize(("template", "found"), [(None, "passed"), (Twice, "EC707: text")])
@pytest.mark.parametrize("kind", ["generate_until", "multiple_choice"])
def test_a_chat_has_the_messages_of_its_prompt(kind: str, template: Any, found: str) -> None:
    from pytest_evalcheck.adapters.lm_eval.task import with_model

    lm, _ = small_model(template)
    own = task(CHOICES if kind == "multiple_choice" else SUMS, kind, num_fewshot=1)
    made = with_model(own, lm, chat=True)
    assert made.requests is not None
    ((request, *_), *_) = made.requests(made.documents)
    assert [message["role"] for message in request.messages] == ["user", "assistant", "user"]
    (cell,) = ec.run(ec.task()(lambda: made), "cpu", select="EC707", effort="quick").cells
    assert (cell.signature or cell.outcome).startswith(found), cell.reason


def test_the_tokens_of_a_task_are_those_that_a_model_is_given() -> None:
    """EC714 compares them with the tokens of the whole text, of which no likelihood is asked for."""
    from pytest_evalcheck.adapters.lm_eval.task import with_model

    lm, tokens = small_model()
    made = with_model(task(CHOICES, "multiple_choice"), lm)
    assert made.requests is not None
    assert made.encode is not None
    request = made.requests(made.documents)[0][0]
    prompt, continuation = made.encode(request)
    assert (tokens.decode(prompt[1:]), tokens.decode(continuation)) == ("Q: q0\nA:", " a")
    assert made.encode(ec.Request(prompt="Q: q0\nA: a", continuation="")) == ([*prompt, *continuation], [])
