"""The student: for the trial a tiny Llama with a tokenizer of its own, made here instead of downloaded."""
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

WORDS = ("what does the report say about sales costs orders stock prices rose fell stayed in north south east "
         "west by one two three four five six seven eight nine percent : . ?").split()


def tokenizer():
    vocabulary = {word: i for i, word in enumerate(["<pad>", "<s>", "</s>", "<unk>", *WORDS])}
    words = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", bos_token="<s>", eos_token="</s>",
                                   unk_token="<unk>")


def model():
    torch.manual_seed(7)
    return LlamaForCausalLM(LlamaConfig(
        vocab_size=len(WORDS) + 4, hidden_size=128, intermediate_size=256, num_hidden_layers=3,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128,
        pad_token_id=0, bos_token_id=1, eos_token_id=2))
