"""Each shape of a line counts once; version listings alone are no symptom, one line beside them is looked at."""

import pytest
from remote_gpu_trainer.logs.informative import MAX_LINES, informative_lines, only_versions
from remote_gpu_trainer.logs.reading import from_text

LISTINGS = [
    "Tue Nov 20 10:00:00 2026\nNVIDIA-SMI 580.82 Driver Version: 580.82 CUDA Version: 13.0",
    "$ nvidia-smi\nFri Jan  3 02:52:34 2025\n+-----------------+\n| NVIDIA-SMI 550.90.07              Driver Version: 550.90.07      CUDA Version: 12.4     |\n",
    "nvcc: NVIDIA (R) Cuda compiler driver\nCopyright (c) 2005-2024 NVIDIA Corporation\nBuilt on Thu_Mar_28_02:18:24_PDT_2024\nCuda compilation tools, release 12.4, V12.4.131\nBuild cuda_12.4.r12.4/compiler.34097967_0",
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\nGCC version:  gcc version 11.4.0 (Ubuntu 11.4.0-1ubuntu1~22.04)",
]


@pytest.mark.parametrize("text", LISTINGS)
def test_a_listing_of_versions_is_known_as_one(text):
    assert only_versions(text.split("\n"))


@pytest.mark.parametrize(
    "more",
    [
        "RuntimeError: CUDA error",
        "training is slow",
        "|   0  NVIDIA A100   On | 9000MiB / 40960MiB | 0% |",
        "Failed to initialize NVML: Driver/library version mismatch",
    ],
)
@pytest.mark.parametrize("text", LISTINGS)
def test_with_one_further_line_it_is_none(text, more):
    assert not only_versions([*text.split("\n"), more])


def test_nothing_is_no_listing():
    assert not only_versions([]) and not only_versions(["", "  "])


def test_each_shape_counts_once_without_its_paths_and_the_decisive_first():
    shards = [f"rank {rank}: loading shard {rank} of 8" for rank in range(8)]
    said = informative_lines(
        from_text("\n".join([*shards, "", "123", "RuntimeError: boom in /root/a/b.py"]))
    )
    assert [(text.strip(), marked) for _, text, marked in said] == [
        ("RuntimeError: boom in", True),
        ("loading shard 0 of 8", False),
    ]
    many = "\n".join(f"word{'x' * n} tells" for n in range(300))
    assert len(informative_lines(from_text(many))) == MAX_LINES
