"""NB3: the pulled metadata says what a saved Kaggle version was given: internet, and which machine."""

import json

import pytest

PULL = """#!/bin/bash
[ "$*" = "kernels pull OWNER/NAME -m -p x" ] || { echo "stub: $*" >&2; exit 2; }
mkdir -p x && cp meta.json x/kernel-metadata.json
"""


@pytest.mark.parametrize("on", [False, True])
def test_the_metadata_tells_an_offline_cpu_version_from_one_with_both(provider, shell_of, on):
    meta = {"id": "OWNER/NAME", "is_private": True, "enable_gpu": on, "enable_internet": on}
    meta["machine_shape"] = "NvidiaTeslaT4" if on else ""
    (provider.place / "meta.json").write_text(json.dumps(meta, indent=2))
    provider.program("kaggle", PULL)
    shown = provider.run(shell_of("NB3", "kernels pull"))
    value = str(on).lower()
    assert f'"enable_gpu": {value}' in shown and f'"enable_internet": {value}' in shown
    assert ("NvidiaTeslaT4" in shown) == on and "is_private" not in shown
