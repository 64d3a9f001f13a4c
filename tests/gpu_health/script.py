"""scripts/gpu_health.py as a module, for the tests that call its functions."""

from tests.conftest import ROOT
from tests.programs import loaded

SCRIPT = ROOT / "scripts" / "gpu_health.py"
gpu_health = loaded(SCRIPT)
