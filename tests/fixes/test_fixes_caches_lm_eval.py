from __future__ import annotations

import base64
import importlib.util
import warnings
from pathlib import Path

import pytest
import scoring_lm_eval as lm
import torch
from cache_models import Fed, torchtune_model, transformers_model

if importlib.util.find_spec("lm_eval") is None:
    pytest.skip("lm_eval is not installed", allow_module_level=True)

pytestmark = pytest.mark.filterwarnings("ignore")  # those of lm-eval and torchtune are not ours

LETTERS = "abcdefghijklmnopqrstuvwxyz .?\n"
TEXTS = ["what is it?", "a", "no. ", "once upon a time there was", "b\n", "zzz", "the cat sat on the", "x y"]


@pytest.fixture(scope="module", autouse=True)
def _offline(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, value in lm.environment(tmp_path_factory.mktemp("lm_eval")).items():
            patch.setenv(name, value)
        patch.setenv("TIKTOKEN_CACHE_DIR", "")
        import lm_eval.models.huggingface  # noqa: F401

        yield


def requests(until=(".",), texts=TEXTS, most=9, **options):
    from lm_eval.api.instance import Instance

    asked = {"until": list(until), "max_gen_toks": most, **options}
    return [Instance("generate_until", {}, (text, dict(asked)), number) for number, text in enumerate(texts)]


def letters():
    import tokenizers
    import transformers
    from tokenizers import decoders, models, pre_tokenizers

    words = {word: place for place, word in enumerate(["<pad>", "<s>", "</s>", "<unk>", *LETTERS])}
    made = tokenizers.Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    made.decoder = decoders.Fuse()
    special = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, **special)


def harness(kind, name="llama", batch_size=3):
    return kind(transformers_model(name, vocabulary=4 + len(LETTERS)), tokenizer=letters(), batch_size=batch_size)


@pytest.mark.parametrize("name", ["gpt2", "llama", "mistral"])
@pytest.mark.parametrize("batch_size", [1, 3, 8])
def test_answers_are_those_of_hflm(name, batch_size):
    from lm_eval.models.huggingface import HFLM

    from pytest_evalcheck.fixes.caches import PersistentCacheLM

    asked = requests() + requests(most=14, until=("q", "at"), texts=TEXTS[:3]) + requests(most=3, texts=TEXTS[2:5])
    expected = harness(HFLM, name, 1).generate_until(asked, disable_tqdm=True)
    assert len(set(map(len, expected))) > 3
    ours = harness(PersistentCacheLM, name, batch_size)
    assert ours.generate_until(asked, disable_tqdm=True) == expected
    assert ours.generate_until(asked[::-1], disable_tqdm=True) == expected[::-1]


@pytest.mark.parametrize(
    "options", [{"num_beams": 2}, {"repetition_penalty": 1.7}, {"do_sample": True, "temperature": 1.0, "top_k": 1}]
)
def test_what_is_not_plain_and_greedy_runs_through_generate_with_the_same_cache(options):
    from lm_eval.models.huggingface import HFLM

    from pytest_evalcheck.fixes.caches import PersistentCacheLM

    # In batches of the same size: transformers 5.20 penalises the token that fills up shorter rows, 5.23 does not.
    expected = harness(HFLM).generate_until(requests(**options), disable_tqdm=True)
    assert harness(PersistentCacheLM).generate_until(requests(**options), disable_tqdm=True) == expected
    assert expected != harness(HFLM).generate_until(requests(), disable_tqdm=True) or "top_k" in options


def test_a_penalty_in_the_models_generation_config_is_heeded():
    from lm_eval.models.huggingface import HFLM

    from pytest_evalcheck.fixes.caches import PersistentCacheLM

    found = []
    for kind in (HFLM, PersistentCacheLM):
        made = harness(kind)
        plain = made.generate_until(requests(), disable_tqdm=True)
        made.model.generation_config.repetition_penalty = 1.7
        found.append((plain, made.generate_until(requests(), disable_tqdm=True)))
    assert found[0] == found[1]
    assert found[0][0] != found[0][1]


