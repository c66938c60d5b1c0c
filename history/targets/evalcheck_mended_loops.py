"""Loops in configurations in which an earlier release was wrong (history/), with references."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

import pytest_evalcheck as ec
from pytest_evalcheck import strategies as es
from pytest_evalcheck.adapters.transformers import pipeline_loop

ROWS = es.tabular(features=3, classes=4)
SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}


@ec.loop(inputs=ROWS, requires=("lightning>=2.5",))
def lightning_logs_plain_numbers() -> Any:
    """A plain number of each batch, under a precision of 16 bits."""
    import lightning
    import torch

    class Logging(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(1))

        def validation_step(self, batch: Any, batch_idx: int) -> None:
            labels = batch["labels"].tolist()
            self.log("label", 1000.0 + sum(labels) / len(labels), batch_size=len(labels))

    def evaluate(data: Any, batch_size: int = 2) -> Any:
        silent = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
        trainer = lightning.Trainer(accelerator="cpu", devices=1, precision="bf16-true", **silent)
        return trainer.validate(Logging(), data.loader(batch_size), verbose=False)[0]

    return ec.Loop(evaluate=evaluate, exact=lambda rows: {"label": 1000.0 + sum(row[0] for row in rows) / len(rows)})


def pictures() -> Any:
    """Rows of numbers as pictures of one colour each."""

    def collate(rows: Any) -> Any:
        import numpy
        from PIL import Image

        shades = [[int(abs(value) * 60) % 256 for value in row[1]] for row in rows]
        drawn = [Image.fromarray(numpy.full((8, 8, 3), shade, dtype=numpy.uint8)) for shade in shades]
        return drawn, [f"LABEL_{row[0]}" for row in rows]

    return ROWS.replace(collate=collate, padding=None)


@ec.loop(inputs=pictures(), requires=("transformers>=5",))
def image_classification() -> Any:
    """The scores of a model whose problem is to find one label of four: their sum is 1."""
    import torch
    from transformers import ViTConfig, ViTForImageClassification, ViTImageProcessor, pipeline

    torch.manual_seed(0)
    config = ViTConfig(image_size=8, patch_size=4, num_labels=4, problem_type="single_label_classification", **SIZES)
    processor = ViTImageProcessor(size={"height": 8, "width": 8})
    model = ViTForImageClassification(config).eval()
    pipe = pipeline("image-classification", model=model, image_processor=processor, device="cpu")

    def score(output: Any, answer: Any) -> dict[str, float]:
        del answer
        return {"sum": sum(row["score"] for row in output)}

    return pipeline_loop.loop(pipe, score, exact=lambda rows: {"sum": 1.0})


def questions() -> Any:
    """Rows of numbers as contexts of words, some of which have two tokens."""

    def collate(rows: Any) -> Any:
        words = ("a", "ab", "d", "abc")
        contexts = [" ".join(words[int(abs(value)) % 4] for value in row[1]) + " de f abc" for row in rows]
        return [{"question": "f", "context": context} for context in contexts], [row[0] for row in rows]

    return ROWS.replace(collate=collate, padding=None)


@ec.loop(inputs=questions(), requires=("transformers>=4",))
def question_answering() -> Any:
    """Five answers are asked for: texts of six words have as many."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertForQuestionAnswering, PreTrainedTokenizerFast, pipeline

    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "##b", "##c", "d", "##e", "f"]
    backend = Tokenizer(models.WordPiece({name: i for i, name in enumerate(names)}, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    backend.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, **special)
    torch.manual_seed(0)
    model = BertForQuestionAnswering(BertConfig(vocab_size=len(names), initializer_range=1.0, **SIZES)).eval()
    pipe = pipeline("question-answering", model=model, tokenizer=tokenizer, device="cpu")

    def evaluate(data: Any, batch_size: int = 2) -> Any:
        asked, _ = data.collate(list(data))
        found = [pipe(**one, top_k=5) for one in asked]
        counts = [float(len(one)) if isinstance(one, list) else 1.0 for one in found]
        return ec.Evaluated({"answers": sum(counts) / len(counts)}, [(i, {"n": n}) for i, n in enumerate(counts)])

    return ec.Loop(evaluate=evaluate, exact=lambda rows: {"answers": 5.0})


TEXTS = es.causal_lm(vocab=40).replace(
    sample=st.lists(st.integers(4, 39), min_size=4, max_size=6).map(lambda row: (tuple(row), 0))
)


@ec.loop(inputs=TEXTS, requires=("transformers>=5",))
def git_describes() -> Any:
    """The loss of texts under a picture, beside that of each token's logits and the next token."""
    import torch
    from transformers import GitConfig, GitForCausalLM

    torch.manual_seed(0)
    vision = {**SIZES, "image_size": 8, "patch_size": 4}
    config = GitConfig(vocab_size=40, vision_config=vision, initializer_range=0.5, **SIZES)
    model = GitForCausalLM(config).double().eval()

    def outputs(row: Any) -> tuple[Any, Any]:
        ids = torch.tensor([list(row[0])])
        with torch.no_grad():
            picture = torch.zeros(1, 3, 8, 8, dtype=torch.float64)
            return ids, model(input_ids=ids, pixel_values=picture, labels=ids)

    def evaluate(data: Any, batch_size: int = 1) -> Any:
        losses = [(len(row[0]) - 1, outputs(row)[1].loss.item()) for row in data]
        return {"loss": sum(n * loss for n, loss in losses) / sum(n for n, _ in losses)}

    def exact(rows: Any) -> dict[str, float]:
        found: list[float] = []
        for row in rows:
            ids, out = outputs(row)
            logarithms = out.logits[0, -ids.shape[1] :].log_softmax(-1)[:-1]
            found += (-logarithms.gather(1, ids[0, 1:, None])[:, 0]).tolist()
        return {"loss": sum(found) / len(found)}

    return ec.Loop(evaluate=evaluate, exact=exact, model=model)


@ec.loop(inputs=ROWS, requires=("peft>=0.17",))
def negated_adapter() -> Any:
    """An adapter that is taken with the weight -1 adds the negative of what it adds by itself."""
    import peft
    import torch

    peft.tuners.lora.torchao.is_torchao_available = lambda: False  # an older one than it takes may be there
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4, bias=False))
    config = peft.LoraConfig(target_modules=["0"], r=2, lora_alpha=2, init_lora_weights=False)
    made = peft.get_peft_model(model, config)
    made.add_weighted_adapter(["default"], [-1.0], "negative", combination_type="linear")

    def added(rows: Any, name: str) -> float:
        x = torch.tensor([row[1] for row in rows])
        made.set_adapter(name)
        with torch.no_grad():
            with made.disable_adapter():
                plain = made(x)
            return float((made(x) - plain).double().sum(-1).mean())

    def evaluate(data: Any, batch_size: int = 2) -> Any:
        batches = [data[i : i + batch_size] for i in range(0, len(data), batch_size)]
        return {"added": sum(added(batch, "negative") * len(batch) for batch in batches) / len(data)}

    return ec.Loop(evaluate=evaluate, exact=lambda rows: {"added": -added(rows, "default")})


