"""M15: evaluation keeps the predictions of all batches on the device, or records gradients."""

import contextlib

import pytest
import torch
from check_code import shown, span

transformers = pytest.importorskip("transformers")
from transformers.trainer_pt_utils import EvalLoopContainer, nested_concat

SAMPLES, LENGTH, VOCABULARY = 32, 8, 8
LOGITS = SAMPLES * LENGTH * VOCABULARY  # numbers in the logits of the whole set


def numbers(kept) -> int:
    if isinstance(kept, (tuple, list)):
        return sum(map(numbers, kept))
    return kept.numel() if torch.is_tensor(kept) else 0


@pytest.fixture
def evaluate(small_llama, tmp_path, monkeypatch):
    """evaluate(trainer's and arguments' options) -> the most numbers of predictions that lay on the device, and what the metric got."""

    def run(
        metric=True,
        ignore_keys=None,
        predict=False,
        output_hidden_states=False,
        preprocess_logits_for_metrics=None,
        **options,
    ):
        most, got = [0], []
        add = EvalLoopContainer.add

        def spy(container, tensors):
            add(container, tensors)
            if numbers(tensors) > 4 * LENGTH:  # labels and losses aside
                most[0] = max(most[0], numbers(container.tensors))

        monkeypatch.setattr(EvalLoopContainer, "add", spy)

        def compute_metrics(prediction, compute_result=True):
            got.append(prediction.predictions)
            return {}

        small_llama.output_hidden_states = output_hidden_states
        torch.manual_seed(0)
        rows = [
            {"input_ids": (x := torch.randint(0, VOCABULARY, (LENGTH,))), "labels": x}
            for _ in range(SAMPLES)
        ]
        trainer = transformers.Trainer(
            transformers.LlamaForCausalLM(small_llama),
            transformers.TrainingArguments(
                str(tmp_path),
                per_device_eval_batch_size=4,
                report_to="none",
                use_cpu=True,
                disable_tqdm=True,
                **options,
            ),
            eval_dataset=rows,
            compute_metrics=compute_metrics if metric else None,
            preprocess_logits_for_metrics=preprocess_logits_for_metrics,
        )
        (trainer.predict if predict else trainer.evaluate)(rows, ignore_keys=ignore_keys)
        return most[0], got

    return run


def test_by_default_the_logits_of_the_whole_set_lie_on_the_device(evaluate):
    assert evaluate()[0] == LOGITS


def test_eval_accumulation_steps_moves_them_away(evaluate):
    most, [all_of_them] = evaluate(eval_accumulation_steps=2)
    assert most == LOGITS / 4
    assert all_of_them.size == LOGITS  # in host memory now


def test_class_numbers_are_smaller_by_the_vocabulary(evaluate):
    most, [classes] = evaluate(
        preprocess_logits_for_metrics=lambda logits, labels: (
            logits[0] if isinstance(logits, tuple) else logits
        ).argmax(-1),
        eval_accumulation_steps=8,
    )
    assert classes.size == LOGITS / VOCABULARY and most <= classes.size


def test_without_a_metric_nothing_is_kept_but_predict_keeps_everything(evaluate):
    assert evaluate(metric=False)[0] == 0
    assert evaluate(metric=False, predict=True)[0] == LOGITS


def test_metrics_by_batch_keep_nothing(evaluate):
    most, got = evaluate(batch_eval_metrics=True)
    assert most == 0 and len(got) == SAMPLES / 4
    assert evaluate(batch_eval_metrics=True, predict=True)[0] == LOGITS


def test_hidden_states_are_kept_too_unless_they_are_ignored(evaluate):
    assert evaluate(output_hidden_states=True)[0] > 2 * LOGITS
    assert (
        evaluate(output_hidden_states=True, ignore_keys=["hidden_states", "past_key_values"])[0]
        == LOGITS
    )


def test_joining_holds_old_and_new_at_once():
    old, batch = torch.zeros(28, 4), torch.zeros(4, 4)
    joined = nested_concat(old, batch)
    assert joined.numel() == 32 * 4 and joined.data_ptr() != old.data_ptr()


def test_the_batch_of_evaluation_is_8_if_nothing_is_set(tmp_path):
    assert (
        transformers.TrainingArguments(str(tmp_path), use_cpu=True).per_device_eval_batch_size == 8
    )


def saved_by(context) -> int:
    """Bytes that autograd holds while the outputs of ten batches are kept."""
    net = torch.nn.Sequential(
        torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1)
    ).eval()
    held = []
    with (
        torch.autograd.graph.saved_tensors_hooks(lambda t: held.append(t.nbytes) or t, lambda t: t),
        context(),
    ):
        outputs = [net(torch.randn(8, 16)) for _ in range(10)]
    assert outputs[0].requires_grad == bool(held)
    return sum(held)


def test_eval_mode_alone_records_gradients_and_inference_mode_does_not():
    from contextlib import nullcontext

    assert saved_by(nullcontext) > 10 * 8 * 16 * 4
    assert saved_by(torch.inference_mode) == 0


@pytest.mark.parametrize(
    "mode, recorded", [(contextlib.nullcontext, True), (torch.inference_mode, False)]
)
def test_the_line_of_the_check_tells_a_recorded_graph_from_kept_outputs(mode, recorded):
    model = torch.nn.Linear(4, 4).eval()
    with mode():
        output = model(torch.ones(2, 4))
    assert shown(span("M15", "requires_grad"), output=output) == str(recorded)
