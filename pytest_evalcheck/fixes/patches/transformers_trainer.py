"""Patches of transformers' Trainer, losses, pipelines, data and generation."""

from __future__ import annotations

from pytest_evalcheck.fixes.patches.patch import Patch, append, put_after, put_before, replace

_SIZES = 'sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}'
_LETTERS = f"""
            import torch
            import transformers
            from tokenizers import Regex, Tokenizer, models, pre_tokenizers
            from transformers import BertConfig, PreTrainedTokenizerFast, pipeline

            torch.manual_seed(0)
            {_SIZES}
            letters = Tokenizer(models.WordLevel({{"<pad>": 0, "a": 1, "_": 2}}, unk_token="<pad>"))
            letters.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
            tokenizer = PreTrainedTokenizerFast(tokenizer_object=letters, pad_token="<pad>", mask_token="_")
            config = BertConfig(vocab_size=11, initializer_range=0.5, **sizes)

            def made(task, kind):
                model = getattr(transformers, kind)(config).eval()
                return pipeline(task, model=model, tokenizer=tokenizer, device="cpu")
"""
"""The head of a test: a tokenizer of letters, and pipelines of BERT."""

_ONE_BY_ONE = append(
    """\
def get_iterator(self, inputs, num_workers, batch_size, *params):
    # `_forward` takes one input: batches of several are taken apart.
    return super().get_iterator(inputs, num_workers, 1, *params)"""
)

_ROWS_OF_LABELS = put_before(
    "if use_cache:",
    """\
encoded = None if encoder_outputs is None else encoder_outputs[0]
given = next((one for one in (input_ids, inputs_embeds, encoded) if one is not None), labels)
if labels.shape[0] != given.shape[0]:
    raise ValueError(f"Expected labels of {given.shape[0]} rows, but got {labels.shape[0]}.")""",
)

