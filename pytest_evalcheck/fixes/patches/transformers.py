"""Patches of transformers: of single models and of caches."""

from __future__ import annotations

from pytest_evalcheck.fixes.patches import transformers_trainer
from pytest_evalcheck.fixes.patches.patch import Library, Patch, append, body, put_after, put_before, replace

_MODELS = "transformers.models"

_CLAMPED = (
    ("canine", "CanineForQuestionAnswering", "ignored_index"),
    ("luke", "LukeForQuestionAnswering", "ignored_index"),
    ("markuplm", "MarkupLMForQuestionAnswering", "ignored_index"),
    ("rembert", "RemBertForQuestionAnswering", "ignored_index"),
    ("splinter", "SplinterForQuestionAnswering", "ignored_index"),
    ("splinter", "SplinterForPreTraining", "max(0, sequence_length - 1)"),
)
"""Heads that clamp the positions of answers, with the largest position."""

_BIRDS = {
    "BigBird": f"{_MODELS}.big_bird.modeling_big_bird",
    "BigBirdPegasus": f"{_MODELS}.bigbird_pegasus.modeling_bigbird_pegasus",
}
"""The modules of models whose attention is sparse, by the start of the names of their classes."""

_DECODERS = (
    ("bigbird_pegasus", "BigBirdPegasusDecoder"),
    ("blenderbot", "BlenderbotDecoder"),
    ("blenderbot_small", "BlenderbotSmallDecoder"),
    ("m2m_100", "M2M100Decoder"),
    ("marian", "MarianDecoder"),
    ("mbart", "MBartDecoder"),
    ("pegasus", "PegasusDecoder"),
    ("pegasus_x", "PegasusXDecoder"),
    ("speech_to_text", "Speech2TextDecoder"),
    ("whisper", "WhisperDecoder"),
)
"""Decoders that make ids of labels, and say of neither ids nor embeddings that they are both there."""

_ROWS = """\
def batch_repeat_interleave(self, repeats: int) -> None:
    \"\"\"Repeat the cache `repeats` times in the batch dimension.\"\"\"
    if self.get_seq_length() > 0:
        rows = torch.arange(self.keys.shape[0], device=self.keys.device)
        self.reorder_cache(rows.repeat_interleave(repeats))

def batch_select_indices(self, indices: torch.Tensor) -> None:
    \"\"\"Only keep the `indices` in the batch dimension of the cache.\"\"\"
    if self.get_seq_length() > 0:
        indices = torch.as_tensor(indices)
        self.reorder_cache(torch.arange(self.keys.shape[0], device=indices.device)[indices])"""
"""Methods of a layer whose `reorder_cache` knows all its states."""

_MAMBA_STATE = """\
if recurrent_state is not None:
    # The scan starts from an empty state: what is left of the state of before is added to what it gives.
    bias = 0 if time_proj_bias is None else time_proj_bias[:, None]
    decay = torch.exp(A[:, None] * F.softplus(time_step.float() + bias).cumsum(-1)[..., None])
    left = decay * recurrent_state.float()[:, :, None]
    added = (left * C.float()[:, None]).sum(-1) * F.silu(gate.float())
    scan_output, final_state = scan_output + added.to(scan_output.dtype), final_state + left[:, :, -1]"""
"""Statements of a mixer after its scan, for texts of several tokens that go on."""

