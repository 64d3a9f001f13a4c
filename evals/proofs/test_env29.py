"""ENV29: the apex of PyPI and one without compiled parts, what the check says of both, and torch's own calls in apex's place.

Neither package is installed: folders stand in for them, with the lines at which the real ones stop.
"""

import shlex

import pytest
import torchvision_operators
from check_code import span

torch = pytest.importorskip("torch", minversion="2.4")

WEB = "from pyramid.session import UnencryptedCookieSessionFactoryConfig\n"
PYTHON_ONLY = """
import importlib


class FusedLayerNorm:
    def __init__(self, size):
        importlib.import_module("fused_layer_norm_cuda")
"""

TRAINER = f"""
{torchvision_operators.CODE}
from transformers import Trainer
print(Trainer.__name__)
"""


@pytest.fixture
def install(tmp_path):
    def put(version: str, files: dict[str, str]) -> None:
        info = tmp_path / f"apex-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: apex\nVersion: {version}\n")
        (info / "RECORD").write_text("".join(f"{name},,\n" for name in files))
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)

    return put


def check(run_apart) -> tuple[str, bool, bool]:
    """The version, whether the compiled part is there, and whether apex has a folder `amp`."""
    said = run_apart(shlex.split(span("ENV29", "importlib.metadata"))[2]).stdout.strip()
    version, rest = said.split(" ", 1)
    return version, not rest.startswith("None "), "'amp'" in rest


def test_the_web_package(install, run_apart, says, tmp_path):
    install("0.9.10.dev0", {"apex/__init__.py": WEB})
    (tmp_path / "pyramid" / "session").mkdir(parents=True)
    says("ENV29", run_apart("from apex import amp").stderr)
    assert check(run_apart) == ("0.9.10.dev0", False, False)
    trainer = run_apart(TRAINER)  # reads no apex any more
    assert trainer.stdout.strip() == "Trainer", trainer.stderr[-500:]


def test_a_newer_one_has_no_amp(install, run_apart, says):
    install("0.1", {"apex/__init__.py": "", "amp_C.cpython-311-x86_64-linux-gnu.so": ""})
    says("ENV29", run_apart("from apex import amp").stderr)
    says("ENV29", run_apart("import apex; apex.amp.initialize").stderr)
    says("ENV29", run_apart("from apex.parallel import DistributedDataParallel").stderr)
    assert check(run_apart) == ("0.1", True, False)


def test_one_without_compiled_parts(install, run_apart, says):
    install(
        "0.1",
        {"apex/__init__.py": "", "apex/amp/__init__.py": "", "apex/normalization.py": PYTHON_ONLY},
    )
    says("ENV29", run_apart("from apex.normalization import FusedLayerNorm as N; N(8)").stderr)
    assert check(run_apart) == ("0.1", False, True)


def test_a_whole_one_shows_both_parts(install, run_apart):
    compiled = "amp_C.cpython-311-x86_64-linux-gnu.so"
    install("0.1", {"apex/__init__.py": "", "apex/amp/__init__.py": "", compiled: ""})
    assert check(run_apart) == ("0.1", True, True)


@pytest.mark.parametrize(
    "text",
    [
        "Please install apex from https://www.github.com/nvidia/apex to use fp16 training.",
        "AttributeError: module 'apex ' has no attribute 'amp'",
        "ModuleNotFoundError: No module named 'amp_C'",
        "RuntimeError: apex.optimizers.FusedLAMB requires cuda extensions",
        "ModuleNotFoundError: No module named 'apex'",
        "AttributeError: module 'apex.amp' has no attribute 'initialize'",
    ],
)
def test_texts_of_other_versions(text, says):
    says("ENV29", text)


@pytest.mark.parametrize("kind", ["bfloat16", "float16"])
def test_torch_in_place_of_amp(kind):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.LayerNorm(8), torch.nn.Linear(8, 1))
    opt = torch.optim.AdamW(model.parameters(), 0.05, weight_decay=0, fused=True)
    scaler = torch.amp.GradScaler("cpu", enabled=kind == "float16")
    x = torch.randn(64, 4)
    losses = []
    for _ in range(40):
        opt.zero_grad()
        with torch.autocast("cpu", dtype=getattr(torch, kind)):
            out = model(x)
            assert out.dtype == getattr(torch, kind)
            loss = (out.float() - x.sum(1, keepdim=True)).pow(2).mean()
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(opt)
        scaler.update()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 4


def test_old_checkpoints_fit_torchs_layers():
    norm = torch.nn.LayerNorm(8)
    norm.load_state_dict({"weight": torch.full((8,), 2.0), "bias": torch.ones(8)})
    assert norm.eps == 1e-5
    torch.nn.RMSNorm(8, eps=1e-5).load_state_dict({"weight": torch.ones(8)})


def test_weight_decay_has_another_default():
    assert torch.optim.AdamW([torch.zeros(1, requires_grad=True)]).defaults["weight_decay"] == 0.01
