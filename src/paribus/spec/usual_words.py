"""The field's usual words for what specs call otherwise: one table of keys, one of values.

They are never accepted, for then two files could say the same in different words. They are answered
with ours.
"""

from __future__ import annotations

from collections.abc import Mapping

# Our path → what others call it. `path = value` is what to write instead.
_KEYS: Mapping[str, str] = {
    "training.length": (
        "n_ctx seq_len sequence_length seq_length max_seq_len max_seq_length context_length"
        " context_size block_size"
    ),
    "architecture.d_model": (
        "hidden_size n_embd dim d_embed embed_dim width embedding_size model_dim"
    ),
    "architecture.n_layers": (
        "num_hidden_layers num_layers depth n_blocks layers decoder_layers num_decoder_layers"
    ),
    "architecture.encoder.n_layers": "encoder_layers num_encoder_layers",
    "architecture.attention.n_heads": "num_attention_heads num_heads n_head heads",
    "architecture.attention.n_kv_heads": "num_key_value_heads num_kv_heads",
    "architecture.attention.d_head": "head_dim d_kv head_size",
    "architecture.attention.bias": "attention_bias",
    "architecture.attention.d_latent": "kv_lora_rank",
    "architecture.attention.d_query_latent": "q_lora_rank",
    "architecture.feed_forward.d_ff": "intermediate_size ffn_dim n_inner d_mlp mlp_dim d_inner",
    "architecture.feed_forward.activation": "hidden_act act_fn activation_function",
    "architecture.feed_forward.n_experts": "num_experts num_local_experts n_routed_experts",
    "architecture.feed_forward.n_active": "num_experts_per_tok top_k",
    "architecture.feed_forward.n_shared": "n_shared_experts",
    "architecture.feed_forward.d_expert": "moe_intermediate_size",
    "architecture.feed_forward": "ffn mlp",
    "architecture.feed_forward = 'experts'": "moe",
    "architecture.n_vocab": "vocab_size vocabulary_size",
    "corpus.tokenizer.n_vocab": "vocab_size",
    "architecture.max_length": (
        "max_position_embeddings n_positions n_ctx seq_len sequence_length seq_length max_seq_len"
        " max_seq_length context_length context_size block_size"
    ),
    "architecture.positions = 'rotary'": "rope use_rope",
    "architecture.positions.theta": "rope_theta",
    "architecture.positions = 'alibi'": "alibi",
    "architecture.positions": (
        "position_embedding_type position_encoding positional_encoding pos_emb"
    ),
    "architecture.norm": "normalization norm_type",
    "architecture.norm.eps": "layer_norm_eps layer_norm_epsilon rms_norm_eps epsilon",
    "architecture.placement = 'pre'": "norm_first",
    "architecture.head.tied": "tie_word_embeddings tie_embeddings weight_tying",
    "architecture.init.std": "initializer_range init_std",
    "architecture.dropout": "dropout_rate",
    "architecture.mask": "attention_mask attn_mask",
    "architecture.mask = 'causal & window(n)'": "sliding_window",
    "architecture.mask = 'causal'": "is_causal",
    "architecture": "model arch",
    "corpus": "data dataset",
    "objective": "loss task",
    "training": "train trainer",
    "objective = 'masked'": "mlm",
    "objective = 'causal'": "clm",
    "objective = 'spans'": "span_corruption",
    "objective.rate": "mlm_probability mask_ratio mask_prob noise_density corruption_rate",
    "objective.mean_span": "mean_noise_span_length mean_span_length",
    "training.optimizer.rate": "lr learning_rate max_lr peak_lr",
    "training.schedule.floor": "min_lr",
    "training.optimizer.decay": "weight_decay wd",
    "training.optimizer.beta1 = 0.9, beta2 = 0.95": "betas",
    "training.optimizer.beta1": "adam_beta1",
    "training.optimizer.beta2": "adam_beta2",
    "training.optimizer.eps": "adam_epsilon epsilon",
    "training.optimizer.clip": "max_grad_norm grad_clip gradient_clipping clip_grad_norm",
    "training.schedule": "lr_scheduler lr_scheduler_type lr_schedule scheduler decay_schedule",
    "training.warmup": "warmup_steps n_warmup num_warmup_steps warmup_iters",
    "training.warmup = STEPS": "warmup_ratio",
    "training.n_steps": (
        "max_steps num_steps steps max_iters train_steps iterations total_steps num_train_steps"
    ),
    "training.n_steps = STEPS": "epochs num_train_epochs n_epochs",
    "training.n_sequences": (
        "batch_size global_batch_size per_device_train_batch_size train_batch_size"
    ),
    "training.n_micro_batches": (
        "gradient_accumulation_steps grad_accum grad_accum_steps micro_batches n_parts"
    ),
    "architecture.init": "start initialization initialisation",
    "objective.components": "parts",
    "design.variance.inits": "starts",
    "training.seed": "random_seed manual_seed",
    "design.seeds": "random_seed manual_seed n_seeds num_seeds",
    "training.row_every": "logging_steps log_every log_interval",
    "training.valid_every": "eval_steps eval_interval eval_every",
    "training.valid_batches": "eval_iters",
    "training.checkpoint_every": "save_steps save_every save_interval",
    "training.keep_last": "save_total_limit",
    "training.optimizer": "optim adamw muon adafactor",
    "corpus.sources.paths": "data_files",
    "corpus.sources.text": "text_column",
    "corpus.valid": "val_split validation_split val",
    "corpus.test": "test_split",
    "design.arms": "treatments conditions",
    "design.question": "hypothesis",
    "design.primary.measure": "metric",
    "design.others": "metrics",
    "design.primary": "primary_metric",
    "design.factor": "ablation variable",
    "design.baseline": "reference_arm",
    "design.tune": "sweep",
    "design.primary.margin": "equivalence_margin sesoi",
}
# Our value → what others call it.
_VALUES: Mapping[str, str] = {
    "rotary": "rope rotary_embedding",
    "learned": "absolute learned_absolute",
    "sinusoidal": "sincos sin",
    "none": "nope null no",
    "relative_bias": "relative t5 t5_bias",
    "spans": "t5 span_corruption span denoising infilling",
    "layer": "layernorm layer_norm ln",
    "rms": "rmsnorm rms_norm",
    "pre": "pre_ln pre_norm prenorm",
    "post": "post_ln post_norm postnorm",
    "multi_head": "mha self_attention",
    "latent": "mla",
    "dense": "mlp ffn",
    "experts": "moe mixture_of_experts",
    "silu": "swish",
    "gelu_tanh": "gelu_new gelu_fast gelu_pytorch_tanh",
    "fan_in": "kaiming lecun",
    "normal": "gaussian",
    "mup": "maximal_update mu_p",
    "masked": "mlm masked_lm bert masked_language_modeling",
    "causal": "clm causal_lm lm next_token gpt autoregressive decoder",
    "prefix": "prefix_lm prefixlm",
    "seq2seq": "s2s encoder_decoder",
    "labels": "classification text_classification",
    "tags": "token_classification ner tagging",
    "ul2": "mixture_of_denoisers mod",
    "full": "bidirectional encoder non_causal",
    "reverse": "anti_causal backward",
    "window": "sliding_window local",
    "strided": "dilated",
    "same_document": "block_diagonal document",
    "documents_so_far": "block_causal document_causal",
    "bytes": "byte byte_level char utf8",
    "bpe": "byte_pair byte_level_bpe bytepair",
    "file": "tokenizers huggingface hf",
    "files": "text txt jsonl folder csv tsv",
    "pairs": "csv tsv parallel",
    "conversations": "chat messages dialogue",
    "instruct": "sft instruction chat",
    "prefer": "dpo rlhf",
    "preference": "dpo",
    "tagged": "conll",
    "trapezoid": "wsd warmup_stable_decay trapezoidal",
    "inverse_sqrt": "noam rsqrt",
    "cosine": "cosine_decay cosine_annealing",
    "linear": "linear_decay linear_with_warmup",
    "constant": "constant_with_warmup level",
    "adamw": "adamw_torch adamw_fused",
    "valid": "validation val dev eval",
    "parameters": "params n_parameters",
    "training_flops": "flops compute",
    "tokens_read": "tokens tokens_seen",
    "bytes_read": "bytes_seen",
    "depth": "n_layers",
    "width": "d_model",
    "halves": "ppl perplexity bpb bits_per_byte",
    "pseudo": "pll pseudo_perplexity",
    "not worse": "non_inferiority noninferiority one_sided",
    "two-sided": "superiority",
    "smoke": "debug tiny",
    "last": "final",
    "replace": "ignore",
}
# Usual values that are several of our fields, by the field where they are written.
_THREE_OPTIMIZERS = "optimizers are 'adamw', 'adafactor' and 'muon'"
USUAL_MEANINGS: Mapping[str, Mapping[str, str]] = {
    "activation": {
        "swiglu": "write 'silu' with gated = true",
        "geglu": "write 'gelu' with gated = true",
        "reglu": "write 'relu' with gated = true",
    },
    "feed_forward": {
        "swiglu": "write { kind = 'dense', activation = 'silu', gated = true }",
        "geglu": "write { kind = 'dense', activation = 'gelu', gated = true }",
    },
    "attention": {
        "gqa": "write 'multi_head' with n_kv_heads below n_heads",
        "mqa": "write 'multi_head' with n_kv_heads = 1",
    },
    "optimizer": {
        "adam": "write { kind = 'adamw', decay = 0.0 }",
        "sgd": _THREE_OPTIMIZERS,
        "lion": _THREE_OPTIMIZERS,
    },
}


def _by_word(table: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Each usual word with all that it may be here."""
    meanings: dict[str, tuple[str, ...]] = {}
    for ours, words in table.items():
        for word in words.split():
            meanings[word] = (*meanings.get(word, ()), ours)
    return meanings


USUAL_KEYS = _by_word(_KEYS)
USUAL_VALUES = _by_word(_VALUES)