def test_one_cache_serves_all_batches_and_is_given_back(monkeypatch):
    from pytest_evalcheck.fixes.caches import PersistentCacheLM
    from pytest_evalcheck.fixes.caches.layer_cache import LayerCache

    made, allocate = [], LayerCache.allocate
    monkeypatch.setattr(LayerCache, "allocate", lambda self, *sizes: (made.append(self), allocate(self, *sizes)))
    ours = harness(PersistentCacheLM)
    ours.generate_until(requests(), disable_tqdm=True)  # batches of 3, 3 and 2 rows
    assert len(made) == len({id(store) for store in made}) == 2  # the layers of the model
    assert [store.capacity for store in made] == [3, 3]
    assert all(store.keys is None for store in made)


def test_models_that_are_not_served_run_as_before():
    import transformers
    from lm_eval.models.huggingface import HFLM

    from pytest_evalcheck.fixes.caches import PersistentCacheLM

    found = []
    for kind in (HFLM, PersistentCacheLM):
        torch.manual_seed(0)
        config = transformers.MambaConfig(
            vocab_size=4 + len(LETTERS), hidden_size=16, num_hidden_layers=1, state_size=4, bos_token_id=1,
            eos_token_id=2, pad_token_id=0,
        )  # fmt: skip
        model = kind(transformers.MambaForCausalLM(config).eval(), tokenizer=letters(), batch_size=1, max_length=64)
        found.append(model.generate_until(requests(), disable_tqdm=True))
    assert found[0] == found[1]


def test_a_prompt_without_tokens_is_refused():
    from pytest_evalcheck.fixes.caches import CacheError, PersistentCacheLM

    with pytest.raises(CacheError, match=r"context\[1\]: expected one token or more, got padding alone"):
        harness(PersistentCacheLM).generate_until(requests(texts=["a", ""]), disable_tqdm=True)


def tokenizer(folder):
    """torchtune's own Llama3 tokenizer, over bytes."""
    from torchtune.models.llama3 import Llama3Tokenizer
    from torchtune.models.llama3._tokenizer import LLAMA3_SPECIAL_TOKENS

    path = Path(folder) / "tokenizer.model"
    path.write_text("".join(f"{base64.b64encode(bytes([byte])).decode()} {byte}\n" for byte in range(256)))
    special = {name: 256 + place for place, name in enumerate(list(LLAMA3_SPECIAL_TOKENS)[:11])}
    special["<|finetune_right_pad_id|>"] = 267
    return Llama3Tokenizer(str(path), special_tokens={**special, "<|image|>": 268})


def bytes_model():
    """One that says letters more often than not, so that there is something to stop at."""
    model = torchtune_model("llama3", vocabulary=280, context=96).float()
    with torch.no_grad():
        model.output.weight.zero_()
        rows = [*range(97, 123), 32, 46, 257]
        model.output.weight[rows] = torch.randn(len(rows), 32, generator=torch.Generator().manual_seed(3))
    return model


def recipes_wrapper(folder, monkeypatch):
    """The class of torchtune's evaluation recipe, whose base would load GPT-2 from a hub."""
    import importlib.metadata

    from lm_eval.models.huggingface import HFLM

    path = importlib.metadata.distribution("torchtune").locate_file("recipes/eleuther_eval.py")
    spec = importlib.util.spec_from_file_location("eleuther_eval", path)
    recipe = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(recipe)
    original = HFLM.__init__

    def local(self, pretrained, device="cpu", **_):
        original(self, transformers_model("gpt2"), tokenizer=letters(), batch_size=1)

    monkeypatch.setattr(HFLM, "__init__", local)
    return recipe._LLMEvalWrapper


def torchtune_answers(model, coder, asked):
    """Answers as the promise has them: one row at a time, no cache, cut at the first stop."""
    from lm_eval.models.utils import postprocess_generated_text

    answers = []
    for text, options in (each.args for each in asked):
        ids = coder.encode(text, add_bos=False, add_eos=False)
        start = len(ids)
        with torch.no_grad():
            while len(ids) - start < options["max_gen_toks"] and (
                len(ids) == start or ids[-1] not in coder.stop_tokens
            ):
                ids.append(int(model(torch.tensor([ids]))[0, -1].argmax()))
        answers.append(postprocess_generated_text(coder.decode(ids[start:]), options["until"], None))
    return answers


