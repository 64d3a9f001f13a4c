"""T6: who pins a batch and who asks for a copy that doesn't wait. The copy itself needs a GPU."""

import time

import torch
from accelerate import DataLoaderConfiguration
from accelerate.utils import send_to_device
from check_code import block, shown
from torch.utils.data import DataLoader
from transformers import TrainingArguments


class Batch:
    """Stands in for a tensor and keeps how it was sent."""

    def to(self, device, non_blocking=False):
        self.non_blocking = non_blocking
        return self


def test_a_loader_pins_nothing_unless_told_to():
    assert DataLoader([0]).pin_memory is False


def test_the_trainer_pins_but_its_copy_waits(tmp_path):
    arguments = TrainingArguments(output_dir=tmp_path, report_to=[])
    assert arguments.dataloader_pin_memory and arguments.accelerator_config.non_blocking is False
    told = TrainingArguments(
        output_dir=tmp_path, report_to=[], accelerator_config={"non_blocking": True}
    )
    assert told.accelerator_config.non_blocking


def test_accelerate_waits_until_the_configuration_says_otherwise():
    assert DataLoaderConfiguration().non_blocking is False
    assert send_to_device(Batch(), "cuda").non_blocking is False
    assert send_to_device(Batch(), "cuda", non_blocking=True).non_blocking


def test_bytes_of_images_are_a_quarter_of_floats():
    images = torch.zeros(2, 3, 8, 8, dtype=torch.uint8)
    assert images.float().nbytes == 4 * images.nbytes


def test_the_rate_of_the_check_leaves_out_the_memory_that_the_first_copy_takes(monkeypatch):
    """A clock stands in for time: the first copy asks for memory, 50 ms, and each takes 10 ms."""
    clock, copies = [0.0], []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])

    class OnHost:
        nbytes = 40_000_000

        def to(self, device):
            clock[0] += 0.01 if copies else 0.06
            copies.append(device)

    rate, unit = shown(block("T6"), x=OnHost()).split()
    assert (round(float(rate), 3), unit, copies) == (4.0, "GB/s", ["cuda", "cuda"])
