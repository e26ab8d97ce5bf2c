"""A tiny model of Qwen3's architecture with random weights and a tokenizer of its own: real files, no download."""

from importlib import import_module
from pathlib import Path
from typing import Any

CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def make_tiny_model(directory: Path, *, vocabulary: int = 1024, context: int = 8192) -> None:
    """Write a checkpoint that transformers and vLLM load: 2 layers, hidden size 128, float32."""
    # Any: transformers is typed in parts only, and this module is also read where the ML stack is not installed.
    torch: Any
    tokenizers: Any
    transformers: Any
    torch, tokenizers, transformers = (import_module(name) for name in ("torch", "tokenizers", "transformers"))
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=vocabulary, special_tokens=SPECIAL, initial_alphabet=alphabet)
    tokenizer.train_from_iterator([Path(__file__).read_text(encoding="utf-8")], trainer)
    wrapped = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>"
    )
    wrapped.chat_template = CHAT_TEMPLATE
    wrapped.save_pretrained(directory)
    torch.manual_seed(0)
    config = transformers.Qwen3Config(
        vocab_size=len(wrapped),
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,  # the least that the CPU attention of vLLM takes
        max_position_embeddings=context,
        tie_word_embeddings=False,
        eos_token_id=wrapped.eos_token_id,
        pad_token_id=wrapped.pad_token_id,
    )
    transformers.Qwen3ForCausalLM(config).to(torch.float32).save_pretrained(directory)