@pytest.mark.parametrize("batch_size", [1, 3, 8])
def test_a_torchtune_model_gives_what_it_gives_without_a_cache(tmp_path, batch_size):
    from pytest_evalcheck.fixes.caches import TorchtuneLM

    model, coder = bytes_model(), tokenizer(tmp_path)
    asked = requests(most=20) + requests(until=("th", "q"), most=7)
    expected = torchtune_answers(model, coder, asked)
    assert len(set(map(len, expected))) > 3
    ours = TorchtuneLM(model, coder, batch_size=batch_size)
    assert ours.generate_until(asked, disable_tqdm=True) == expected
    assert not model.caches_are_setup()


def test_the_recipes_wrapper_is_mended_by_the_mixin(tmp_path, monkeypatch):
    from pytest_evalcheck.fixes.caches import PersistentTorchtuneCache

    model, coder = bytes_model(), tokenizer(tmp_path)
    wrapper = recipes_wrapper(tmp_path, monkeypatch)
    kind = type("Ours", (PersistentTorchtuneCache, wrapper), {})
    ours = kind(model, coder, device=torch.device("cpu"), max_seq_length=96, batch_size=3)
    asked = requests(most=20)
    with Fed(model) as fed:
        assert ours.generate_until(asked, disable_tqdm=True) == torchtune_answers(bytes_model(), coder, asked)
    assert max(rows for rows, _ in fed.shapes) == 3
    assert not model.caches_are_setup()


def test_the_recipe_alone_runs_past_its_cache_whatever_the_request_says(tmp_path, monkeypatch):
    """Purpose of the mixin: 256 tokens whatever is asked, in a cache for 96 positions."""
    wrapper = recipes_wrapper(tmp_path, monkeypatch)
    model = bytes_model()
    with torch.no_grad():
        model.output.weight[257] = 0  # never at its end
    theirs = wrapper(model, tokenizer(tmp_path), device=torch.device("cpu"), max_seq_length=96, batch_size=3)
    with pytest.raises((AssertionError, RuntimeError, IndexError)):
        theirs.generate_until(requests(most=5), disable_tqdm=True)


def test_lm_evals_own_evaluation_runs_it_and_scores_choices_with_it(tmp_path, monkeypatch):
    import lm_eval
    import lm_eval.evaluator
    from lm_eval.tasks import TaskManager

    from pytest_evalcheck.fixes.caches import TorchtuneLM

    monkeypatch.setattr(lm_eval.evaluator, "add_env_info", lambda results: None)
    monkeypatch.setattr(lm_eval.evaluator, "get_git_commit_hash", lambda: None)
    sums = lm.task(repeats=1, generation_kwargs={"until": ["."], "max_gen_toks": 6})
    choice = lm.task(
        task="choice", repeats=1, output_type="multiple_choice", doc_to_choice=["a", " b", "c."], doc_to_target=1,
        generation_kwargs=None, metric_list=[{"metric": "acc"}],
    )  # fmt: skip
    results = []
    for size in (1, 5):
        ours = TorchtuneLM(bytes_model(), tokenizer(tmp_path), batch_size=size)
        manager = TaskManager(include_path=str(tmp_path), include_defaults=False)
        evaluated = lm_eval.simple_evaluate(ours, tasks=[sums, choice], task_manager=manager, bootstrap_iters=0)
        results.append([[each["resps"] for each in evaluated["samples"][name]] for name in ("sums", "choice")])
    assert results[0][0] == results[1][0]
    torch.testing.assert_close(*(torch.tensor([[r[0][0] for r in d] for d in each[1]]) for each in results))


def test_without_a_length_the_most_of_the_model_are_generated(tmp_path):
    from pytest_evalcheck.fixes.caches import TorchtuneLM

    class Short(TorchtuneLM):
        max_gen_toks = 4

    model = bytes_model()
    with torch.no_grad():
        model.output.weight[257] = 0  # never at its end
    context, mask = Short(model, tokenizer(tmp_path)).tok_batch_encode(["abc", "d"])
    found = Short(model, tokenizer(tmp_path))._model_generate(context, attention_mask=mask)
    assert found.shape == (2, context.shape[1] + 4)
    assert torch.equal(found[:, : context.shape[1]], context)


def test_sampling_is_refused_for_torchtune(tmp_path):
    from pytest_evalcheck.fixes.caches import TorchtuneLM

    ours = TorchtuneLM(bytes_model(), tokenizer(tmp_path))
    with pytest.raises(RuntimeError, match="only greedy generation"):
        ours.generate_until(requests(do_sample=True, temperature=1.0), disable_tqdm=True)
