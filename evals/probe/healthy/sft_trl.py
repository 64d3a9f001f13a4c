"""Sound: TRL's SFTTrainer tunes a small causal model on prompts and completions."""

import os
import tempfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")

from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, set_seed
from trl import SFTConfig, SFTTrainer

set_seed(0)
WORDS = [f"w{i}" for i in range(60)]
vocabulary = {word: at for at, word in enumerate(["<pad>", "<s>", "</s>", "<unk>", *WORDS])}
raw = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
raw.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=raw, pad_token="<pad>", bos_token="<s>", eos_token="</s>", unk_token="<unk>"
)
rows = [
    {
        "prompt": " ".join(WORDS[(i * 7 + k) % 60] for k in range(6)) + " ",
        "completion": " ".join(WORDS[(i * 7 + k) % 60] for k in range(6, 12)),
    }
    for i in range(400)
]
model = LlamaForCausalLM(
    LlamaConfig(
        vocab_size=len(vocabulary),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        max_position_embeddings=64,
    )
)
arguments = SFTConfig(
    output_dir=tempfile.mkdtemp(),
    per_device_train_batch_size=8,
    max_steps=45,
    learning_rate=1e-3,
    logging_steps=10,
    save_strategy="no",
    report_to=[],
    use_cpu=True,
    bf16=False,
    max_length=32,
    gradient_checkpointing=False,
)
trainer = SFTTrainer(
    model=model, args=arguments, train_dataset=Dataset.from_list(rows), processing_class=tokenizer
)
trainer.train()
