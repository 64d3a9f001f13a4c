"""Supervised fine-tuning on instructions.  bash train.sh"""
import copy
import json
import logging
from dataclasses import dataclass, field
from typing import Dict, Optional, Sequence

import torch
import transformers
from torch.utils.data import Dataset

from trainer import TrialTrainer

IGNORE_INDEX = -100
PROMPT_DICT = {
    "prompt_input": "### Instruction:\n{instruction}\n\n### Input:\n{input}\n\n### Response:",
    "prompt_no_input": "### Instruction:\n{instruction}\n\n### Response:",
}


@dataclass
class ModelArguments:
    model_name_or_path: Optional[str] = field(default="facebook/opt-125m")


@dataclass
class DataArguments:
    data_path: str = field(default=None, metadata={"help": "Path to the training data."})


@dataclass
class TrainingArguments(transformers.TrainingArguments):
    cache_dir: Optional[str] = field(default=None)
    optim: str = field(default="adamw_torch")
    model_max_length: int = field(default=128, metadata={"help": "Maximum sequence length."})


def safe_save_model_for_hf_trainer(trainer: transformers.Trainer, output_dir: str):
    """Collects the state dict and dumps it to disk."""
    state_dict = trainer.model.state_dict()
    if trainer.args.should_save:
        cpu_state_dict = {key: value.cpu() for key, value in state_dict.items()}
        del state_dict
        trainer._save(output_dir, state_dict=cpu_state_dict)


class SupervisedDataset(Dataset):
    def __init__(self, data_path: str, tokenizer, max_length: int):
        super().__init__()
        logging.warning("Loading data...")
        with open(data_path) as f:
            examples = json.load(f)
        logging.warning("Tokenizing inputs... This may take some time...")
        self.input_ids, self.labels = [], []
        for example in examples:
            prompt = PROMPT_DICT["prompt_input" if example["input"] else "prompt_no_input"]
            source = prompt.format_map(example)
            ids = tokenizer(source + example["output"]).input_ids[:max_length]
            labels = copy.deepcopy(ids)
            labels[:len(source)] = [IGNORE_INDEX] * min(len(source), len(labels))
            self.input_ids.append(torch.tensor(ids))
            self.labels.append(torch.tensor(labels))

    def __len__(self):
        return len(self.input_ids)

    def __getitem__(self, i) -> Dict[str, torch.Tensor]:
        return dict(input_ids=self.input_ids[i], labels=self.labels[i])


@dataclass
class DataCollatorForSupervisedDataset:
    pad: int

    def __call__(self, instances: Sequence[Dict]) -> Dict[str, torch.Tensor]:
        input_ids, labels = ([instance[key] for instance in instances] for key in ("input_ids", "labels"))
        input_ids = torch.nn.utils.rnn.pad_sequence(input_ids, batch_first=True, padding_value=self.pad)
        labels = torch.nn.utils.rnn.pad_sequence(labels, batch_first=True, padding_value=IGNORE_INDEX)
        return dict(input_ids=input_ids, labels=labels, attention_mask=input_ids.ne(self.pad))


def train():
    parser = transformers.HfArgumentParser((ModelArguments, DataArguments, TrainingArguments))
    model_args, data_args, training_args = parser.parse_args_into_dataclasses()
    torch.set_num_threads(1)

    config = transformers.AutoConfig.from_pretrained(model_args.model_name_or_path)
    model = transformers.AutoModelForCausalLM.from_config(config)  # pretrained weights in the night
    tokenizer = transformers.ByT5Tokenizer(extra_ids=0)
    dataset = SupervisedDataset(data_args.data_path, tokenizer, training_args.model_max_length)
    collator = DataCollatorForSupervisedDataset(tokenizer.pad_token_id)
    trainer = TrialTrainer(model=model, processing_class=tokenizer, args=training_args,
                           train_dataset=dataset, data_collator=collator)
    trainer.train()
    trainer.save_state()
    safe_save_model_for_hf_trainer(trainer=trainer, output_dir=training_args.output_dir)


if __name__ == "__main__":
    train()
