"""Patches of lm-evaluation-harness."""

from __future__ import annotations

from pytest_evalcheck.fixes.patches.patch import Library, Patch, begin, body, put_after, put_before, replace

_TASK = """
                import lm_eval
                from datasets import Dataset
                from lm_eval.api.model import LM
                from lm_eval.api.task import ConfigurableTask

                class Answers(LM):
                    def __init__(self, answer):
                        super().__init__()
                        self.answer = answer

                    def generate_until(self, requests):
                        return [self.answer(one) if callable(self.answer) else self.answer for one in requests]

                    loglikelihood = loglikelihood_rolling = generate_until

                def task(rows, *metrics, **config):
                    listed = [{"metric": one, "aggregation": "mean", "higher_is_better": True} for one in metrics]
                    plain = {"test_split": "test", "doc_to_text": "question", "doc_to_target": "answer"}
                    data = {"task": "t", "custom_dataset": lambda **_: {"test": Dataset.from_list(rows)}}
                    return ConfigurableTask(config={**data, **plain, "metric_list": listed, **config})

                def run(made, model, **options):
                    return lm_eval.evaluate(lm=model, task_dict={"t": made}, bootstrap_iters=0, **options)
"""
"""The head of a test: a task over rows, and a model that answers."""

LIBRARY = Library(
    "lm_eval",
    "0.4.13",
    "0.4.14",
    patches=(
        Patch(
            mends=("lm-eval-median-is-the-upper-one",),
            says="the median of an even number of values is exact",
            edits={"lm_eval.api.metrics:median": (body("import statistics\n\nreturn statistics.median(arr)"),)},
            test="""
                from lm_eval.api.metrics import median

                assert median([1, 2, 3, 10]) == 2.5
            """,
        ),
        Patch(
            mends=("lm-eval-take-first-k-asks-once",),
            says="take_first_k asks every document for its k responses",
            edits={
                "lm_eval.filters.selection:TakeKFilter.apply": (
                    replace(
                        "assert len(resps[0]) >= self.k, (",
                        "fewest = min(map(len, resps), default=self.k)\nassert fewest >= self.k, (",
                    ),
                    replace("but got {len(resps[0])} only", "but got {fewest} only"),
                )
            },
            test="""
                from lm_eval.filters.selection import TakeKFilter

                try:
                    list(TakeKFilter(k=2).apply([["a", "b"], ["c"]], [{}, {}]))
                except AssertionError:
                    pass
                else:
                    raise RuntimeError("a document with one response passed")
            """,
        ),
        Patch(
            mends=("lm-eval-text-cut-at-two-places",),
            says="of requests over one text each continuation is scored at its own place",
            edits={
                "lm_eval.models.huggingface:HFLM._loglikelihood_tokens": (
                    replace(
                        "logits = torch.gather(logits, 2, cont_toks.unsqueeze(-1)).squeeze(",
                        "logits = logits[:, -cont_toks.shape[1] :]\n"
                        "logits = torch.gather(logits, 2, cont_toks.unsqueeze(-1)).squeeze(",
                    ),
                )
            },
            test="""
                import torch
                from lm_eval.api.instance import Instance
                from lm_eval.models.huggingface import HFLM
                from tokenizers import Regex, Tokenizer, models, pre_tokenizers
                from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

                words = {name: i for i, name in enumerate(["<pad>", "<eos>", *"abcd"])}
                backend = Tokenizer(models.WordLevel(words, unk_token="<eos>"))
                backend.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
                special = {"pad_token": "<pad>", "eos_token": "<eos>", "unk_token": "<eos>"}
                tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, **special)
                torch.manual_seed(0)
                sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
                model = LlamaForCausalLM(LlamaConfig(vocab_size=6, initializer_range=0.5, **sizes)).eval()
                harness = HFLM(pretrained=model, tokenizer=tokenizer, batch_size=1, max_length=16, device="cpu")
                pairs = [("ab", "cd"), ("abc", "d")]
                asked = [Instance("loglikelihood", {}, pair, i, metadata=("t", i, 1)) for i, pair in enumerate(pairs)]
                alone = [harness.loglikelihood([one], disable_tqdm=True)[0][0] for one in asked]
                together = [value for value, _ in harness.loglikelihood(asked, disable_tqdm=True)]
                assert torch.allclose(torch.tensor(together), torch.tensor(alone), atol=1e-4)
            """,
            needs=("transformers", "tokenizers"),
        ),
        Patch(
            mends=("lm-eval-exact-match-changes-the-response",),
            says="with several targets exact_match leaves the response as it is for the metrics after it",
            edits={
                "lm_eval.api.task:ConfigurableTask.process_results": (
                    replace(
                        "result = [result for _ in range(len(gold))]\nscores = self._metric_fn_list[metric](",
                        "scores = self._metric_fn_list[metric](",
                    ),
                    replace("predictions=result,", "predictions=[result for _ in range(len(gold))],"),
                )
            },
            test=_TASK
            + """
                def same(references, predictions):
                    return float(references == predictions)

                made = task([{"question": "q", "answer": ["a", "bb"]}], "exact_match", same)
                assert made.process_results(made.eval_docs[0], ["bb"]) == {"exact_match": 1.0, "same": 1.0}
            """,
        ),
        Patch(
            mends=("lm-eval-first-document-decides-targets",),
            says="each document says whether it has several targets",
            edits={
                "lm_eval.api.task:ConfigurableTask.process_results": (
                    replace(
                        "# we expect multiple_targets to be a list.\nelif self.multiple_target:\ngold = list(gold)",
                        "# we expect multiple_targets to be a list.\n"
                        "elif several:\n"
                        "    gold = [gold] if isinstance(gold, str) else list(gold)",
                    ),
                    replace(
                        "result = results[0]\nif self.config.doc_to_choice",
                        "result = results[0]\n"
                        "lists = gold and isinstance(gold, list) and isinstance(result, str)\n"
                        "several = self.multiple_target or lists\n"
                        "if self.config.doc_to_choice",
                    ),
                    replace("if self.multiple_target:\n# in the case", "if several:\n    # in the case"),
                )
            },
            test=_TASK
            + """
                targets = ("ab", ["x", "ab"])
                for first, second in ((0, 1), (1, 0)):
                    rows = [{"question": "q", "n": n} for n in (first, second)]
                    made = task(rows, "exact_match", doc_to_target=lambda doc: targets[doc["n"]])
                    for doc in made.eval_docs:
                        assert made.process_results(doc, ["ab"]) == {"exact_match": 1.0}
            """,
        ),
        Patch(
            mends=("lm-eval-references-cut-to-fewest",),
            says="BLEU, chrF and TER compare a response with all of its references",
            edits={
                "lm_eval.api.metrics:_sacreformat": (
                    begin("from itertools import zip_longest"),
                    replace("refs = list(zip(*refs))", "refs = list(zip_longest(*refs))"),
                )
            },
            test="""
                from lm_eval.api.metrics import bleu, chrf, ter

                cat, dog = "the cat sat on the mat", "a dog ran over the hill"
                items = [(["no no no no", cat], cat), ([dog], dog)]
                assert bleu(items) > 99.9 and chrf(items) > 99.9 and ter(items) == 0
            """,
        ),
        Patch(
            mends=("lm-eval-chosen-documents-mixed-up",),
            says="chosen documents are logged under their own ids",
            edits={
                "lm_eval.evaluator:evaluate": (
                    put_after(
                        "indices = samples.get(task_name, None) if samples is not None else None",
                        "# doc_iterator() gives each of them once, in the order of the data set\n"
                        "indices = sorted(set(indices)) if indices else None",
                    ),
                )
            },
            test=_TASK
            + """
                rows = [{"question": f"q{i}", "answer": "4"} for i in range(3)]
                found = run(task(rows, "exact_match"), Answers("4"), samples={"t": [2, 0]})["samples"]["t"]
                assert [(one["doc_id"], one["doc"]["question"]) for one in found] == [(0, "q0"), (2, "q2")]
            """,
        ),
        Patch(
            mends=("lm-eval-short-rank-counts-twice",),
            says="responses to requests that only keep a rank busy are dropped",
            edits={
                "lm_eval.evaluator:evaluate": (
                    replace(
                        "for x, req in zip(resps, cloned_reqs, strict=True):",
                        "asked = sum(req.repeats for req in reqs)\n"
                        "for x, req in list(zip(resps, cloned_reqs, strict=True))[:asked]:",
                    ),
                )
            },
            test=_TASK
            + """
                import torch

                class SecondOfTwo(Answers):
                    rank, world_size, device = 1, 2, "cpu"

                    def all_gather(self, tensor):
                        return torch.tensor([2, 1])

                    def barrier(self):
                        pass

                    def gather_object(self, obj, dst=0):
                        return None

                made = task([{"question": f"q{i}", "answer": "4"} for i in range(3)], "exact_match", repeats=3)
                run(made, SecondOfTwo("4"))
                assert [len(one.resps) for one in made.instances] == [3]
            """,
        ),
        Patch(
            mends=("lm-eval-repeats-share-a-cache-key",),
            says="each repeat of a request to generate has its own key in the cache",
            edits={
                "lm_eval.api.model:CachingLM.__getattr__": (
                    replace("warned = False", "warned = False\nkeys = []\nkeys_seen = {}"),
                    replace(
                        'for req in tqdm(requests, desc="Checking cached requests"):\nhsh = hash_args(attr, req.args)',
                        'for req in tqdm(requests, desc="Checking cached requests"):\n'
                        "    hsh = hash_args(attr, req.args)\n"
                        '    if attr == "generate_until" and (repeat := keys_seen.get(hsh, 0)):\n'
                        "        keys_seen[hsh] += 1\n"
                        "        hsh = hash_args(attr, [*req.args, repeat])\n"
                        "    else:\n"
                        "        keys_seen[hsh] = 1\n"
                        "    keys.append(hsh)",
                    ),
                    replace("# caching\nhsh = hash_args(attr, req.args)", "# caching\nhsh = keys[resptr]"),
                )
            },
            test=_TASK
            + """
                import itertools
                import tempfile
                from lm_eval.api.model import CachingLM

                count = itertools.count()
                made = task([{"question": "q", "answer": "4"}], "exact_match", repeats=3)
                model = CachingLM(Answers(lambda request: str(next(count))), tempfile.mkdtemp() + "/cache.db")
                for _ in range(2):
                    made = task([{"question": "q", "answer": "4"}], "exact_match", repeats=3)
                    assert run(made, model)["samples"]["t"][0]["resps"] == [["0", "1", "2"]]
            """,
        ),
        Patch(
            mends=("lm-eval-none-shifts-cached-responses",),
            says="a response of None stays with its request, and is asked for again",
            edits={
                "lm_eval.api.model:CachingLM.__getattr__": (
                    replace(
                        "elif hsh in self.dbdict:\nob = self.dbdict[hsh]\n\nassert ob is not None\n\nres.append(ob)",
                        "elif (ob := self.dbdict.get(hsh)) is not None:\n    res.append(ob)",
                    ),
                    replace(
                        "resptr = 0\nfor req, r in zip(remaining_reqs, rem_res, strict=True):\n"
                        "while res[resptr] is not None:\nresptr += 1\n\nres[resptr] = r",
                        "places = [i for i, r in enumerate(res) if r is None]\n"
                        "for resptr, req, r in zip(places, remaining_reqs, rem_res, strict=True):\n"
                        "    res[resptr] = r",
                    ),
                )
            },
            test=_TASK
            + """
                import tempfile
                from lm_eval.api.model import CachingLM

                made = task([{"question": f"q{i}", "answer": ""} for i in range(3)], "exact_match")
                made.set_config("num_fewshot", 0)
                made.build_all_requests()
                model = Answers(lambda request: None if request.doc_id == 0 else str(request.doc_id))
                cached = CachingLM(model, tempfile.mkdtemp() + "/cache.db")
                for _ in range(2):
                    assert cached.generate_until(made.instances) == [None, "1", "2"]
            """,
        ),
        Patch(
            mends=("lm-eval-second-match-is-required",),
            says="a response with fewer matches than group_select asks for gives the fallback",
            edits={
                "lm_eval.filters.extraction:RegexFilter.apply": (
                    replace(
                        "if match:\nmatch = match[self.group_select]",
                        "if -len(match) <= self.group_select < len(match):\n    match = match[self.group_select]",
                    ),
                ),
                "lm_eval.filters.extraction:MultiChoiceRegexFilter.apply": (
                    replace(
                        "if match:\nmatch = match[self.group_select]",
                        'if not -len(match) <= self.group_select < len(match):\n    return ""\n'
                        "if match:\n    match = match[self.group_select]",
                    ),
                ),
            },
            test="""
                from lm_eval.filters.extraction import MultiChoiceRegexFilter, RegexFilter

                second = RegexFilter(regex_pattern=r"([0-9]+)", group_select=1)
                assert second.apply([["4 or 5", "4", ""]], [{}]) == [["5", "[invalid]", "[invalid]"]]
                second = MultiChoiceRegexFilter(regex_pattern="([AB])", group_select=1)
                assert second.apply([["A B", "A"]], [{"choices": ["x", "y"]}]) == [["B", "[invalid]"]]
            """,
        ),
        Patch(
            mends=("lm-eval-mutual-information-of-several-targets",),
            says="acc_mutual_info takes several targets",
            edits={
                "lm_eval.api.task:ConfigurableTask.process_results": (
                    replace(
                        "acc_mutual_info = 1.0 if np.argmax(lls_mutual_info) == gold else 0.0",
                        "right = gold if self.multiple_target else [gold]\n"
                        "acc_mutual_info = 1.0 if np.argmax(lls_mutual_info) in right else 0.0",
                    ),
                )
            },
            test=_TASK
            + """
                rows = [{"question": "q", "choices": ["a", "bb", "ccc"], "answer": [0, 1]}]
                made = task(rows, "acc_mutual_info", output_type="multiple_choice", doc_to_choice="choices")
                found = run(made, Answers((-1.0, False)))
                assert found["results"]["t"]["acc_mutual_info,none"] == 1
            """,
        ),
        Patch(
            mends=("lm-eval-document-among-its-examples",),
            says="the evaluated document is left out of its own examples, whatever names their split",
            edits={
                "lm_eval.api.task:ConfigurableTask.fewshot_context": (
                    put_before(
                        "for fs_doc in self.sampler.sample(",
                        "config, own = self.config, self.fewshot_cfg\n"
                        "asked = config.test_split or config.validation_split\n"
                        "usual = config.training_split or config.validation_split or config.test_split\n"
                        "shown = own.split or (None if own.samples else usual)",
                    ),
                    replace("if self.fewshot_cfg.split == self.config.test_split", "if shown == asked"),
                )
            },
            test=_TASK
            + """
                rows = [{"question": f"q{i}", "answer": f"a{i}"} for i in range(4)]
                for splits in ({"test_split": "test"}, {"validation_split": "test", "test_split": None}):
                    made = task(rows, "exact_match", num_fewshot=3, **splits)
                    made.set_fewshot_seed(1234)
                    made.build_all_requests()
                    assert len(made.instances) == 4
                    for each in made.instances:
                        assert f"a{each.doc_id}" not in each.args[0]
            """,
        ),
        Patch(
            mends=("lm-eval-examples-by-order",),
            says="the examples of a document depend on its text and the seed, and on no document before it",
            edits={
                "lm_eval.api.task:Task.set_fewshot_seed": (begin("self._fewshot_seed = seed"),),
                "lm_eval.api.task:ConfigurableTask.fewshot_context": (
                    put_before(
                        "for fs_doc in self.sampler.sample(",
                        'if getattr(self, "_fewshot_seed", None) is not None:\n'
                        "    # random.Random takes no hash value of a text: those differ in every process\n"
                        '    self.sampler.set_rnd(f"{self._fewshot_seed} {self.doc_to_text(doc)}")',
                    ),
                ),
            },
            test=_TASK
            + """
                rows = [{"question": f"q{i}", "answer": f"a{i}"} for i in range(9)]

                def prompts(**run):
                    made = task(rows, "exact_match", training_split="test", num_fewshot=3)
                    made.set_fewshot_seed(1234)
                    made.build_all_requests(**run)
                    return {each.doc_id: each.args[0] for each in made.instances}

                whole = prompts()
                assert len({prompt.rpartition("q")[0] for prompt in whole.values()}) > 1
                for rank in range(2):
                    for number, prompt in prompts(rank=rank, world_size=2).items():
                        assert prompt == whole[number]
            """,
        ),
        Patch(
            mends=("lm-eval-answers-without-a-number",),
            says="two answers of AGIEval of which none is read are the same where their texts are",
            edits={
                "lm_eval.tasks.agieval.utils:is_equiv": (
                    replace(
                        "str1, str2 = parse_math_answer(str1), parse_math_answer(str2)",
                        "texts = str1, str2\n"
                        "str1, str2 = (parse_math_answer(text) for text in texts)\n"
                        "if str1 is None and str2 is None:\n"
                        "    str1, str2 = (text.strip() for text in texts)",
                    ),
                )
            },
            test=r"""
                from lm_eval.tasks.agieval.utils import is_equiv

                assert is_equiv(r"\pi", r"\pi") and is_equiv("It is 4", "4")
                assert not is_equiv("I do not know.", r"\pi") and not is_equiv("", r"\pi")
            """,
        ),
        Patch(
            mends=("lm-eval-mutual-of-pairs",),
            says="MuTual compares log-likelihoods",
            edits={"lm_eval.tasks.mutual.utils:process_results": (begin("results = [pair[0] for pair in results]"),)},
            test="""
                from lm_eval.tasks.mutual.utils import process_results

                assert process_results({"answers": "A"}, [(-1.0, False), (-9.0, False), (-9.0, False)])["r@1"]
            """,
        ),
        Patch(
            mends=("lm-eval-answers-without-a-sign",),
            says="AGIEval and HRM8K read the sign of a number",
            edits={
                f"lm_eval.tasks.{name}.utils:parse_math_answer": (
                    replace(r'"(?:\\$)?\\d+', r'"(?:(?<![\\w.])-)?(?:\\$)?\\d+'),
                )
                for name in ("agieval", "hrm8k.default", "hrm8k.en")
            },
            test=r"""
                from lm_eval.tasks.agieval.utils import is_equiv

                assert is_equiv("It is -4", "-4") and is_equiv("9-4", "4") and not is_equiv("-4", "4")
            """,
        ),
        Patch(
            mends=("lm-eval-bbq-without-a-kind",),
            says="an accuracy of CaBBQ and EsBBQ over no question of its kind is NaN",
            edits={
                f"lm_eval.tasks.{name}.utils:acc_{kind}_agg": (
                    begin("if not sum(pair[1] for pair in results):\n    return np.nan"),
                )
                for name in ("cabbq", "esbbq")
                for kind in ("ambig", "disambig")
            },
            test="""
                from lm_eval.tasks.esbbq.utils import acc_ambig_agg

                assert acc_ambig_agg([(0, 0)]) != 0 and acc_ambig_agg([(1, 1), (0, 1), (0, 0)]) == 0.5
            """,
        ),
        Patch(
            mends=("lm-eval-cb-other-texts",),
            says="in CB another text is no class",
            edits={
                "lm_eval.tasks.super_glue.cb.t5_utils:mean_3class_f1": (
                    replace("in string_label else 0", "in string_label else -1"),
                )
            },
            test="""
                from lm_eval.tasks.super_glue.cb.t5_utils import mean_3class_f1

                assert mean_3class_f1([""], ["entailment"]) == (-1, 0)
            """,
        ),
        Patch(
            mends=("lm-eval-punctuation-of-numbers",),
            says="ignore_punctuation leaves signs and decimal points in numbers",
            edits={
                "lm_eval.api.metrics:exact_match_hf_evaluate": (
                    replace(
                        'repl_table = string.punctuation.maketrans("", "", string.punctuation)\n'
                        "predictions = np.char.translate(predictions, table=repl_table)\n"
                        "references = np.char.translate(references, table=repl_table)",
                        "# a sign or a point of a number, unless numbers are ignored, too\n"
                        'part = r"(?!)" if ignore_numbers else r"(?<!\\w)-(?=\\.?\\d)|(?<![a-zA-Z.])\\.(?=\\d)"\n'
                        'sign = re.compile(f"({part})|[{re.escape(string.punctuation)}]")\n'
                        'predictions = np.array([sign.sub(r"\\1", x) for x in predictions])\n'
                        'references = np.array([sign.sub(r"\\1", x) for x in references])',
                    ),
                )
            },
            test="""
                from lm_eval.api.metrics import exact_match_hf_evaluate

                def same(prediction, reference, **options):
                    options["ignore_punctuation"] = True
                    pair = {"predictions": [prediction], "references": [reference]}
                    return exact_match_hf_evaluate(**pair, **options)["exact_match"] == 1

                assert all(same(text, "29") for text in ("29", "29.", "(29)", "$29", "29,"))
                assert not any(same(text, "29") for text in ("-29", "2.9", ".29"))
                assert same("-2.9.", "-2.9") and same("well-known, e.g. here", "wellknown eg here")
                assert same("a-5.5", "a", ignore_numbers=True)
            """,
        ),
    ),
)