PATCHES: tuple[Patch, ...] = (
    Patch(
        mends=("transformers-pipeline-leaves-dropout-on",),
        says="a pipeline runs its model in evaluation mode, and leaves the model in the mode that it had",
        edits={
            "transformers.pipelines.base:Pipeline.forward": (
                replace(
                    "model_outputs = self._forward(model_inputs, **forward_params)",
                    """\
# Models of other libraries are no modules of torch
modules = self.model.modules() if isinstance(self.model, torch.nn.Module) else ()
training = [module for module in modules if module.training]
for module in training:
    module.training = False
try:
    model_outputs = self._forward(model_inputs, **forward_params)
finally:
    for module in training:
        module.training = True""",
                ),
            )
        },
        test=_LETTERS
        + """
            pipe = made("text-classification", "BertForSequenceClassification")
            pipe.model.train()
            pipe.model.bert.embeddings.eval()
            assert len({pipe("a")[0]["score"] for _ in range(3)}) == 1
            assert pipe.model.training and not pipe.model.bert.embeddings.training
        """,
    ),
    Patch(
        mends=("transformers-fill-mask-of-one-text",),
        says="fill-mask gives a list for a list of one text",
        edits={
            "transformers.pipelines.fill_mask:FillMaskPipeline.__call__": (
                replace("if isinstance(inputs, list) and len(inputs) == 1:\n    return outputs[0]\nreturn", "return"),
            )
        },
        test=_LETTERS
        + """
            pipe = made("fill-mask", "BertForMaskedLM")
            assert pipe(["a_"]) == [pipe("a_")]
        """,
    ),
    Patch(
        mends=("transformers-pipeline-features-of-padding",),
        says="feature-extraction cuts the rows of a text that only fill up its batch",
        edits={
            "transformers.pipelines.feature_extraction:FeatureExtractionPipeline.preprocess": (
                replace(
                    "return model_inputs",
                    """\
rows, length = model_inputs["input_ids"].shape
model_inputs["length"] = model_inputs["input_ids"].new_full((rows,), length)
return model_inputs""",
                ),
            ),
            "transformers.pipelines.feature_extraction:FeatureExtractionPipeline._forward": (
                put_before("model_outputs = self.model", 'lengths = model_inputs.pop("length", None)'),
                put_before(
                    "return model_outputs",
                    """\
padded = model_inputs["input_ids"].shape[1] if lengths is not None else None
if hasattr(model_outputs, "keys") and model_outputs[0].ndim > 2 and model_outputs[0].shape[1] == padded:
    model_outputs["padding"] = padded - lengths""",
                ),
            ),
            "transformers.pipelines.feature_extraction:FeatureExtractionPipeline.postprocess": (
                put_before(
                    "if return_tensors:",
                    """\
features = model_outputs[0]
if hasattr(model_outputs, "keys") and "padding" in model_outputs:
    padding, length = int(model_outputs["padding"][0]), features.shape[1]
    left = self.tokenizer.padding_side == "left"
    features = features[:, padding:] if left else features[:, : length - padding]""",
                ),
                replace("return model_outputs[0].tolist()", "return features.tolist()"),
                replace("if return_tensors:\nreturn model_outputs[0]", "if return_tensors:\n    return features"),
            ),
        },
        test=_LETTERS
        + """
            pipe = made("feature-extraction", "BertModel")
            for side in ("right", "left"):
                tokenizer.padding_side = side
                found = pipe(["a", "aa_"], batch_size=2, return_tensors=True)
                assert [one.shape for one in found] == [(1, 1, 8), (1, 3, 8)]
            tokenizer.padding_side = "right"
            torch.testing.assert_close(torch.tensor(pipe(["a", "aa_"], batch_size=2)[0]), torch.tensor(pipe("a")))
        """,
    ),
    Patch(
        mends=("transformers-speech-of-padding",),
        says="automatic-speech-recognition decodes the places of a sound, and not those of its padding",
        edits={
            "transformers.pipelines.automatic_speech_recognition:AutomaticSpeechRecognitionPipeline._forward": (
                put_before(
                    "if stride is not None:\n# Send stride to `postprocess`.",
                    """\
length_of = getattr(self.model, "_get_feat_extract_output_lengths", None)
length_of = length_of or getattr(self.model, "_get_subsampling_output_length", None)
if attention_mask is not None and length_of is not None:
    out["num_places"] = length_of(attention_mask.sum(-1))""",
                ),
            ),
            "transformers.pipelines.automatic_speech_recognition:AutomaticSpeechRecognitionPipeline.postprocess": (
                put_before(
                    'stride = outputs.get("stride", None)',
                    """\
num_places = outputs.pop("num_places", None)
if num_places is not None:
    items = items[:, : int(num_places)]""",
                ),
            ),
        },
        test="""
            import json
            import tempfile

            import numpy
            import torch
            from transformers import Wav2Vec2Config, Wav2Vec2CTCTokenizer, Wav2Vec2FeatureExtractor, Wav2Vec2ForCTC
            from transformers import pipeline

            torch.manual_seed(0)
            sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}
            layers = {"conv_dim": (8, 8), "conv_stride": (2, 2), "conv_kernel": (3, 3), "num_feat_extract_layers": 2}
            around = {"num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2, "feat_extract_norm": "layer"}
            model = Wav2Vec2ForCTC(Wav2Vec2Config(vocab_size=6, **sizes, **layers, **around)).eval()
            with tempfile.NamedTemporaryFile("w") as file:
                json.dump({"<pad>": 0, "a": 1, "b": 2, "c": 3, "d": 4, "e": 5}, file)
                file.flush()
                special = {"bos_token": None, "eos_token": None, "unk_token": "<pad>", "word_delimiter_token": None}
                tokenizer = Wav2Vec2CTCTokenizer(file.name, **special)
            extractor = Wav2Vec2FeatureExtractor(do_normalize=False, return_attention_mask=True)
            parts = {"model": model, "tokenizer": tokenizer, "feature_extractor": extractor}
            pipe = pipeline("automatic-speech-recognition", device="cpu", **parts)
            rng = numpy.random.default_rng(0)
            sounds = [rng.standard_normal(size).astype("float32") for size in (16, 60)]
            assert pipe(sounds, batch_size=2) == pipe(sounds, batch_size=1)
        """,
    ),
    Patch(
        mends=("transformers-audio-of-padding",),
        says="text-to-audio takes texts one by one where the model would speak their padding",
        edits={
            "transformers.pipelines.text_to_audio:TextToAudioPipeline": (
                append(
                    """\
def get_iterator(self, inputs, num_workers, batch_size, *params):
    # Where a text ends is lost in a batch of these models, and their decoders do not mask its padding.
    batch_size = batch_size if self.model.can_generate() else 1
    return super().get_iterator(inputs, num_workers, batch_size, *params)"""
                ),
            ),
        },
        test="""
            import json
            import tempfile

            import numpy
            import torch
            from transformers import VitsConfig, VitsModel, VitsTokenizer, pipeline

            torch.manual_seed(0)
            sizes = {"hidden_size": 8, "num_hidden_layers": 1, "ffn_dim": 8, "flow_size": 8, "spectrogram_bins": 9}
            layers = {f"{kind}_encoder_num_wavenet_layers": 1 for kind in ("prior", "posterior")}
            layers["prior_encoder_num_flows"] = 2
            durations = {"use_stochastic_duration_prediction": False, "duration_predictor_filter_channels": 8}
            sound = {"upsample_initial_channel": 8, "upsample_rates": [2, 2], "upsample_kernel_sizes": [4, 4]}
            residual = {"resblock_kernel_sizes": [3], "resblock_dilation_sizes": [[1]], "noise_scale": 0.0}
            config = VitsConfig(vocab_size=4, **sizes, **layers, **durations, **sound, **residual)
            with tempfile.NamedTemporaryFile("w") as file:
                json.dump({"<pad>": 0, "<unk>": 1, "a": 2, "b": 3}, file)
                file.flush()
                plain = {"phonemize": False, "normalize": False, "add_blank": False}
                tokenizer = VitsTokenizer(file.name, pad_token="<pad>", unk_token="<unk>", **plain)
            pipe = pipeline("text-to-audio", model=VitsModel(config).eval(), tokenizer=tokenizer, device="cpu")
            for alone, beside in zip(pipe(["a", "bab"]), pipe(["a", "bab"], batch_size=2)):
                numpy.testing.assert_allclose(alone["audio"], beside["audio"], rtol=1e-4, atol=1e-5)
        """,
    ),
    Patch(
        mends=("transformers-pipeline-batches-fail",),
        says="pipelines of documents, tables, pairs and decisions take batches of several inputs",
        edits={
            "transformers.pipelines.document_question_answering:"
            "DocumentQuestionAnsweringPipeline.postprocess_extractive_qa": (
                put_after(
                    'words = output["words"]',
                    """\
# In a batch there are places after those of the document.
length = len(output["p_mask"])
for key in ("start_logits", "end_logits", "attention_mask"):
    if output.get(key) is not None:
        output[key] = output[key][:, :length]""",
                ),
            ),
            "transformers.pipelines.table_question_answering:TableQuestionAnsweringPipeline": (_ONE_BY_ONE,),
            "transformers.pipelines.keypoint_matching:KeypointMatchingPipeline": (_ONE_BY_ONE,),
            "transformers.pipelines.decision:DecisionPipeline": (_ONE_BY_ONE,),
        },
        test="""
            import tempfile

            import pandas
            from tokenizers import Regex, Tokenizer, models, pre_tokenizers
            from transformers import LayoutLMConfig, LayoutLMForQuestionAnswering, PreTrainedTokenizerFast
            from transformers import TapasConfig, TapasForQuestionAnswering, TapasTokenizer, pipeline

            letters = Tokenizer(models.WordLevel({"<pad>": 0, "a": 1, "b": 2}, unk_token="<pad>"))
            letters.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
            parts = {"tokenizer": PreTrainedTokenizerFast(tokenizer_object=letters, pad_token="<pad>"), "device": "cpu"}
            sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
            model = LayoutLMForQuestionAnswering(LayoutLMConfig(vocab_size=3, **sizes)).eval()
            pipe = pipeline("document-question-answering", model=model, **parts, max_seq_len=8, doc_stride=2)
            words = ([("b", [0, 0, 10, 10])] * count for count in (1, 3))
            documents = [{"question": "a", "word_boxes": boxes} for boxes in words]
            for alone, beside in zip(pipe(documents), pipe(documents, batch_size=2)):
                assert [one["answer"] for one in alone] == [one["answer"] for one in beside]

            special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[EMPTY]", "a", "1"]
            with tempfile.NamedTemporaryFile("w") as file:
                file.write("\\n".join(special))
                file.flush()
                parts["tokenizer"] = TapasTokenizer(file.name)
            model = TapasForQuestionAnswering(TapasConfig(vocab_size=8, max_position_embeddings=64, **sizes)).eval()
            pipe = pipeline("table-question-answering", model=model, **parts)
            asked = [{"query": "a", "table": pandas.DataFrame({"a": ["1"]})}] * 2
            assert pipe(asked, batch_size=2) == pipe(asked)
        """,
        needs=("pandas",),
    ),
    Patch(
        mends=("transformers-mask-generation-batches-fail",),
        says="mask-generation takes the points of one picture after those of another where a batch size is given",
        edits={"transformers.pipelines.mask_generation:MaskGenerationPipeline": (_ONE_BY_ONE,)},
        test="""
            import torch
            from PIL import Image
            from transformers import SamConfig, SamImageProcessorPil, SamModel, pipeline

            torch.manual_seed(0)
            sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "mlp_dim": 16}
            picture = {"image_size": 32, "patch_size": 8}
            window = {"output_channels": 16, "window_size": 2, "global_attn_indexes": [0], "num_pos_feats": 8}
            heads = {"attention_downsample_rate": 1, "iou_head_hidden_dim": 8, "iou_head_depth": 2}
            config = SamConfig(
                vision_config={**sizes, **picture, **window},
                prompt_encoder_config={**picture, "hidden_size": 16, "mask_input_channels": 4},
                mask_decoder_config={**sizes, **heads},
            )
            edge, side = {"longest_edge": 32}, {"height": 32, "width": 32}
            resized = SamImageProcessorPil(size=edge, mask_size=edge, pad_size=side, mask_pad_size=side)
            # torchvision, which it asks for, is not needed here
            resized.post_process_for_mask_generation = lambda masks, scores, boxes, _: (masks, scores, [], boxes)
            pipe = pipeline("mask-generation", model=SamModel(config).eval(), image_processor=resized, device="cpu")
            pictures = [Image.new("RGB", (32, 32)), Image.new("RGB", (32, 32), "red")]
            options = {"points_per_crop": 2, "points_per_batch": 2, "pred_iou_thresh": -10, "stability_score_thresh": 0}
            alone, beside = (pipe(pictures, batch_size=size, **options) for size in (1, 2))
            assert [one["scores"].tolist() for one in alone] == [one["scores"].tolist() for one in beside]
        """,
        needs=("PIL",),
    ),
    Patch(
        mends=("transformers-list-of-pictures-and-texts-is-a-chat",),
        says="image-text-to-text takes a list of pictures with their texts",
        edits={
            "transformers.pipelines.image_text_to_text:ImageTextToTextPipeline.__call__": (
                replace(
                    "return isinstance(arg, (list, tuple, KeyDataset)) and isinstance(arg[0], (list, tuple, dict))",
                    """if not isinstance(arg, (list, tuple, KeyDataset)) or not isinstance(arg[0], (list, tuple, dict)):
    return False
return isinstance(arg[0], (list, tuple)) or not {"images", "text"} <= arg[0].keys()""",
                ),
            )
        },
        test="""
            from PIL import Image
            from tokenizers import Regex, Tokenizer, models, pre_tokenizers
            from transformers import CLIPImageProcessorPil, CLIPVisionConfig, LlamaConfig, LlavaConfig, LlavaProcessor
            from transformers import LlavaForConditionalGeneration, PreTrainedTokenizerFast, pipeline

            letters = Tokenizer(models.WordLevel({"<pad>": 0, "a": 1, "<image>": 2}, unk_token="<pad>"))
            letters.pre_tokenizer = pre_tokenizers.Split(Regex("<image>|."), "isolated")
            tokenizer = PreTrainedTokenizerFast(tokenizer_object=letters, pad_token="<pad>", padding_side="left")
            tokenizer.add_special_tokens({"additional_special_tokens": ["<image>"]})
            sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
            vision = CLIPVisionConfig(image_size=8, patch_size=4, **sizes)
            text = LlamaConfig(vocab_size=3, num_key_value_heads=2, **sizes)
            config = LlavaConfig(vision_config=vision, text_config=text, image_token_id=2, image_seq_length=4)
            pictures = CLIPImageProcessorPil(size={"height": 8, "width": 8}, do_center_crop=False)
            parts = {"patch_size": 4, "vision_feature_select_strategy": "default", "num_additional_image_tokens": 1}
            processor = LlavaProcessor(pictures, tokenizer, **parts)
            model = LlavaForConditionalGeneration(config).eval()
            pipe = pipeline("image-text-to-text", model=model, processor=processor, device="cpu", max_new_tokens=1)
            asked = [{"images": Image.new("RGB", (8, 8)), "text": "<image>a"}] * 2
            assert pipe(asked) == list(pipe(one for one in asked))
            try:
                pipe([{"content": "a"}])
            except ValueError as error:
                assert "role" in str(error)
        """,
        needs=("PIL",),
    ),
    Patch(
        mends=("transformers-table-answers-of-a-stream",),
        says="table-question-answering streams answers, and gives a list for a list of one table",
        edits={
            "transformers.pipelines.table_question_answering:TableQuestionAnsweringPipeline.__call__": (
                replace(
                    "if len(results) == 1:",
                    """\
is_list = pipeline_inputs is (args[0] if args else kwargs.get("table"))
if not is_list and len(results) == 1:""",
                ),
            )
        },
        test="""
            import tempfile

            import pandas
            from torch.utils.data import Dataset
            from transformers import TapasConfig, TapasForQuestionAnswering, TapasTokenizer, pipeline


            class Tables(Dataset):
                def __len__(self):
                    return 1

                def __getitem__(self, index):
                    return asked[index]


            words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[EMPTY]", "a", "1"]
            with tempfile.NamedTemporaryFile("w") as file:
                file.write("\\n".join(words))
                file.flush()
                tokenizer = TapasTokenizer(file.name)
            sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
            model = TapasForQuestionAnswering(TapasConfig(vocab_size=8, max_position_embeddings=64, **sizes)).eval()
            pipe = pipeline("table-question-answering", model=model, tokenizer=tokenizer, device="cpu")
            asked = [{"query": "a", "table": pandas.DataFrame({"a": ["1"]})}] * 2
            assert list(pipe(one for one in asked)) == pipe(asked)
            assert list(pipe(Tables())) == pipe(asked)[:1] == pipe(asked[:1]) == [pipe(**asked[0])]
        """,
        needs=("pandas",),
    ),
    Patch(
        mends=("transformers-pictures-of-unequal-sizes",),
        says="pipelines run the pictures of a batch one by one where their sizes differ",
        edits={
            "transformers.pipelines.base:pad_collate_fn": (
                put_before(
                    "padded = {}",
                    """for key in keys & {"pixel_values", "image"}:
    if len({tuple(getattr(item[key], "shape", ()))[1:] for item in items}) > 1:
        return items""",
                ),
            ),
            "transformers.pipelines.pt_utils:PipelineIterator.__init__": (
                put_after("self._loader_batch_data = None", "self._unjoined = []"),
            ),
            "transformers.pipelines.pt_utils:PipelineIterator.__next__": (
                put_before(
                    "item = next(self.iterator)",
                    "if self._unjoined:\n    return self.infer(self._unjoined.pop(0), **self.params)",
                ),
                put_after(
                    "item = next(self.iterator)",
                    """if self.loader_batch_size is not None and isinstance(item, list):
    # items of several sizes, which have no batch
    self._unjoined = item[1:]
    return self.infer(item[0], **self.params)""",
                ),
            ),
            "transformers.pipelines.pt_utils:PipelinePackIterator.__next__": (
                replace(
                    "processed = self.infer(next(self.iterator), **self.params)\n"
                    "if self.loader_batch_size is not None:",
                    """\
is_single = self.loader_batch_size is None or bool(self._unjoined)
item = self._unjoined.pop(0) if self._unjoined else next(self.iterator)
if not is_single and isinstance(item, list):  # items of several sizes, which have no batch
    self._unjoined, item, is_single = item[1:], item[0], True
processed = self.infer(item, **self.params)
if not is_single:""",
                ),
            ),
        },
        test="""
            import torch
            from PIL import Image
            from transformers import YolosConfig, YolosForObjectDetection, YolosImageProcessorPil, pipeline

            torch.manual_seed(0)
            sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
            config = YolosConfig(image_size=[16, 16], patch_size=8, num_detection_tokens=2, **sizes)
            processor = YolosImageProcessorPil(size={"shortest_edge": 16, "longest_edge": 32})
            parts = {"model": YolosForObjectDetection(config).eval(), "image_processor": processor}
            pipe = pipeline("object-detection", **parts, device="cpu", threshold=0.3)
            pictures = [Image.new("RGB", size) for size in [(16, 16)] * 3 + [(32, 16)] + [(16, 16)] * 3]
            assert pipe(pictures, batch_size=2) == pipe(pictures)
            assert list(map(len, pipe(pictures))) != [0] * 7
        """,
        needs=("PIL",),
    ),
    Patch(
        mends=(
            "transformers-eval-loss-of-batch-means",
            "transformers-eval-loss-times-ranks",
            "transformers-eval-loss-counts-fillers",
            "transformers-stream-last-batch-repeated",
            "transformers-stream-batch-repeated-by-worker",
        ),
        says="eval_loss weighs a batch by the labels that its loss is the mean of, on whatever rank or worker",
        edits={
            "transformers.trainer:Trainer.evaluation_loop": (
                put_after(
                    "all_losses = EvalLoopContainer(",
                    "all_weights = EvalLoopContainer(self.args.eval_do_concat_batches, padding_index=-100)",
                ),
                replace(
                    "losses = self.gather_function(losses.repeat(batch_size))",
                    """\
rows = batch_size
if observed_batch_size and self.accelerator.even_batches:
    rows = min(rows, observed_batch_size)  # of a stream, each worker has a last batch
counted, kept = self._leave_out_fillers(inputs, rows)
if counted is not inputs:
    losses = self.prediction_step(model, counted, True, ignore_keys=ignore_keys)[0]
weights = torch.zeros(rows, device=losses.device)
weights[:kept] = self._get_num_items_of_loss(counted, kept) / max(kept, 1)
all_weights.add(self.gather_function(weights))
losses = self.gather_function(losses.repeat(rows))""",
                ),
                put_after(
                    "losses = np.concatenate(all_losses)",
                    """\
weights = all_weights.get_arrays()
weights = np.concatenate(weights) if isinstance(weights, list) and weights else weights""",
                ),
                replace("losses = losses[finite]", "losses, weights = losses[finite], weights[finite]"),
                replace(
                    "losses.mean().item()",
                    "(np.average(losses, weights=weights) if weights.any() else losses.mean()).item()",
                ),
            ),
            "transformers.trainer:Trainer.prediction_step": (
                replace(
                    "num_items_in_batch = self._get_num_items_in_batch([inputs], self.args.device)",
                    """\
with self._loss_of_one_rank():
    num_items_in_batch = self._get_num_items_in_batch([inputs], self.args.device)""",
                ),
                replace(
                    "with self.compute_loss_context_manager(), cp_context():",
                    "with self._loss_of_one_rank(), self.compute_loss_context_manager(), cp_context():",
                ),
            ),
            "transformers.trainer:Trainer": (
                append(
                    """\
@contextlib.contextmanager
def _loss_of_one_rank(self):
    \"\"\"Do not scale losses for gradients that are averaged over ranks, except where ranks share a batch.\"\"\"
    average = self.args.average_tokens_across_devices
    is_shared = self.args.n_gpu > 1 or self.get_tp_size() * self.get_cp_size() * self.get_sp_size() > 1
    self.args.average_tokens_across_devices = average and is_shared
    try:
        yield
    finally:
        self.args.average_tokens_across_devices = average

def _leave_out_fillers(self, inputs, rows):
    \"\"\"The last batch without the rows that even out the ranks, and their number; one row where all do.\"\"\"
    state, world = self.accelerator.gradient_state, self.accelerator.num_processes
    are_rows = all(len(v) == rows for v in inputs.values() if isinstance(v, torch.Tensor) and v.ndim)
    if world == 1 or not state.end_of_dataloader or not 0 < state.remainder < rows * world or not are_rows:
        return inputs, rows
    kept = min(max(state.remainder - self.accelerator.process_index * rows, 0), rows)
    counted = dict(inputs)
    for key, value in inputs.items():
        size = len(value) if isinstance(value, list) or (isinstance(value, torch.Tensor) and value.ndim) else None
        counted[key] = value[: max(kept, 1)] if size == rows else value
    return counted, kept

def _get_num_items_of_loss(self, inputs, rows):
    \"\"\"The number of labels that the loss is the mean of, where it is known to be one over tokens, or of rows.\"\"\"
    model = unwrap_peft_model(self.accelerator.unwrap_model(self.model))
    shifts = self._loss_shifts_labels or type(model).__name__ in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values()
    kinds = ("ForMaskedLM", "ForTokenClassification", "ForConditionalGeneration")
    own = self.compute_loss_func is not None or self.label_smoother is not None
    labels = inputs.get("shift_labels", inputs.get("labels"))
    is_mean = own or shifts or getattr(model, "loss_type", None) in kinds
    if not is_mean or not isinstance(labels, torch.Tensor) or labels.is_floating_point():
        return rows
    if shifts and labels.ndim > 1 and "shift_labels" not in inputs:
        labels = labels[..., 1:]
    return int((labels != -100).sum())"""
                ),
            ),
        },
        test="""
            import tempfile

            import torch
            from torch.utils.data import IterableDataset
            from transformers import BertConfig, BertForTokenClassification, Trainer, TrainingArguments


            class Stream(IterableDataset):
                def __iter__(self):
                    return iter(rows)


            torch.manual_seed(0)
            sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
            model = BertForTokenClassification(BertConfig(vocab_size=11, initializer_range=0.5, **sizes)).eval()
            labels = torch.tensor([[0, 1, 1], [1, -100, -100], [0, -100, -100]])
            rows = [{"input_ids": torch.tensor([n + 1, 2, n]), "labels": labels[n]} for n in range(3)]
            with torch.no_grad():
                right = model(torch.stack([row["input_ids"] for row in rows]), labels=labels).loss.item()
            for data in (rows, Stream()):
                for size in (1, 2, 3):
                    options = {"accelerator_config": {"dispatch_batches": False}, "per_device_eval_batch_size": size}
                    silent = {"report_to": [], "use_cpu": True, "disable_tqdm": True}
                    args = TrainingArguments(tempfile.mkdtemp(), **options, **silent)
                    assert abs(Trainer(model, args).evaluate(data)["eval_loss"] - right) < 1e-5
        """,
        needs=("accelerate",),
    ),
    Patch(
        mends=("transformers-gpt2-counts-first-label",),
        says="the Trainer leaves the first label of a row out for causal models whose kind of loss has no name",
        edits={
            "transformers.trainer:Trainer.__init__": (
                put_after(
                    "self._loss_shifts_labels = LOSS_MAPPING.get(",
                    """\
causal = MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values()  # without a kind the loss is the causal one
if getattr(model_to_inspect, "loss_type", None) is None and type(model_to_inspect).__name__ in causal:
    self._loss_shifts_labels = True""",
                ),
            )
        },
        test="""
            import tempfile

            import torch
            from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

            torch.manual_seed(0)
            sizes = {"n_positions": 8, "n_embd": 8, "n_layer": 1, "n_head": 2, "bos_token_id": 0, "eos_token_id": 0}
            model = GPT2LMHeadModel(GPT2Config(vocab_size=11, **sizes)).eval()
            row = {"input_ids": torch.tensor([1, 2, 3]), "labels": torch.tensor([1, 2, 3])}
            with torch.no_grad():
                right = model(**{name: value[None] for name, value in row.items()}).loss.item()
            args = TrainingArguments(tempfile.mkdtemp(), report_to=[], use_cpu=True, disable_tqdm=True)
            assert abs(Trainer(model, args, eval_dataset=[row]).evaluate()["eval_loss"] - right) < 1e-5
        """,
        needs=("accelerate",),
    ),
    Patch(
        mends=("transformers-predictions-stay-grouped",),
        says="predict() gives predictions in the order of its data set where training groups samples by length",
        edits={
            "transformers.trainer:Trainer.get_test_dataloader": (
                replace("sampler_fn=self._get_eval_sampler", "sampler_fn=self._get_test_sampler"),
            ),
            "transformers.trainer:Trainer": (
                append(
                    """\
def _get_test_sampler(self, test_dataset):
    sampler = self._get_eval_sampler(test_dataset)
    return SequentialSampler(test_dataset) if isinstance(sampler, LengthGroupedSampler) else sampler"""
                ),
            ),
        },
        test="""
            import tempfile

            import torch
            from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

            sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
            model = BertForSequenceClassification(BertConfig(vocab_size=11, num_labels=5, **sizes))
            rows = [{"input_ids": [1] * length, "labels": number} for number, length in enumerate((2, 1, 5, 3, 4))]


            def padded(batch):
                ids = [torch.tensor(row["input_ids"]) for row in batch]
                labels = torch.tensor([row["labels"] for row in batch])
                return {"input_ids": torch.nn.utils.rnn.pad_sequence(ids, batch_first=True), "labels": labels}


            options = {"per_device_eval_batch_size": 2, "train_sampling_strategy": "group_by_length"}
            args = TrainingArguments(tempfile.mkdtemp(), report_to=[], use_cpu=True, disable_tqdm=True, **options)
            assert Trainer(model, args, data_collator=padded).predict(rows).label_ids.tolist() == [0, 1, 2, 3, 4]
        """,
        needs=("accelerate",),
    ),
    Patch(
        mends=("transformers-row-without-labels-fails",),
        says="MBart shifts labels of which none counts",
        edits={
            "transformers.models.mbart.modeling_mbart:shift_tokens_right": (
                replace(
                    "(prev_output_tokens.ne(pad_token_id).sum(dim=1) - 1)",
                    "(prev_output_tokens.ne(pad_token_id).sum(dim=1) - 1).clamp(min=0)",
                ),
            )
        },
        test="""
            import torch
            from transformers import MBartConfig, MBartForConditionalGeneration

            layers = {f"{part}_{what}": 1 for part in ("encoder", "decoder") for what in ("layers", "attention_heads")}
            model = MBartForConditionalGeneration(MBartConfig(vocab_size=40, d_model=16, **layers)).eval()
            ids, labels = torch.tensor([[5, 6], [7, 8]]), torch.tensor([[9, 2], [-100, -100]])
            torch.testing.assert_close(model(ids, labels=labels).loss, model(ids[:1], labels=labels[:1]).loss)
        """,
    ),
    Patch(
        mends=("transformers-fewer-labels-are-scored",),
        says="LED, MVP and TAPAS refuse labels of another number of rows",
        edits={
            "transformers.models.led.modeling_led:LEDForConditionalGeneration.forward": (_ROWS_OF_LABELS,),
            "transformers.models.mvp.modeling_mvp:MvpForConditionalGeneration.forward": (_ROWS_OF_LABELS,),
            "transformers.models.tapas.modeling_tapas:TapasForQuestionAnswering.forward": (
                put_before(
                    "is_supervised = not",
                    """\
if labels.shape != logits.shape:
    raise ValueError(f"Expected labels of the shape {tuple(logits.shape)}, but got {tuple(labels.shape)}.")""",
                ),
            ),
        },
        test="""
            import torch
            from transformers import LEDConfig, LEDForConditionalGeneration, MvpConfig, MvpForConditionalGeneration

            ids, labels = torch.tensor([[3, 4, 5, 6], [5, 6, 7, 8]]), torch.tensor([[9, 8, 7]])
            sizes = {f"{part}_{what}": 1 for part in ("encoder", "decoder") for what in ("layers", "attention_heads")}
            sizes |= {"vocab_size": 40, "d_model": 16}
            models = (
                LEDForConditionalGeneration(LEDConfig(attention_window=4, **sizes)),
                MvpForConditionalGeneration(MvpConfig(**sizes)),
            )
            for model in models:
                model.eval()(ids[:1], labels=labels)
                model(inputs_embeds=model.get_input_embeddings()(ids[:1]), labels=labels)
                encoded = model.get_encoder()(ids[:1])
                model(encoder_outputs=encoded, attention_mask=torch.ones_like(ids[:1]), labels=labels)
                try:
                    model(ids, labels=labels)
                except ValueError:
                    continue
                raise RuntimeError("labels of one row were scored for two")
        """,
    ),
    Patch(
        mends=("transformers-fewer-labels-pick-rows",),
        says="DeBERTa refuses labels of another number of rows",
        edits={
            f"transformers.models.{name}.modeling_{name}:{kind}ForSequenceClassification.forward": (
                put_before(
                    "if self.config.problem_type is None:",
                    """\
if labels.size(0) != logits.size(0):
    raise ValueError(f"Expected labels of {logits.size(0)} rows, but got {labels.size(0)}.")""",
                ),
            )
            for name, kind in (("deberta", "Deberta"), ("deberta_v2", "DebertaV2"))
        },
        test="""
            import torch
            from transformers import DebertaConfig, DebertaForSequenceClassification
            from transformers import DebertaV2Config, DebertaV2ForSequenceClassification

            sizes = {"vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
            ids = torch.tensor([[3, 4], [5, 6]])
            models = (
                DebertaForSequenceClassification(DebertaConfig(num_labels=3, intermediate_size=32, **sizes)),
                DebertaV2ForSequenceClassification(DebertaV2Config(num_labels=3, intermediate_size=32, **sizes)),
            )
            for model in models:
                model.eval()(ids, labels=torch.tensor([0, -100]))
                try:
                    model(ids, labels=torch.tensor([0]))
                except ValueError:
                    continue
                raise RuntimeError("one label was scored for two rows")
        """,
    ),
)