LIBRARY = Library(
    "transformers",
    "5.23.0",
    "5.24",
    source="src/",
    patches=(
        Patch(
            mends=("transformers-rwkv-combines-rows",),
            says="RWKV does not combine the rows of a batch whose rows are one token long",
            edits={
                f"{_MODELS}.rwkv.modeling_rwkv:{function}": (
                    replace(f"shifted = {state}[:, :, self.layer_id]", f"shifted = {state}[:, None, :, self.layer_id]"),
                )
                for function, state in (
                    ("RwkvSelfAttention.extract_key_value", "state[1]"),
                    ("RwkvFeedForward.forward", "state[0]"),
                )
            },
            test="""
                import torch
                from transformers import RwkvConfig, RwkvForCausalLM

                torch.manual_seed(0)
                model = RwkvForCausalLM(RwkvConfig(vocab_size=9, hidden_size=8, num_hidden_layers=2)).eval()
                for weight in model.parameters():
                    torch.nn.init.normal_(weight, std=0.3)
                ids = torch.tensor([[3], [7]])
                with torch.no_grad():
                    first = model(ids)
                    assert first.logits.shape == (2, 1, 9)
                    second = model(ids, state=first.state).logits
                    expected = model(ids.repeat(1, 2)).logits
                torch.testing.assert_close(torch.cat([first.logits, second], 1), expected)
            """,
        ),
        Patch(
            mends=("transformers-bamba-positions-from-zero",),
            says="Bamba counts positions that are not given from the length of its cache",
            edits={
                f"{_MODELS}.bamba.modeling_bamba:BambaModel.forward": (
                    replace(
                        "position_ids = torch.arange(hidden_states.shape[1], device=hidden_states.device).unsqueeze(0)",
                        "past_seen_tokens = past_key_values.get_seq_length() if past_key_values is not None else 0\n"
                        "position_ids = torch.arange(hidden_states.shape[1], device=hidden_states.device)\n"
                        "position_ids = (position_ids + past_seen_tokens).unsqueeze(0)",
                    ),
                )
            },
            test="""
                import torch
                from transformers import BambaConfig, BambaForCausalLM

                torch.manual_seed(0)
                sizes = {"hidden_size": 16, "intermediate_size": 16, "num_attention_heads": 2, "num_key_value_heads": 2}
                sizes |= {"mamba_n_heads": 2, "mamba_d_head": 16, "mamba_d_state": 4, "mamba_n_groups": 1}
                config = BambaConfig(vocab_size=9, num_hidden_layers=2, attn_layer_indices=[1], **sizes)
                model = BambaForCausalLM(config).eval()
                for weight in model.parameters():
                    torch.nn.init.normal_(weight, std=0.5)
                ids = torch.tensor([[5, 6, 7, 8]])
                with torch.no_grad():
                    cache = model(ids[:, :3], use_cache=True).past_key_values
                    last = model(ids[:, 3:], past_key_values=cache, use_cache=True).logits
                    torch.testing.assert_close(last, model(ids).logits[:, 3:], rtol=1e-3, atol=1e-3)
            """,
        ),
        Patch(
            mends=("transformers-fsmt-not-causal",),
            says="the decoder of FSMT is causal with a cache, and without source ids, too",
            edits={
                f"{_MODELS}.fsmt.modeling_fsmt:FSMTModel.forward": (
                    put_before(
                        "if encoder_outputs is None:",
                        """\
if causal_mask is None:
    inputs = decoder_input_ids if decoder_input_ids is not None else decoder_inputs_embeds
    past_length = past_key_values.get_seq_length() if past_key_values is not None else 0
    length, dtype = inputs.shape[1], self.decoder.embed_tokens.weight.dtype
    causal_mask = torch.full((length, past_length + length), float("-inf"), dtype=dtype, device=inputs.device)
    causal_mask = causal_mask.triu(past_length + 1)""",
                    ),
                )
            },
            test="""
                import torch
                from transformers import FSMTConfig, FSMTForConditionalGeneration

                torch.manual_seed(0)
                sizes = {f"{part}_{size}": 2 for part in ("encoder", "decoder") for size in ("layers", "ffn_dim")}
                sizes |= {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "d_model": 8}
                config = FSMTConfig(langs=["en", "de"], src_vocab_size=20, tgt_vocab_size=20, **sizes)
                model = FSMTForConditionalGeneration(config).eval()
                for weight in model.parameters():
                    torch.nn.init.normal_(weight, std=0.5)
                source, target = torch.tensor([[5, 6, 7]]), torch.tensor([[2, 8, 9, 10]])
                with torch.no_grad():
                    expected = model(source, decoder_input_ids=target, use_cache=False).logits
                    found = model(source, decoder_input_ids=target, use_cache=True).logits
                    torch.testing.assert_close(found, expected)
                    encoded = model.model.encoder(source, return_dict=True)
                    found = model(encoder_outputs=encoded, decoder_input_ids=target, use_cache=False).logits
                    torch.testing.assert_close(found, expected)
            """,
        ),
        Patch(
            mends=("transformers-prophetnet-other-biases",),
            says="the predicting stream of ProphetNet adds the position biases of its own positions and heads",
            edits={
                f"{_MODELS}.prophetnet.modeling_prophetnet"
                ":ProphetNetNgramSelfAttention.get_predict_relative_pos_embeddings": (
                    replace(
                        "rel_pos_embeddings = rel_pos_embeddings.permute(0, 2, 1, 4, 3)\n"
                        "# [batch_size * ngram * sequence_length * num_heads, num_buckets]",
                        "rel_pos_embeddings = rel_pos_embeddings.permute(0, 1, 4, 2, 3)\n"
                        "# [batch_size * ngram * num_heads * sequence_length, num_buckets]",
                    ),
                )
            },
            test="""
                import torch
                from transformers import ProphetNetConfig, ProphetNetForConditionalGeneration

                torch.manual_seed(0)
                parts = ("encoder", "decoder")
                sizes = {f"num_{part}_{what}": 2 for part in parts for what in ("layers", "attention_heads")}
                config = ProphetNetConfig(vocab_size=9, hidden_size=8, pad_token_id=0, **sizes)
                model = ProphetNetForConditionalGeneration(config).eval()
                for weight in model.parameters():
                    if weight.dim() > 1:
                        torch.nn.init.normal_(weight, std=0.5)
                ids = torch.tensor([[1, 8, 7]])
                with torch.no_grad():
                    whole = model(ids, decoder_input_ids=ids).logits
                    torch.testing.assert_close(model(ids, decoder_input_ids=ids[:, :2]).logits, whole[:, :2])
            """,
        ),
        Patch(
            mends=("transformers-lightglue-exchanges-pairs",),
            says="LightGlue puts results back to the pairs that they belong to",
            edits={
                f"{_MODELS}.lightglue.modeling_lightglue:LightGlueForKeypointMatching._concat_early_stopped_outputs": (
                    replace(
                        "ids = torch.arange(early_stops_indices.shape[0])\n"
                        "order_indices = early_stops_indices[ids]\n"
                        "early_stops_indices = early_stops_indices[order_indices]",
                        "early_stops_indices = early_stops_indices.argsort()",
                    ),
                ),
                f"{_MODELS}.lightglue.modeling_lightglue:LightGlueForKeypointMatching._match_image_pair": (
                    replace(
                        "early_stopped_pairs = torch.ones(batch_size, dtype=torch.bool)",
                        "early_stopped_pairs = torch.ones_like(num_points_per_pair, dtype=torch.bool)",
                    ),
                ),
                f"{_MODELS}.lightglue.modeling_lightglue:LightGlueForKeypointMatching._do_final_keypoint_pruning": (
                    replace(
                        "_matches = torch.full((batch_size // 2, 2, num_keypoints), -1,",
                        "# The place after the last one is that of padding, of index -1.\n"
                        "_matches = torch.full((batch_size // 2, 2, num_keypoints + 1), -1,",
                    ),
                    replace(
                        "(batch_size // 2, 2, num_keypoints), device=indices.device, dtype=matching_scores.dtype",
                        "(batch_size // 2, 2, num_keypoints + 1), device=indices.device, dtype=matching_scores.dtype",
                    ),
                    replace(
                        "return _matches, _matching_scores", "return _matches[..., :-1], _matching_scores[..., :-1]"
                    ),
                ),
            },
            test="""
                import torch
                from transformers import LightGlueForKeypointMatching

                order = [2, 3, 0, 1]  # the second pair was done first
                rows = [torch.tensor([row]) for row in order]
                indices = [torch.tensor(row) for row in order]
                for found in LightGlueForKeypointMatching._concat_early_stopped_outputs(None, indices, *[rows] * 4):
                    assert found.flatten().tolist() == [0, 1, 2, 3]
                indices, matches = torch.tensor([[0, 1], [1, -1]]), torch.tensor([[-1, 0], [1, -1]])
                found = LightGlueForKeypointMatching._do_final_keypoint_pruning(None, indices, matches, matches > 0, 2)
                assert found[0].tolist() == [[[-1, 1], [-1, 1]]]
            """,
        ),
        Patch(
            mends=("transformers-lightglue-pair-without-points",),
            says="a pair of pictures without points is done in the first layer of LightGlue",
            edits={
                f"{_MODELS}.lightglue.modeling_lightglue:LightGlueForKeypointMatching._get_early_stopped_image_pairs": (
                    replace(".sum(dim=1) / num_points", ".sum(dim=1) / num_points.clamp(min=1)"),
                ),
                f"{_MODELS}.lightglue.modeling_lightglue:LightGlueMatchAssignmentLayer.forward": (
                    put_before(
                        "return scores",
                        "if mask is not None:  # padding matches nothing\n"
                        "    scores[:, :-1, :-1].masked_fill_(mask == 0, torch.finfo(scores.dtype).min)",
                    ),
                ),
            },
            test="""
                import torch
                from transformers import LightGlueConfig, LightGlueForKeypointMatching, SuperPointConfig

                torch.manual_seed(6)
                sizes = {"encoder_hidden_sizes": [8] * 4, "decoder_hidden_size": 8, "descriptor_decoder_dim": 8}
                options = {"keypoint_threshold": 1 / 64, "border_removal_distance": 0, "nms_radius": 1}
                points = SuperPointConfig(initializer_range=0.5, **sizes, **options)
                sizes = {"descriptor_dim": 8, "num_hidden_layers": 6, "num_attention_heads": 2, "intermediate_size": 16}
                options = {"depth_confidence": 0.5, "width_confidence": 0.5, "filter_threshold": 0.0}
                config = LightGlueConfig(keypoint_detector_config=points, initializer_range=0.5, **sizes, **options)
                model = LightGlueForKeypointMatching(config).eval().double()
                pictures = {"dtype": torch.float64, "size": (1, 2, 3, 8, 8)}
                with torch.no_grad():
                    found = model(torch.cat([torch.zeros(**pictures), torch.rand(**pictures)]))
                assert (found.matches[0] == -1).all()
            """,
        ),
        Patch(
            mends=("transformers-superglue-matches-padding",),
            says="SuperGlue transports the points of a pair, not the padding of its batch",
            edits={
                f"{_MODELS}.superglue.modeling_superglue:log_sinkhorn_iterations": (
                    replace(
                        "log_v_scaling = torch.zeros_like(log_target_distribution)",
                        "log_v_scaling = log_target_distribution.masked_fill(log_target_distribution.isfinite(), 0)",
                    ),
                ),
                f"{_MODELS}.superglue.modeling_superglue:log_optimal_transport": (
                    replace(
                        "one_tensor = scores.new_tensor(1)\n"
                        "num_rows_tensor, num_columns_tensor = (num_rows * one_tensor).to(scores), "
                        "(num_columns * one_tensor).to(scores)",
                        """\
# Padding, of which all scores are the smallest number, is not transported.
is_pair = scores != torch.finfo(scores.dtype).min
is_row, is_column = is_pair.any(2), is_pair.any(1)
num_rows_tensor = is_row.sum(1, keepdim=True).clamp(min=1).to(scores)
num_columns_tensor = is_column.sum(1, keepdim=True).clamp(min=1).to(scores)""",
                    ),
                    replace(
                        """\
log_source_distribution = torch.cat(
    [log_normalization.expand(num_rows), num_columns_tensor.log()[None] + log_normalization]
)
log_target_distribution = torch.cat(
    [log_normalization.expand(num_columns), num_rows_tensor.log()[None] + log_normalization]
)
log_source_distribution, log_target_distribution = (
    log_source_distribution[None].expand(batch_size, -1),
    log_target_distribution[None].expand(batch_size, -1),
)""",
                        """\
log_source_distribution = torch.where(is_row, log_normalization, float("-inf"))
log_target_distribution = torch.where(is_column, log_normalization, float("-inf"))
log_source_distribution = torch.cat([log_source_distribution, num_columns_tensor.log() + log_normalization], 1)
log_target_distribution = torch.cat([log_target_distribution, num_rows_tensor.log() + log_normalization], 1)""",
                    ),
                    replace(
                        "log_optimal_transport_matrix - log_normalization ",
                        "log_optimal_transport_matrix - log_normalization.unsqueeze(2) ",
                    ),
                ),
            },
            test="""
                import torch
                from transformers.models.superglue.modeling_superglue import log_optimal_transport

                torch.manual_seed(0)
                scores, bin_score = torch.randn(1, 2, 3), torch.ones(1)
                padded = torch.nn.functional.pad(scores, (0, 1, 0, 2), value=torch.finfo(scores.dtype).min)
                expected = log_optimal_transport(scores, bin_score, iterations=5)
                found = log_optimal_transport(padded, bin_score, iterations=5)
                torch.testing.assert_close(found[:, :2, :3], expected[:, :2, :3])
                assert (found[:, 2:4, 3:4].exp() == 0).all()
            """,
        ),
        Patch(
            mends=("transformers-inputs-scaled-in-place",),
            says="CTRL scales embeddings in a tensor of its own",
            edits={
                f"{_MODELS}.ctrl.modeling_ctrl:CTRLModel.forward": (
                    replace(
                        "inputs_embeds *= np.sqrt(self.d_model_size)",
                        "inputs_embeds = inputs_embeds * np.sqrt(self.d_model_size)",
                    ),
                )
            },
            test="""
                import torch
                from transformers import CTRLConfig, CTRLModel

                model = CTRLModel(CTRLConfig(vocab_size=9, n_embd=4, dff=4, n_layer=1, n_head=2)).eval()
                given = torch.ones(1, 1, 4)
                with torch.no_grad():
                    model(inputs_embeds=given)
                assert (given == 1).all()
            """,
        ),
        Patch(
            mends=("transformers-positions-clamped-in-place",),
            says="heads for question answering clamp positions of answers in tensors of their own",
            edits={
                f"{_MODELS}.{module}.modeling_{module}:{head}.forward": tuple(
                    replace(
                        f"{which}_positions.clamp_(0, {largest})",
                        f"{which}_positions = {which}_positions.clamp(0, {largest})",
                    )
                    for which in ("start", "end")
                )
                for module, head, largest in _CLAMPED
            },
            test="""
                import torch
                from transformers import RemBertConfig, RemBertForQuestionAnswering
                from transformers import SplinterConfig, SplinterForPreTraining, SplinterForQuestionAnswering

                sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
                splinter = SplinterConfig(vocab_size=9, question_token_id=4, **sizes)
                models = [(SplinterForPreTraining(splinter), {"question_positions": torch.tensor([[0]])})]
                models += [(SplinterForQuestionAnswering(splinter), {})]
                rembert = RemBertConfig(vocab_size=9, input_embedding_size=8, **sizes)
                models += [(RemBertForQuestionAnswering(rembert), {})]
                for model, more in models:
                    starts, ends = torch.tensor([[9]]), torch.tensor([[-1]])
                    model(torch.tensor([[4, 5, 6]]), start_positions=starts, end_positions=ends, **more)
                    assert (starts, ends) == (9, -1)
            """,
        ),
        Patch(
            mends=("transformers-tapas-of-several-columns",),
            says="TAPAS of several columns predicts the logits that its loss is computed of",
            edits={
                f"{_MODELS}.tapas.modeling_tapas:TapasForQuestionAnswering.forward": (
                    replace(
                        """\
# if no label ids are provided, set them to zeros in order to properly compute logits
labels = torch.zeros_like(logits)
_, logits = _single_column_cell_selection_loss(
    logits, column_logits, labels, cell_index, col_index, cell_mask
)""",
                        """\
if self.config.average_logits_per_cell:
    logits_per_cell, _ = reduce_mean(logits, cell_index)
    logits = gather(logits_per_cell, cell_index)
if self.config.select_one_column:
    # if no label ids are provided, set them to zeros in order to properly compute logits
    labels = torch.zeros_like(logits)
    _, logits = _single_column_cell_selection_loss(
        logits, column_logits, labels, cell_index, col_index, cell_mask
    )""",
                    ),
                )
            },
            test="""
                import torch
                from transformers import TapasConfig, TapasForQuestionAnswering

                sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
                ids, places = torch.tensor([[2, 4, 3, 5]]), torch.zeros(1, 4, 7, dtype=torch.int64)
                for average in (False, True):
                    options = {"select_one_column": False, "average_logits_per_cell": average}
                    model = TapasForQuestionAnswering(TapasConfig(vocab_size=6, **options, **sizes)).eval()
                    given = {"input_ids": ids, "token_type_ids": places}
                    expected = model(**given, labels=torch.zeros(1, 4)).logits
                    torch.testing.assert_close(model(**given).logits, expected)
            """,
        ),
        Patch(
            mends=("transformers-tapas-averages-padding",),
            says="TAPAS does not average padding with the question",
            edits={
                f"{_MODELS}.tapas.modeling_tapas:TapasForQuestionAnswering.forward": (
                    put_before(
                        "row_index = IndexMap(",
                        """\
row_indices = torch.min(row_ids, torch.as_tensor(self.config.max_num_rows - 1, device=row_ids.device))
if attention_mask is not None:
    # Padding is in a row of its own: the first one has the question.
    row_indices = row_indices.masked_fill(attention_mask == 0, self.config.max_num_rows)""",
                    ),
                    replace(
                        """\
indices=torch.min(row_ids, torch.as_tensor(self.config.max_num_rows - 1, device=row_ids.device)),
num_segments=self.config.max_num_rows,""",
                        "indices=row_indices,\nnum_segments=self.config.max_num_rows + 1,",
                    ),
                )
            },
            test="""
                import torch
                from transformers import TapasConfig, TapasForQuestionAnswering

                torch.manual_seed(0)
                sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
                options = {"allow_empty_column_selection": True, "initializer_range": 0.5}
                model = TapasForQuestionAnswering(TapasConfig(vocab_size=6, **options, **sizes)).eval()
                losses = []
                for padding in (0, 3):
                    ids = torch.tensor([[2, 4, 3, 5] + [0] * padding])  # a question of two tokens, and two cells
                    places = torch.zeros(1, 4 + padding, 7, dtype=torch.int64)
                    places[0, 2:4, 1] = torch.tensor([1, 2])  # their columns
                    places[0, 2:4, 2] = 1  # their row
                    labels = torch.tensor([[0.0, 0.0, 1.0, 0.0] + [0.0] * padding])
                    with torch.no_grad():
                        given = {"input_ids": ids, "attention_mask": (ids != 0).long(), "token_type_ids": places}
                        losses.append(model(**given, labels=labels).loss)
                torch.testing.assert_close(*losses)
            """,
        ),
        Patch(
            mends=("transformers-roformer-summary-of-padding",),
            says="RoFormer chooses by the last token of a choice that is no padding",
            edits={
                f"{_MODELS}.roformer.modeling_roformer:RoFormerForMultipleChoice.forward": (
                    put_after(
                        "sequence_output = outputs[0]",
                        """\
if attention_mask is not None and self.sequence_summary.summary_type == "last":
    positions = torch.arange(attention_mask.shape[-1], device=attention_mask.device)
    last = (positions * (attention_mask != 0)).argmax(-1)
    sequence_output = sequence_output[torch.arange(len(last), device=last.device), last].unsqueeze(1)""",
                    ),
                )
            },
            test="""
                import torch
                from transformers import RoFormerConfig, RoFormerForMultipleChoice

                torch.manual_seed(0)
                sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
                model = RoFormerForMultipleChoice(RoFormerConfig(vocab_size=9, **sizes)).eval()
                for weight in model.parameters():
                    torch.nn.init.normal_(weight, std=0.5)
                ids = torch.tensor([[[5, 6], [7, 8]]])
                padded = torch.nn.functional.pad(ids, (0, 2))
                with torch.no_grad():
                    found = model(padded, attention_mask=(padded > 0).long()).logits
                    torch.testing.assert_close(found, model(ids).logits)
            """,
        ),
        Patch(
            mends=("transformers-git-mask-moved-by-picture",),
            says="GIT lengthens the mask of a cached step by the tokens of the pictures that its cache has",
            edits={
                f"{_MODELS}.git.modeling_git:GitModel.forward": (
                    put_before(
                        "extended_attention_mask = torch.ones(",
                        "length = int(past_key_values_length) + embedding_output.shape[1]",
                    ),
                    replace(
                        "(attention_mask.shape[0], self.encoder.layer[0].attention.self.image_patch_tokens),",
                        "(attention_mask.shape[0], max(0, length - attention_mask.shape[1])),",
                    ),
                )
            },
            test="""
                import torch
                from transformers import GitConfig, GitForCausalLM

                torch.manual_seed(0)
                sizes = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
                config = GitConfig(vision_config={**sizes, "image_size": 4, "patch_size": 2}, vocab_size=9, **sizes)
                model = GitForCausalLM(config).eval()
                for weight in model.parameters():
                    torch.nn.init.normal_(weight, std=0.5)
                ids, mask = torch.tensor([[0, 0, 3, 5]]), torch.tensor([[0, 0, 1, 1]])
                positions = torch.tensor([[0, 0, 0, 1]])
                with torch.no_grad():
                    given = {"attention_mask": mask[:, :3], "position_ids": positions[:, :3]}
                    cache = model(ids[:, :3], **given, use_cache=True).past_key_values
                    given = {"attention_mask": mask, "position_ids": positions[:, 3:]}
                    found = model(ids[:, 3:], **given, past_key_values=cache).logits
                    torch.testing.assert_close(found, model(ids[:, 2:]).logits[:, 1:])
            """,
        ),
        Patch(
            mends=("transformers-moshi-window-of-cache-only",),
            says="Moshi keeps to its window without a cache, too",
            edits={
                f"{_MODELS}.moshi.modeling_moshi:MoshiModel.forward": (
                    put_before(
                        "causal_mask = create_causal_mask(",
                        """\
from ...masking_utils import create_sliding_window_causal_mask

windowed = self.config.sliding_window is not None
mask_function = create_sliding_window_causal_mask if windowed else create_causal_mask""",
                    ),
                    replace("causal_mask = create_causal_mask(", "causal_mask = mask_function("),
                )
            },
            test="""
                import torch
                from transformers import MoshiConfig, MoshiForCausalLM

                torch.manual_seed(0)
                sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "ffn_dim": 8}
                model = MoshiForCausalLM(MoshiConfig(vocab_size=20, head_dim=4, sliding_window=2, **sizes)).eval()
                for weight in model.parameters():
                    torch.nn.init.normal_(weight, std=0.5)
                ids, cache = torch.tensor([[3, 5, 7, 9]]), None
                with torch.no_grad():
                    whole = model(ids, use_cache=False).logits
                    for i in range(4):
                        step = model(ids[:, [i]], past_key_values=cache, use_cache=True)
                        cache = step.past_key_values
                        torch.testing.assert_close(step.logits, whole[:, [i]])
            """,
        ),
        Patch(
            mends=("transformers-zamba2-least-step",),
            says="Zamba2 keeps to its least step of time where a single token comes, too",
            edits={
                f"{_MODELS}.zamba2.modeling_zamba2:Zamba2MambaMixer.forward": (
                    replace(
                        "dt = dt.transpose(1, 2).expand(-1, -1, self.head_dim)",
                        "# The update of a single step knows no limits, so that the step of time is made here.\n"
                        "dt = F.softplus(dt.float() + self.dt_bias.float()).clamp(*self.time_step_limit)\n"
                        "dt = dt.transpose(1, 2).expand(-1, -1, self.head_dim)",
                    ),
                    replace("dt_bias = self.dt_bias[:, None].expand(-1, self.head_dim)\n", ""),
                    replace("z=None,\ndt_bias=dt_bias,\ndt_softplus=True,", "z=None,"),
                )
            },
            test="""
                import torch
                from transformers import Zamba2Config, Zamba2ForCausalLM

                torch.manual_seed(0)
                sizes = {"hidden_size": 16, "intermediate_size": 16, "num_attention_heads": 2, "num_key_value_heads": 2}
                states = {"mamba_d_state": 4, "mamba_ngroups": 1, "n_mamba_heads": 4, "chunk_size": 4}
                more = {"num_mem_blocks": 1, "adapter_rank": 4, "attention_head_dim": 16, "time_step_min": 0.5}
                kinds = ["mamba", "hybrid"]
                config = Zamba2Config(
                    vocab_size=20, num_hidden_layers=2, layers_block_type=kinds, **sizes, **states, **more
                )
                model = Zamba2ForCausalLM(config).eval()
                for weight in model.parameters():
                    torch.nn.init.normal_(weight, std=0.5)
                ids = torch.tensor([[3, 5, 7, 9]])
                with torch.no_grad():
                    cache = model(ids[:, :3], use_cache=True).past_key_values
                    last = model(ids[:, 3:], past_key_values=cache, use_cache=True).logits
                    torch.testing.assert_close(last, model(ids).logits[:, 3:], rtol=1e-3, atol=1e-3)
            """,
        ),
        Patch(
            mends=("transformers-cache-rows-leave-second-state",),
            says="rows are selected and repeated in all states of a layer",
            edits={
                where: (append(_ROWS),)
                for where in (
                    "transformers.cache_utils:LinearAttentionAndFullAttentionLayer",
                    "transformers.cache_utils:LinearAttentionAndSlidingWindowAttentionLayer",
                    f"{_MODELS}.deepseek_v4.modeling_deepseek_v4:DeepseekV4HCACache",
                )
            },
            test="""
                import torch
                from transformers.cache_utils import LinearAttentionAndFullAttentionLayer

                for name, argument, expected in (
                    ("batch_select_indices", torch.tensor([1]), [1]),
                    ("batch_select_indices", torch.tensor([False, True]), [1]),
                    ("batch_repeat_interleave", 2, [0, 0, 1, 1]),
                ):
                    layer, rows = LinearAttentionAndFullAttentionLayer(), torch.arange(2.0)
                    layer.update(rows.view(2, 1, 1, 1), rows.view(2, 1, 1, 1))
                    layer.update_conv_state(rows.view(2, 1, 1))
                    layer.update_recurrent_state(rows.view(2, 1, 1, 1))
                    getattr(layer, name)(argument)
                    for state in (layer.keys, layer.values, layer.conv_states[0], layer.recurrent_states[0]):
                        assert state.flatten().tolist() == expected
            """,
        ),
        Patch(
            mends=("transformers-quantised-not-repeated",),
            says="rows and tokens of a quantised cache are selected, repeated and cropped",
            edits={
                "transformers.cache_utils:BaseQuantizedLayer": (
                    append(
                        """\
def _row_indices(self) -> torch.Tensor:
    pending = getattr(self, "_pending_beam_idx", None)
    rows = self._dequantize(self._quantized_keys) if pending is None else pending
    return torch.arange(rows.shape[0], device=self.device)

def batch_repeat_interleave(self, repeats: int) -> None:
    if self.is_initialized:
        self.reorder_cache(self._row_indices().repeat_interleave(repeats))

def batch_select_indices(self, indices: torch.Tensor) -> None:
    if self.is_initialized:
        self.reorder_cache(self._row_indices()[torch.as_tensor(indices, device=self.device)])"""
                    ),
                ),
                "transformers.cache_utils:QuantizedLayer": (
                    append(
                        """\
def crop(self, tokens_to_remove: int) -> None:
    if tokens_to_remove >= 0 or not self.is_initialized:
        return super().crop(tokens_to_remove)
    if self.keys.dim() == 4 and self.keys.shape[-2] >= -tokens_to_remove:
        super().crop(tokens_to_remove)
    else:
        keys, values = self._dequantize(self._quantized_keys), self._dequantize(self._quantized_values)
        keys, values = self._apply_pending_reorder(keys, values)
        keys = torch.cat([keys, self.keys], dim=-2)[..., :tokens_to_remove, :]
        values = torch.cat([values, self.values], dim=-2)[..., :tokens_to_remove, :]
        self._quantized_keys = self._quantize(keys.contiguous(), axis=self.axis_key)
        self._quantized_values = self._quantize(values.contiguous(), axis=self.axis_value)
        self.keys, self.values = self.keys.new_empty(0), self.values.new_empty(0)
        self._pending_beam_idx = None
    self.cumulative_length += tokens_to_remove"""
                    ),
                ),
                "transformers.cache_utils:Fp8QuantizedLayer": (
                    append(
                        """\
def crop(self, tokens_to_remove: int) -> None:
    if tokens_to_remove >= 0 or not self.is_initialized:
        return super().crop(tokens_to_remove)
    (keys, key_scale), (values, value_scale) = self._quantized_keys, self._quantized_values
    self._quantized_keys = (keys[..., :tokens_to_remove, :], key_scale)
    self._quantized_values = (values[..., :tokens_to_remove, :], value_scale)
    self.cumulative_length += tokens_to_remove"""
                    ),
                ),
            },
            test="""
                import torch
                from transformers.cache_utils import Fp8QuantizedLayer, QuantizedLayer

                class Exact(QuantizedLayer):
                    def _quantize(self, tensor, axis):
                        return tensor

                    def _dequantize(self, tensor):
                        return tensor

                rows = torch.tensor([1.0, 2.0]).view(2, 1, 1, 1).expand(2, 1, 3, 1)
                for make in (Fp8QuantizedLayer, Exact, lambda: Exact(residual_length=1)):
                    for name, argument, expected in (
                        ("batch_select_indices", torch.tensor([1]), [2] * 5),
                        ("batch_repeat_interleave", 2, [1] * 10 + [2] * 10),
                        ("crop", -1, [1] * 4 + [2] * 4),
                        ("crop", -2, [1] * 3 + [2] * 3),
                    ):
                        layer = make()
                        layer.update(rows, rows)
                        layer.update(rows[:, :, :1], rows[:, :, :1])
                        getattr(layer, name)(argument)
                        added = torch.tensor(expected[:: layer.get_seq_length() + 1]).view(-1, 1, 1, 1).float()
                        keys, values = layer.update(added, added)
                        assert keys.flatten().tolist() == values.flatten().tolist() == expected
                        assert layer.get_seq_length() == keys.shape[-2]
            """,
        ),
        Patch(
            mends=("transformers-offloaded-select",),
            says="rows of an offloaded cache are selected where its keys wait",
            edits={
                "transformers.cache_utils:DynamicLayer.batch_select_indices": (
                    put_before(
                        "self.keys = self.keys[indices, ...]",
                        "if isinstance(indices, torch.Tensor):\n    indices = indices.to(self.keys.device)",
                    ),
                ),
                "transformers.cache_utils:DynamicIndexedLayer.batch_select_indices": (
                    put_before(
                        "self.indexer_keys = self.indexer_keys[indices, ...]",
                        "if isinstance(indices, torch.Tensor):\n    indices = indices.to(self.indexer_keys.device)",
                    ),
                    put_before(
                        "self.indexer_position_ids = self.indexer_position_ids[:, indices, :]",
                        "if isinstance(indices, torch.Tensor):\n"
                        "    indices = indices.to(self.indexer_position_ids.device)",
                    ),
                ),
            },
            test="""
                import torch
                from transformers.cache_utils import DynamicIndexedLayer

                class Indices(torch.Tensor):  # they stand for indices on a GPU
                    moved = 0

                    def to(self, *arguments, **options):
                        Indices.moved += 1
                        return super().to(*arguments, **options)

                layer, keys = DynamicIndexedLayer(), torch.zeros(2, 1, 1, 1)
                layer.update(keys, keys)
                layer.update_indexer(keys[0])
                layer.batch_select_indices(torch.tensor([0]).as_subclass(Indices))
                assert Indices.moved == 2
            """,
        ),
        Patch(
            mends=("transformers-reset-keeps-first-rows",),
            says="after a reset, a static cache takes a batch of another number of rows",
            edits={
                **{
                    f"transformers.cache_utils:{kind}.update": (
                        put_before(
                            "if not self.is_initialized:",
                            "if self.is_initialized and key_states.shape[0] != self.keys.shape[0] "
                            "and self.get_seq_length() == 0:\n"
                            "    self.is_initialized = False  # it was reset, and gets another number of rows",
                        ),
                    )
                    for kind in ("StaticLayer", "StaticSlidingWindowLayer")
                },
                "transformers.cache_utils:StaticIndexedLayer.update_indexer": (
                    put_before(
                        "if not self.is_indexer_initialized:",
                        "if self.is_indexer_initialized and len(indexer_key_states) != len(self.indexer_keys):\n"
                        "    self.is_indexer_initialized = bool(self.indexer_cumulative_length)  # False after a reset",
                    ),
                ),
                "transformers.cache_utils:LinearAttentionLayer.update_conv_state": (
                    put_before(
                        "if not self.is_conv_states_initialized[state_idx]:",
                        "if self.is_conv_states_initialized[state_idx] and not self.has_previous_state[state_idx]:\n"
                        "    # Another number of rows may come after a reset.\n"
                        "    same_rows = conv_states.shape[0] == self.conv_states[state_idx].shape[0]\n"
                        "    self.is_conv_states_initialized[state_idx] = same_rows",
                    ),
                ),
                "transformers.cache_utils:LinearAttentionLayer.update_recurrent_state": (
                    replace(
                        "if not self.is_recurrent_states_initialized[state_idx]:",
                        "is_initialized = self.is_recurrent_states_initialized[state_idx]\n"
                        "if not is_initialized or len(recurrent_states) != len(self.recurrent_states[state_idx]):",
                    ),
                ),
            },
            test="""
                import torch
                from transformers import LlamaConfig, LlamaForCausalLM, MambaConfig, MambaForCausalLM
                from transformers import MistralConfig, MistralForCausalLM, StaticCache

                torch.manual_seed(0)
                sizes = {"vocab_size": 9, "hidden_size": 8, "num_hidden_layers": 1}
                more = {"intermediate_size": 8, "num_attention_heads": 2, "num_key_value_heads": 2}
                for model in (
                    LlamaForCausalLM(LlamaConfig(**sizes, **more)),
                    MistralForCausalLM(MistralConfig(**sizes, **more, sliding_window=4)),
                    MambaForCausalLM(MambaConfig(**sizes)),
                ):
                    name = "cache_params" if model.config.model_type == "mamba" else "past_key_values"
                    ids, cache = torch.tensor([[3, 5], [4, 6]]), StaticCache(config=model.config, max_cache_len=4)
                    with torch.no_grad():
                        for rows in (ids, ids[:1], ids[[0, 1, 0]]):
                            parts = [model(rows[:, [i]], **{name: cache}, use_cache=True).logits for i in (0, 1)]
                            torch.testing.assert_close(torch.cat(parts, 1), model(rows, use_cache=False).logits)
                            cache.reset()
            """,
        ),
        Patch(
            mends=("transformers-minimax-linear-layers-not-reordered",),
            says="the cache of MiniMax reorders and resets the states of its linear layers",
            edits={
                f"{_MODELS}.minimax.modeling_minimax:MiniMaxCache": (
                    append(
                        """\
def reorder_cache(self, beam_idx: torch.LongTensor):
    super().reorder_cache(beam_idx)
    for i, state in enumerate(self.linear_cache):
        if isinstance(state, torch.Tensor):
            self.linear_cache[i] = state.index_select(0, beam_idx.to(state.device))

def reset(self):
    super().reset()
    self.linear_cache = [[] for _ in self.linear_cache]"""
                    ),
                ),
                f"{_MODELS}.minimax.modeling_minimax:MiniMaxCache.get_linear_cache": (
                    body(
                        """\
state = self.linear_cache[layer_idx] if layer_idx < len(self.linear_cache) else []
return state if isinstance(state, torch.Tensor) else None"""
                    ),
                ),
                f"{_MODELS}.minimax.modeling_minimax:MiniMaxCache.batch_repeat_interleave": (
                    body(
                        """\
DynamicCache.batch_repeat_interleave(self, repeats)
for i, state in enumerate(self.linear_cache):
    if isinstance(state, torch.Tensor):
        self.linear_cache[i] = state.repeat_interleave(repeats, dim=0)"""
                    ),
                ),
                f"{_MODELS}.minimax.modeling_minimax:MiniMaxCache.batch_select_indices": (
                    body(
                        """\
DynamicCache.batch_select_indices(self, indices)
for i, state in enumerate(self.linear_cache):
    if isinstance(state, torch.Tensor):
        self.linear_cache[i] = state[indices.to(state.device), ...]"""
                    ),
                ),
            },
            test="""
                import torch
                from transformers import MiniMaxConfig, MiniMaxForCausalLM

                torch.manual_seed(0)
                sizes = {"hidden_size": 8, "intermediate_size": 8, "num_attention_heads": 2, "num_key_value_heads": 2}
                experts = {"num_local_experts": 2, "num_experts_per_tok": 1, "head_dim": 4, "block_size": 4}
                kinds = ["full_attention", "linear_attention", "full_attention"]
                config = MiniMaxConfig(vocab_size=9, num_hidden_layers=3, layer_types=kinds, **sizes, **experts)
                model = MiniMaxForCausalLM(config).eval()
                for weight in model.parameters():
                    torch.nn.init.normal_(weight, std=0.5)
                ids = torch.tensor([[3, 5, 7], [4, 6, 8]])
                with torch.no_grad():
                    for name, argument in (
                        ("reorder_cache", torch.tensor([1, 0])),
                        ("batch_select_indices", torch.tensor([1])),
                        ("batch_repeat_interleave", 2),
                    ):
                        cache = model(ids[:, :2], use_cache=True).past_key_values
                        getattr(cache, name)(argument)
                        rows = ids[argument] if torch.is_tensor(argument) else ids.repeat_interleave(2, 0)
                        found = model(rows[:, 2:], past_key_values=cache, use_cache=True).logits
                        torch.testing.assert_close(found, model(rows).logits[:, 2:])
                    cache.reset()
                    found = model(ids[:1], past_key_values=cache, use_cache=True).logits
                    torch.testing.assert_close(found, model(ids[:1]).logits)
            """,
        ),
        Patch(
            mends=("transformers-several-tokens-forget-the-state", "transformers-states-in-modules"),
            says="several tokens at once go on from the state of before, which the cache holds",
            edits={
                **{
                    f"{_MODELS}.{module}.modeling_{module}:{mixer}.forward": (
                        put_after("scan_output, final_state = scan_result", _MAMBA_STATE),
                    )
                    for module, mixer in (
                        ("mamba", "MambaMixer"),
                        ("falcon_mamba", "FalconMambaMixer"),
                        ("jamba", "JambaMambaMixer"),
                    )
                },
                f"{_MODELS}.zamba.modeling_zamba:ZambaMambaMixer.forward": (
                    put_after(
                        "final_state = torch.stack(final_states, dim=1)",
                        """\
if recurrent_state is not None:
    # The scans start from an empty state: what is left of the state of before is added to what they give.
    bias = 0 if time_proj_bias is None else time_proj_bias[..., None]
    steps = F.softplus(time_step.transpose(0, 1).float() + bias).cumsum(-1)
    left = torch.exp(A[:, :, None] * steps[..., None]) * recurrent_state.float()[..., None, :]
    added = (left * C.transpose(0, 1)[:, :, None].float()).sum(-1) * F.silu(gate.transpose(0, 1).float())
    scan_output = scan_output + added.flatten(1, 2).to(scan_output.dtype)
    final_state = final_state + left[..., -1, :]""",
                    ),
                ),
                f"{_MODELS}.recurrent_gemma.modeling_recurrent_gemma:RecurrentGemmaModel.forward": (
                    replace(
                        "self._setup_cache(self.config, hidden_states.shape[0], hidden_states.device, "
                        "hidden_states.dtype)\npast_key_values",
                        "past_key_values",
                    ),
                    put_before("hidden_states = residual_block(", "residual_block.temporal_block.layer_idx = i"),
                ),
                f"{_MODELS}.recurrent_gemma.modeling_recurrent_gemma:RecurrentGemmaRecurrentBlock.forward": (
                    body(
                        """\
seq_len, cache = input_states.shape[1], kwargs.get("past_key_values")
y_branch = self.act_fn(self.linear_y(input_states))
x_branch = self.linear_x(input_states).transpose(1, 2)

# The cache has the state between two calls, the module has none.
self.rg_lru.recurrent_states = None
if cache is not None:
    self.rg_lru.recurrent_states = cache.get_recurrent_state(self.layer_idx)
    x_branch = cache.update_conv_state(x_branch, self.layer_idx, conv_kernel_size=self.conv1d_width - 1)
x_branch = self.conv_1d(x_branch)[..., : x_branch.shape[-1]][..., -seq_len:]
x_branch = self.rg_lru(x_branch.transpose(1, 2), position_ids)
if cache is not None:
    cache.update_recurrent_state(self.rg_lru.recurrent_states, self.layer_idx)
self.rg_lru.recurrent_states = None

return self.linear_out(x_branch * y_branch), None"""
                    ),
                ),
            },
            test="""
                import torch
                from transformers import DynamicCache, FalconMambaConfig, FalconMambaForCausalLM
                from transformers import JambaConfig, JambaForCausalLM, MambaConfig, MambaForCausalLM
                from transformers import RecurrentGemmaConfig, RecurrentGemmaForCausalLM, ZambaConfig, ZambaForCausalLM

                torch.manual_seed(0)
                small = {"vocab_size": 9, "hidden_size": 8, "num_hidden_layers": 3}
                sizes = {**small, "intermediate_size": 8, "num_attention_heads": 2, "num_key_value_heads": 2}
                states = {"mamba_d_state": 4, "mamba_dt_rank": 2, "mamba_d_conv": 2}
                griffin = {"lru_width": 8, "head_dim": 4, "attention_window_size": 8}
                kinds = ["mamba", "hybrid", "hybrid"]
                for model in (
                    MambaForCausalLM(MambaConfig(**small, state_size=4)),
                    FalconMambaForCausalLM(FalconMambaConfig(**small, state_size=4)),
                    JambaForCausalLM(JambaConfig(**sizes, **states, num_experts=1, attn_layer_offset=1)),
                    ZambaForCausalLM(ZambaConfig(**sizes, **states, layers_block_type=kinds, n_mamba_heads=2)),
                    RecurrentGemmaForCausalLM(RecurrentGemmaConfig(**sizes, **griffin)),
                ):
                    for weight in model.parameters():
                        torch.nn.init.normal_(weight, std=0.5)
                    model.double().eval()
                    name = "cache_params" if "mamba" in model.config.model_type else "past_key_values"
                    ids, cache = torch.tensor([[3, 5, 7, 2, 4], [4, 6, 8, 1, 3]]), DynamicCache(config=model.config)
                    with torch.no_grad():
                        model(ids[:, :2], **{name: cache}, use_cache=True)
                        model(ids[:1], use_cache=True)  # another text
                        cache.reorder_cache(torch.tensor([1, 0]))
                        found = model(ids.flip(0)[:, 2:], **{name: cache}, use_cache=True).logits
                        expected = model(ids.flip(0), use_cache=False).logits[:, 2:]
                    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)
            """,
        ),
        Patch(
            mends=("transformers-error-blames-input-ids",),
            says="where the decoder of T5, or one behind an encoder, has no ids, the error says so",
            edits={
                f"{_MODELS}.{module}.modeling_{module}:{stack}.forward": (
                    put_before(
                        'raise ValueError("You must specify exactly one of input_ids or inputs_embeds")',
                        """\
if self.is_decoder:
    raise ValueError(
        "You must specify exactly one of decoder_input_ids, decoder_inputs_embeds, or labels that they are made of"
    )""",
                    ),
                )
                for module, stack in (
                    ("t5", "T5Stack"),
                    ("mt5", "MT5Stack"),
                    ("umt5", "UMT5Stack"),
                    ("switch_transformers", "SwitchTransformersStack"),
                )
            }
            | {
                f"{_MODELS}.{name}encoder_decoder.modeling_{name}encoder_decoder:{model}.forward": (
                    put_before(
                        "decoder_outputs = self.decoder(",
                        """\
if decoder_input_ids is None and decoder_inputs_embeds is None:
    raise ValueError(
        "You must specify decoder_input_ids, decoder_inputs_embeds, or labels that they are made of"
    )""",
                    ),
                )
                for name, model in (
                    ("", "EncoderDecoderModel"),
                    ("vision_", "VisionEncoderDecoderModel"),
                    ("speech_", "SpeechEncoderDecoderModel"),
                )
            },
            test="""
                import torch
                from transformers import T5Config, T5ForConditionalGeneration

                sizes = {"d_model": 8, "d_kv": 4, "num_heads": 2, "num_layers": 1, "d_ff": 8}
                model = T5ForConditionalGeneration(T5Config(vocab_size=9, **sizes))
                try:
                    model(input_ids=torch.tensor([[3]]))
                except ValueError as error:
                    assert "decoder_input_ids" in str(error)
                    assert "labels" in str(error)
            """,
        ),
        Patch(
            mends=("transformers-error-blames-both-inputs",),
            says="where a decoder has neither ids nor embeddings, the error does not say that it has both",
            edits={
                f"{_MODELS}.{module}.modeling_{module}:{decoder}.forward": (
                    replace(
                        '"You cannot specify both decoder_input_ids and decoder_inputs_embeds at the same time"',
                        '"You must specify exactly one of decoder_input_ids or decoder_inputs_embeds (or labels)"',
                    ),
                )
                for module, decoder in _DECODERS
            },
            test="""
                import torch
                from transformers import PegasusConfig, PegasusForConditionalGeneration

                parts = ("encoder", "decoder")
                sizes = {f"{part}_{what}": 2 for part in parts for what in ("layers", "attention_heads", "ffn_dim")}
                model = PegasusForConditionalGeneration(PegasusConfig(vocab_size=9, d_model=8, **sizes))
                try:
                    model(input_ids=torch.tensor([[3]]))
                except ValueError as error:
                    assert "both" not in str(error)
                    assert "labels" in str(error)
            """,
        ),
        Patch(
            mends=("transformers-bigbird-attention-for-good",),
            says="BigBird attends in full in a short batch, and sparsely again in the next long one",
            edits={
                **{
                    f"{_BIRDS[kind]}:{kind}BlockSparseAttention.forward": (
                        replace("if from_seq_length %", "if band_mask is not None and from_seq_length %"),
                        replace("if to_seq_length %", "if band_mask is not None and to_seq_length %"),
                        put_before(
                            "context_layer, attention_probs = self.bigbird_block_sparse_attention(",
                            """\
if band_mask is None:  # in full: the sequence is short
    attention_scores = torch.matmul(query_layer, key_layer.transpose(-1, -2)) / math.sqrt(self.attention_head_size)
    if kwargs.get("attention_mask") is not None:
        attention_scores = attention_scores + kwargs["attention_mask"]
    attention_probs = nn.functional.softmax(attention_scores, dim=-1)
    attention_probs = nn.functional.dropout(attention_probs, kwargs.get("dropout", 0.0), self.training)
    return torch.matmul(attention_probs, value_layer).transpose(1, 2).flatten(2), attention_probs
""",
                        ),
                    )
                    for kind in _BIRDS
                },
                f"{_BIRDS['BigBird']}:BigBirdAttention.forward": (
                    replace(
                        "from_blocked_mask, to_blocked_mask, **kwargs\n)",
                        "from_blocked_mask, to_blocked_mask,\n"
                        "    attention_mask=attention_mask, dropout=self.config.attention_probs_dropout_prob,\n"
                        "    **kwargs\n)",
                    ),
                ),
                f"{_BIRDS['BigBirdPegasus']}:BigBirdPegasusEncoderAttention.forward": (
                    replace(
                        "to_blocked_mask,\n**kwargs,",
                        "to_blocked_mask,\nattention_mask=attention_mask,\n"
                        "dropout=self.config.attention_probs_dropout_prob,\n**kwargs,",
                    ),
                ),
                f"{_BIRDS['BigBird']}:BigBirdModel.forward": (
                    replace(
                        'if self.attention_type == "block_sparse" and seq_length <= max_tokens_to_attend:',
                        "attention_type = self.attention_type\n"
                        'if attention_type == "block_sparse" and seq_length <= max_tokens_to_attend:',
                    ),
                    replace("logger.warning(", "logger.warning_once("),
                    replace(
                        'self.set_attention_type("original_full")',
                        'attention_type = "original_full"\n'
                        "if self.config.is_decoder:  # which goes on in full\n"
                        "    self.set_attention_type(attention_type)",
                    ),
                    *(
                        replace(
                            f'if self.attention_type == "{kind}":\n{after}', f'if attention_type == "{kind}":\n{after}'
                        )
                        for kind, after in (
                            ("block_sparse", "    (\n        padding_len,"),
                            ("block_sparse", "    blocked_encoder_mask"),
                            ("original_full", "    blocked_encoder_mask"),
                        )
                    ),
                ),
                f"{_BIRDS['BigBirdPegasus']}:BigBirdPegasusEncoder.forward": (
                    replace(
                        'if self.attention_type == "block_sparse" and input_shape[1] <= max_tokens_to_attend:',
                        "attention_type = self.attention_type\n"
                        'if attention_type == "block_sparse" and input_shape[1] <= max_tokens_to_attend:',
                    ),
                    replace("logger.warning(", "logger.warning_once("),
                    replace('self.set_attention_type("original_full")', 'attention_type = "original_full"'),
                    replace(
                        'if self.attention_type == "block_sparse":\n    padding_len,',
                        'if attention_type == "block_sparse":\n    padding_len,',
                    ),
                    replace('if self.attention_type == "original_full":', 'if attention_type == "original_full":'),
                    replace('elif self.attention_type == "block_sparse":', 'elif attention_type == "block_sparse":'),
                ),
            },
            test="""
                import torch
                from transformers import BigBirdConfig, BigBirdModel, BigBirdPegasusConfig
                from transformers.models.bigbird_pegasus.modeling_bigbird_pegasus import BigBirdPegasusEncoder

                torch.manual_seed(0)
                blocks = {"vocab_size": 9, "block_size": 2, "num_random_blocks": 1, "max_position_embeddings": 64}
                sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
                encoder = {"d_model": 8, "encoder_layers": 1, "encoder_attention_heads": 2, "encoder_ffn_dim": 8}
                for kind, config in (
                    (BigBirdModel, BigBirdConfig(**blocks, **sizes)),
                    (BigBirdPegasusEncoder, BigBirdPegasusConfig(**blocks, **encoder)),
                ):
                    model, ids = kind(config).eval(), torch.arange(32)[None] % 9
                    for weight in model.parameters():
                        torch.nn.init.normal_(weight, std=0.5)
                    with torch.no_grad():
                        expected = model(ids).last_hidden_state
                        state = torch.get_rng_state()
                        short = model(ids[:, 3:6], attention_mask=torch.tensor([[1, 1, 0]])).last_hidden_state
                        assert state.equal(torch.get_rng_state())
                        torch.testing.assert_close(model(ids).last_hidden_state, expected)
                        model.set_attention_type("original_full")
                        full = model(ids[:, 3:6], attention_mask=torch.tensor([[1, 1, 0]])).last_hidden_state
                        torch.testing.assert_close(short, full)
            """,
        ),
        Patch(
            mends=("transformers-static-cache-full",),
            says="a static cache that is full says so",
            edits={
                "transformers.cache_utils:StaticLayer.update": (
                    put_after(
                        "kv_length = key_states.shape[-2]",
                        """\
if not is_torchdynamo_compiling():
    # Counted as a number, since a look at the tensor waits for the device. A reset is seen by that look alone.
    length = getattr(self, "counted_length", 0) + kv_length
    if length > self.max_cache_len:
        length = int(self.cumulative_length) + kv_length
    if length > self.max_cache_len:
        raise ValueError(f"The cache has room for {self.max_cache_len} tokens (max_cache_len), not for {length}")
    self.counted_length = length""",
                    ),
                )
            },
            test="""
                import torch
                from transformers.cache_utils import StaticLayer

                layer = StaticLayer(max_cache_len=3)
                for _ in range(2):
                    for length, fits in ((1, True), (3, False), (2, True), (1, False)):
                        tokens = torch.ones(1, 1, length, 1)
                        try:
                            layer.update(tokens, tokens)
                        except ValueError as error:
                            assert not fits and "room for 3 tokens" in str(error)
                        else:
                            assert fits
                    assert layer.get_seq_length() == 3
                    layer.reset()
            """,
        ),
        *transformers_trainer.PATCHES,
    ),
)
