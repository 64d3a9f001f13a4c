"""L15: Trainer's model gets no labels: training has no loss, evaluation counts none."""

import pytest
import torch
from peft import LoraConfig, get_peft_model
from tokenizers import Tokenizer, models
from transformers import (
    DataCollatorForLanguageModeling,
    DataCollatorWithPadding,
    LlamaForCausalLM,
    LlamaForSequenceClassification,
    LlamaModel,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
)

pytestmark = pytest.mark.filterwarnings("ignore")
PLAIN = {"input_ids": [1, 2, 3], "attention_mask": [1, 1, 1]}


def rows(**more):
    return [PLAIN | more for _ in range(4)]


LABELLED = rows(labels=[1, 2, 3])


@pytest.fixture
def trainer(tmp_path):
    """trainer(model, train set, …): one step on the CPU; what isn't a name of TrainingArguments goes to Trainer."""

    def make(
        model, train=None, evaluation=None, data_collator=None, compute_metrics=None, **arguments
    ):
        given = {
            "use_cpu": True,
            "max_steps": 1,
            "report_to": [],
            "save_strategy": "no",
            "disable_tqdm": True,
        } | arguments
        return Trainer(
            model,
            TrainingArguments(str(tmp_path / "out"), **given),
            train_dataset=train,
            eval_dataset=evaluation,
            data_collator=data_collator,
            compute_metrics=compute_metrics,
        )

    return make


@pytest.fixture
def causal(small_llama):
    return LlamaForCausalLM(small_llama)


@pytest.fixture
def classifier(small_llama):
    small_llama.num_labels, small_llama.pad_token_id = 2, 0
    return LlamaForSequenceClassification(small_llama)


@pytest.fixture
def tokenizer():
    words = {word: i for i, word in enumerate(["<pad>", "a", "b", "c", "d"])}
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.WordLevel(words, unk_token="a")), pad_token="<pad>"
    )


def trains(run) -> bool:
    return 0 < run.train().training_loss < 10


def no_loss(run, says, *words):
    with pytest.raises((ValueError, KeyError)) as stop:
        run.train()
    text = f"{type(stop.value).__name__}: {stop.value}"
    says("L15", text)
    assert all(word in text for word in words), text


@pytest.mark.parametrize(
    "train", [rows(), rows(target=[1, 2, 3])], ids=["no column", "another name"]
)
def test_without_a_column_named_labels_there_is_no_loss(trainer, causal, says, train):
    no_loss(trainer(causal, train), says, "keys: logits", "received are input_ids,attention_mask.")


def test_the_column_renamed(trainer, causal):
    assert trains(trainer(causal, LABELLED))


@pytest.mark.parametrize(
    "more", [{"target": 1}, {"labels": "positive"}], ids=["another name", "text"]
)
def test_a_class_under_another_name_or_as_text(trainer, classifier, says, more):
    no_loss(trainer(classifier, rows(**more)), says)


def test_a_class_as_text_under_the_name_label_stops_in_the_collator(trainer, classifier):
    with pytest.raises(ValueError, match="too many dimensions 'str'"):
        trainer(classifier, rows(label="positive")).train()


@pytest.mark.parametrize("name", ["labels", "label"])
def test_a_class_as_a_number(trainer, classifier, name):
    assert trains(trainer(classifier, rows(**{name: 1})))


def test_the_padding_collator_makes_no_labels_and_the_one_for_language_models_does(
    trainer, causal, tokenizer, says
):
    no_loss(trainer(causal, rows(), data_collator=DataCollatorWithPadding(tokenizer)), says)
    assert trains(
        trainer(causal, rows(), data_collator=DataCollatorForLanguageModeling(tokenizer, mlm=False))
    )


def test_a_model_without_a_head_has_no_loss_even_with_labels(trainer, small_llama, says):
    no_loss(trainer(LlamaModel(small_llama), LABELLED), says, "last_hidden_state")


def from_raw(features):
    return {
        "input_ids": torch.tensor([f["input_ids"] for f in features]),
        "labels": torch.tensor([f["raw"] for f in features]),
    }


def test_a_collator_of_ones_own_sees_its_column_only_when_nothing_is_removed(trainer, causal):
    with pytest.raises(KeyError, match="raw"):
        trainer(causal, rows(raw=[1, 2, 3]), data_collator=from_raw).train()
    assert trains(
        trainer(causal, rows(raw=[1, 2, 3]), data_collator=from_raw, remove_unused_columns=False)
    )