@ec.loop(inputs=es.prompts(vocab=8, special=(0, 1, 2, 3), max_length=6), requires=("transformers>=4",))
def beams_of_few_words() -> Any:
    """Beams over so few words that rows of a batch end at different times."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(3)
    model = LlamaForCausalLM(LlamaConfig(vocab_size=8, initializer_range=0.5, **SIZES)).double().eval()
    options = {"do_sample": False, "num_beams": 2, "max_new_tokens": 20, "eos_token_id": 2, "pad_token_id": 0}

    def continued(prompts: Any) -> list[list[float]]:
        width = max(map(len, prompts))
        ids = torch.tensor([[0] * (width - len(prompt)) + list(prompt) for prompt in prompts])
        rows = model.generate(ids, attention_mask=(ids != 0).long(), suppress_tokens=[0], **options)[:, width:].tolist()
        ends = [row.index(2) if 2 in row else len(row) for row in rows]
        return [[float(token) for token in row[:end]] for row, end in zip(rows, ends, strict=True)]

    def evaluate(data: Any, batch_size: int = 2) -> Any:
        found: list[list[float]] = []
        for start in range(0, len(data), batch_size):
            found += continued(data[start : start + batch_size])
        return ec.Evaluated(
            {"length": sum(map(len, found)) / len(found)}, [(i, {"ids": row}) for i, row in enumerate(found)]
        )

    return ec.Loop(evaluate=evaluate, model=model)


@ec.loop(inputs=es.prompts(vocab=40, special=(0, 1, 2, 3), max_length=8), variants={"chunks": {"chunk": 2}})
def qwen3_next_in_chunks() -> Any:
    """Prompts that are padded on the left, read at once and in chunks, some of which begin with padding."""
    import torch
    from transformers import Qwen3NextConfig, Qwen3NextForCausalLM

    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
    sizes |= {"head_dim": 8, "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8}
    sizes |= {"linear_value_head_dim": 8, "intermediate_size": 64, "moe_intermediate_size": 16, "num_experts": 4}
    sizes |= {"shared_expert_intermediate_size": 16, "num_experts_per_tok": 2}
    layers = ["linear_attention", "full_attention"]
    config = Qwen3NextConfig(vocab_size=40, layer_types=layers, initializer_range=0.5, **sizes)
    model = Qwen3NextForCausalLM(config).eval()
    options = {"do_sample": False, "max_new_tokens": 5, "eos_token_id": None, "pad_token_id": 0}

    def evaluate(data: Any, batch_size: int = 4, *, chunk: Any = None) -> Any:
        records = []
        for start in range(0, len(data), batch_size):
            prompts = data[start : start + batch_size]
            width = max(map(len, prompts))
            ids = torch.tensor([[0] * (width - len(prompt)) + list(prompt) for prompt in prompts])
            more = {} if chunk is None else {"prefill_chunk_size": chunk}
            rows = model.generate(ids, attention_mask=(ids != 0).long(), suppress_tokens=[0], **options, **more)
            records += [(start + i, {"ids": [float(one) for one in row[width:]]}) for i, row in enumerate(rows)]
        return ec.Evaluated({"sum": sum(sum(row["ids"]) for _, row in records) / len(records)}, records)

    return ec.Loop(evaluate=evaluate, model=model)