class Wrapper(torch.nn.Module):
    """Passes all on, and names nothing."""

    def __init__(self, model):
        super().__init__()
        self.model, self.config = model, model.config

    def forward(self, **kwargs):
        return self.model(**kwargs)


class Renamed(Wrapper):
    def forward(self, input_ids, attention_mask=None, actions=None):
        return self.model(input_ids=input_ids, attention_mask=attention_mask, labels=actions)


def test_a_wrapper_with_kwargs_loses_every_column(trainer, causal, says):
    no_loss(trainer(Wrapper(causal), LABELLED), says, "empty")
    assert trains(trainer(Wrapper(causal), LABELLED, remove_unused_columns=False))


@pytest.mark.parametrize(
    ("wrap", "data", "bad", "good"),
    [
        pytest.param(Wrapper, LABELLED, None, ["labels"], id="kwargs hide the name"),
        pytest.param(
            Renamed, rows(actions=[1, 2, 3]), None, ["actions"], id="another name in forward"
        ),
        pytest.param(lambda model: model, LABELLED, ["label"], None, id="wrong label_names"),
    ],
)
def test_evaluation_has_a_loss_and_metrics_only_where_label_names_name_the_labels(
    trainer, causal, wrap, data, bad, good
):
    def evaluated(names):
        run = trainer(
            wrap(causal),
            compute_metrics=lambda _: {"called": 1.0},
            label_names=names,
            remove_unused_columns=False,
        )
        return run.evaluate(data)

    assert not {"eval_loss", "eval_called"} & set(evaluated(bad))
    assert {"eval_loss", "eval_called"} <= set(evaluated(good))


BEST = {
    "eval_strategy": "steps",
    "eval_steps": 1,
    "save_strategy": "steps",
    "save_steps": 1,
    "load_best_model_at_end": True,
}


@pytest.mark.parametrize(
    ("evaluation", "more"),
    [
        pytest.param(rows(), {}, id="no labels in the evaluation set"),
        pytest.param({"one": LABELLED, "two": LABELLED}, {}, id="two sets"),
        pytest.param(LABELLED, {"metric_for_best_model": "f1"}, id="a metric that nobody computes"),
    ],
)
def test_the_best_model_wants_a_metric_that_evaluation_does_not_have(
    trainer, causal, says, evaluation, more
):
    no_loss(
        trainer(causal, LABELLED, evaluation, **BEST, **more),
        says,
        "not found in the evaluation metrics",
    )


@pytest.mark.parametrize(
    ("evaluation", "more"),
    [(LABELLED, {}), ({"one": LABELLED}, {"metric_for_best_model": "one_loss"})],
)
def test_the_best_model_is_found_with_labels_or_the_right_name(trainer, causal, evaluation, more):
    run = trainer(causal, LABELLED, evaluation, **BEST, **more)
    assert trains(run) and run.state.best_metric


def test_no_evaluation_set(trainer, causal, says):
    with pytest.raises(ValueError) as stop:
        trainer(causal, LABELLED).evaluate()
    says("L15", str(stop.value))
    with pytest.raises(ValueError) as stop:
        trainer(causal, LABELLED, eval_strategy="steps")
    says("L15", str(stop.value))
    assert trains(trainer(causal, LABELLED, eval_strategy="no"))


def test_adapters_no_longer_hide_the_labels(trainer, causal):
    run = trainer(
        get_peft_model(causal, LoraConfig(task_type="CAUSAL_LM", target_modules=["q_proj"]))
    )
    assert run.label_names == ["labels"] and "eval_loss" in run.evaluate(LABELLED)


def test_the_first_batch_shows_it(trainer, causal):
    batches = [
        next(iter(trainer(causal, data).get_train_dataloader()))
        for data in (rows(target=[1, 2, 3]), LABELLED)
    ]
    assert ["labels" in batch for batch in batches] == [False, True]
    assert [next(iter(causal(**batch))) for batch in batches] == ["logits", "loss"]


def test_the_check_lists_labels_only_where_the_trainer_gets_them(trainer, causal, printed):
    def shown(data):
        return printed("L15", trainer=trainer(causal, data), model=causal)

    assert "'labels'" not in shown(rows(target=[1, 2, 3])).split("}")[0]
    assert "'labels'" in shown(LABELLED).split("}")[0]
