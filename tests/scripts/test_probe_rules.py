"""What the probe says about small programs, many of them in one process: the failures that prove themselves, and their healthy likes."""

import json
import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT, module

PROBE = ROOT / "scripts/probe.py"

# Runs each program of a folder under a fresh probe, and writes its report beside it.
DRIVER = """
import importlib.util, json, pathlib, sys
spec = importlib.util.spec_from_file_location("_rgt_probe", sys.argv[1])
probe = importlib.util.module_from_spec(spec)
spec.loader.exec_module(probe)
import torch
library = torch.library.Library("torchvision", "DEF")  # transformers imports a torchvision that may be of another build
for operator in ("nms", "qnms"):
    library.define(operator + "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
for path in sorted(pathlib.Path(sys.argv[2]).glob("*.py")):
    folder = path.with_suffix("")
    folder.mkdir()
    watch = probe.Watch(str(folder), 30, probe.CLASSES)
    probe.attach(watch, torch)
    try:
        exec(compile(path.read_text(), str(path), "exec"), {"__name__": "__main__"})
    except Exception as error:
        raise RuntimeError(path.name) from error
    watch.finish()
    watch.over = True
    watch.tidy()
    path.with_suffix(".json").write_text(json.dumps(probe.report_of(str(folder), 0)))
"""
HEAD = """
import torch
import torch.nn.functional as F
from torch import nn
torch.manual_seed(0)
x = torch.randn(640, 16)
y = (x @ torch.randn(16, 5)).argmax(1)

def fit(model, optimizer, scheduler=None, steps=32, loss_of=None):
    for step in range(steps):
        rows = slice(20 * step % 640, 20 * step % 640 + 20)
        optimizer.zero_grad()
        scores = model(x[rows])
        loss = loss_of(scores, y[rows]) if loss_of else F.cross_entropy(scores, y[rows])
        loss.backward()
        optimizer.step()
        if scheduler:
            scheduler.step()

def net(width=32):
    return nn.Sequential(nn.Linear(16, width), nn.GELU(), nn.Linear(width, width), nn.GELU(), nn.Linear(width, 5))
"""
LORA = """
class Lora(nn.Module):
    def __init__(self, base, zero=False):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.lora_A = nn.Linear(base.in_features, 4, bias=False)
        self.lora_B = nn.Linear(4, base.out_features, bias=False)
        nn.init.zeros_(self.lora_B.weight)
        if zero:
            nn.init.zeros_(self.lora_A.weight)
    def forward(self, x):
        return self.base(x) + self.lora_B(self.lora_A(x))
"""
LOOP = """
model = net()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for step in range(32):
    rows = slice(20 * step, 20 * step + 20)
    BODY
"""
SWIGLU = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.up, self.down = (nn.Linear(16, 64, bias=False), nn.Linear(16, 64, bias=False), nn.Linear(64, 16, bias=False))
        nn.init.zeros_(self.gate.weight)
        self.gate.weight.data[3] = 1.0
    def forward(self, x):
        return x + self.down(F.silu(self.gate(x)) * self.up(x))
model = nn.Sequential(Block(), nn.Linear(16, 5))
fit(model, torch.optim.AdamW(model.parameters(), lr=1e-3))
"""
ROUTED = """
class Mixture(nn.Module):
    def __init__(self):
        super().__init__()
        self.choose = nn.Linear(16, 8)
        self.choose.bias.data[3] = 6.0
        self.experts = nn.ModuleList(nn.Linear(16, 16) for _ in range(8))
    def forward(self, x):
        weights, chosen = torch.topk(self.choose(x).softmax(-1), 2)
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            rows, place = (chosen == i).nonzero(as_tuple=True)
            out[rows] += weights[rows, place, None] * expert(x[rows])
        return x + out
model = nn.Sequential(Mixture(), nn.Linear(16, 5))
fit(model, torch.optim.AdamW(model.parameters(), lr=1e-3))
"""

# One group has no rate, the other has.
OWN_RATE = """
class Own(torch.optim.Optimizer):
    def __init__(self, groups, moved):
        super().__init__(groups, {"lr": 0.05})
        self.moved = moved
    def step(self, closure=None):
        with torch.no_grad():
            for group in self.param_groups[:self.moved]:
                for parameter in group["params"]:
                    parameter -= 0.05 * parameter.grad
model = net()
groups = [{"params": model[0].parameters(), "lr": None}, {"params": model[2:].parameters()}]
"""

# name: (program, what it says: [entry, level] of each finding, verdict)
FAILING = {
    "zero_grad between backward and step": (LOOP.replace("BODY", "loss = F.cross_entropy(model(x[rows]), y[rows]); loss.backward(); optimizer.zero_grad(); optimizer.step()"), [["O4", "wrong"]]),
    "a group stands still beside one whose rate nobody can read": (OWN_RATE + "fit(model, Own(groups, moved=1))", [["O2", "wrong"], ["O7", "hint"]]),
    "gradients set to zero before the step": (LOOP.replace("BODY", "loss = F.cross_entropy(model(x[rows]), y[rows]); loss.backward(); optimizer.zero_grad(set_to_none=False); optimizer.step()"), [["O4", "wrong"]]),
    "everything is detached": (LOOP.replace("BODY", "loss = F.cross_entropy(model(x[rows]).detach().requires_grad_(), y[rows]); optimizer.zero_grad(); loss.backward(); optimizer.step()"), [["O3", "wrong"]]),
    "every gradient is exactly zero": (LOOP.replace("BODY", "loss = 1 + 0 * F.cross_entropy(model(x[rows]), y[rows]); optimizer.zero_grad(); loss.backward(); optimizer.step()"), [["O1", "hint"], ["O3", "wrong"]]),
    "adapters that both begin at zero": (LORA + "model = nn.Sequential(Lora(nn.Linear(16, 32), True), nn.GELU(), Lora(nn.Linear(32, 5), True)); fit(model, torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3))", [["O21", "wrong"]]),
    "dead adapters beside a head that trains": (LORA + "model = nn.Sequential(Lora(nn.Linear(16, 32), True), nn.GELU(), nn.Linear(32, 5)); fit(model, torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3))", [["O21", "wrong"]]),
    "the optimizer holds another model": ("model, other = net(), net(); optimizer = torch.optim.AdamW(other.parameters(), lr=1e-3); fit(model, optimizer, loss_of=lambda s, t: (model.zero_grad(), F.cross_entropy(s, t))[1])", [["O2", "wrong"]]),
    "one of two equal models stands still": ("""
generator, critic = (nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 16)) for _ in range(2))
one, two = (torch.optim.AdamW(m.parameters(), lr=1e-3) for m in (generator, critic))
for step in range(32):
    two.zero_grad()
    critic(generator(x).detach()).square().mean().backward()
    two.zero_grad()
    two.step()
    one.zero_grad()
    critic(generator(x)).square().mean().backward()
    one.step()
""", [["O4", "hint"]]),
    "a head made after the optimizer": ("model = net(); optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3); model[4] = nn.Linear(32, 5); fit(model, optimizer)", [["O2", "wrong"]]),
    "an auxiliary loss that nobody adds": ("""
class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head, self.aux = nn.Linear(16, 32), nn.Linear(32, 5), nn.Linear(32, 2)
    def forward(self, x):
        hidden = self.body(x).relu()
        return self.head(hidden), self.aux(hidden)
model = Two()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(32):
    scores, other = model(x[:64])
    loss, auxiliary = F.cross_entropy(scores, y[:64]), F.cross_entropy(other, y[:64] % 2)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""", [["O3", "wrong"]]),
    "an encoder cut off from the loss": ("body, head = nn.Sequential(nn.Linear(16, 32), nn.ReLU()), nn.Linear(32, 5); model = lambda x: head(body(x).detach()); fit(model, torch.optim.AdamW([*body.parameters(), *head.parameters()], lr=1e-3))", [["O3", "hint"]]),
    "a router without balance": (ROUTED, [["MOE2", "hint"]]),
    "a rate of a millionth of the right one": ("model = net(); fit(model, torch.optim.AdamW(model.parameters(), lr=1e-10))", [["O7", "hint"]]),
    "a rate a thousand times too high": ("model = net(); fit(model, torch.optim.AdamW(model.parameters(), lr=3.0))", [["O22", "hint"]]),
    "an optimizer whose step does nothing": ("""
class Lazy(torch.optim.Optimizer):
    def __init__(self, parameters):
        super().__init__(parameters, {"lr": 0.1})
    def step(self, closure=None):
        pass
model = net()
fit(model, Lazy(model.parameters()))
""", [["O2", "wrong"], ["O7", "hint"]]),
    "rewards that are all zero so far": ("""
model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(32):
    chosen = torch.distributions.Categorical(logits=model(x[:20]))
    loss = -(chosen.log_prob(chosen.sample()) * torch.zeros(20)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""", [["O1", "hint"]]),
}  # fmt: skip

# name: a program that is sound: nothing of level wrong or hint may be said about it
HEALTHY = {
    "a convolution's bias before batch norm": """
images = torch.randn(640, 3, 16, 16)
model = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 5))
x = images
fit(model, torch.optim.SGD(model.parameters(), lr=0.001))
""",
    "the same under Adam": """
images = torch.randn(640, 3, 8, 8)
model = nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Flatten(), nn.Linear(576, 5))
x = images
fit(model, torch.optim.AdamW(model.parameters(), lr=0.001))
""",
    "a key's bias in attention": """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o, self.head = (nn.Linear(16, n) for n in (16, 16, 16, 16, 5))
    def forward(self, x):
        x = x.view(-1, 4, 16)
        q, k, v = (f(x).unsqueeze(1) for f in (self.q, self.k, self.v))
        x = x + self.o(F.scaled_dot_product_attention(q, k, v).squeeze(1))
        return self.head(x.mean(1))
model = Model()
y = y[:160]
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(32):
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    optimizer.step()
""",
    "a SwiGLU layer named gate": SWIGLU,
    "adapters by hand": LORA + "model = nn.Sequential(Lora(nn.Linear(16, 32)), nn.GELU(), Lora(nn.Linear(32, 5))); fit(model, torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=5e-3))",
    "two small matrices": "model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 5)); fit(model, torch.optim.AdamW(model.parameters(), lr=1e-2))",
    "warm-up from zero": "model = net(); o = torch.optim.AdamW(model.parameters(), lr=3e-2); fit(model, o, torch.optim.lr_scheduler.LambdaLR(o, lambda n: min(1, n / 20)))",
    "a long warm-up from zero": "model = net(); o = torch.optim.AdamW(model.parameters(), lr=1e-4); fit(model, o, torch.optim.lr_scheduler.LambdaLR(o, lambda n: min(1, n / 10000)))",
    "an optimizer that is built and not used yet": """
model, critic = net(), net()
optimizer, later = (torch.optim.AdamW(m.parameters(), lr=1e-3) for m in (model, critic))
fit(model, optimizer, loss_of=lambda s, t: F.cross_entropy(s, t) + 0.01 * critic(x[:20]).square().mean())
""",
    "a group with rate zero": "model = net(); fit(model, torch.optim.AdamW([{'params': model[0].parameters(), 'lr': 0.0}, {'params': model[2:].parameters()}], lr=1e-3))",
    "frozen parts in the optimizer": "model = net(); model[0].requires_grad_(False); fit(model, torch.optim.AdamW(model.parameters(), lr=1e-3))",
    "accumulation": """
model = net()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(128):
    (F.cross_entropy(model(x[5 * step:5 * step + 5]), y[5 * step:5 * step + 5]) / 4).backward()
    if step % 4 == 3:
        optimizer.step()
        optimizer.zero_grad()
""",
    "a scaler that skips the first steps": """
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16)
for step in range(40):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x[:64]), y[:64])
    scaler.scale(loss).backward()
    if step < 3:
        model[0].weight.grad[0, 0] = float("inf")
    scaler.step(optimizer)
    scaler.update()
""",
    "no rate in the groups": """
class Own(torch.optim.AdamW):
    def step(self, closure=None):
        for group in self.param_groups:
            group["lr"] = 1e-3
        super().step(closure)
        for group in self.param_groups:
            group["lr"] = None
model = net()
optimizer = Own(model.parameters(), lr=1e-3)
for group in optimizer.param_groups:
    group["lr"] = None
fit(model, optimizer)
""",
    "a group whose rate nobody can read": OWN_RATE + "fit(model, Own(groups, moved=2))",
    "Adafactor": """
from transformers import Adafactor
model = net()
fit(model, Adafactor(model.parameters(), scale_parameter=True, relative_step=True, warmup_init=True, lr=None))
""",
    "an unused pooler": """
class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.pooler, self.head = nn.Linear(16, 32), nn.Linear(32, 32), nn.Linear(32, 5)
    def forward(self, x):
        hidden = self.body(x).relu()
        pooled = self.pooler(hidden).tanh()
        return self.head(hidden)
model = Encoder()
fit(model, torch.optim.AdamW(model.parameters(), lr=1e-3))
""",
    "weights exported while training": """
import io
model = net()
o = torch.optim.AdamW(model.parameters(), lr=1e-3)
for _ in range(4):
    fit(model, o, steps=8)
    torch.save(model.state_dict(), io.BytesIO())
""",
    "Adam with a weight decay": "model = net(); fit(model, torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-5))",
    "checkpointing on a large host": """
from torch.utils.checkpoint import checkpoint
model = net()
fit(lambda x: model[4](checkpoint(model[:4], x, use_reentrant=False)), torch.optim.AdamW(model.parameters(), lr=1e-3))
""",
    "a metric under gradients": "model = net(); fit(model, torch.optim.AdamW(model.parameters(), lr=1e-3), loss_of=lambda s, t: (F.mse_loss(s, F.one_hot(t, 5).float()), F.cross_entropy(s, t))[1])",
    "a classifier whose answers are argmax": "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.gate = nn.Linear(16, 5)\n    def forward(self, x):\n        s = self.gate(x)\n        self.best = s.argmax(-1)\n        return s\ny = torch.zeros_like(y); y[::7] = 1\nmodel = Net(); fit(model, torch.optim.AdamW(model.parameters(), lr=1e-2))",
    "a few steps": "model = net(); fit(model, torch.optim.AdamW(model.parameters(), lr=1e-3), steps=2)",
    "two models of equal names": "one, two = net(), net()\nfor model in (one, two): fit(model, torch.optim.AdamW(model.parameters(), lr=1e-3), steps=16)",
}  # fmt: skip
PROGRAMS = {name: text for name, (text, _) in FAILING.items()} | HEALTHY


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """{name of a program: its report}."""
    module("torch", "pip install -e '.[proofs]'")
    folder = tmp_path_factory.mktemp("programs")
    for place, text in enumerate(PROGRAMS.values()):
        (folder / f"{place:03}.py").write_text(HEAD + text)
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, PROBE, folder],
        capture_output=True,
        text=True,
        timeout=600,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    return {
        name: json.loads((folder / f"{place:03}.json").read_text())
        for place, name in enumerate(PROGRAMS)
    }


def said(report):
    """[entry, level] of what changes the verdict."""
    return sorted([one["id"], one["level"]] for one in report["findings"] if one["level"] != "note")


@pytest.mark.parametrize("name", FAILING)
def test_what_fails_is_named(reports, name):
    expected = FAILING[name][1]
    assert said(reports[name]) == expected, reports[name]["findings"]
    levels = {level for _, level in expected}
    assert reports[name]["verdict"] == ("wrong" if "wrong" in levels else "suspicious")


@pytest.mark.parametrize("name", HEALTHY)
def test_what_is_healthy_keeps_its_verdict(reports, name):
    assert said(reports[name]) == [], reports[name]["findings"]
    assert reports[name]["verdict"] == "sound"
    broken = {n: s for n, s in reports[name]["observations"].items() if "Error" in s.get("why", "")}
    assert not broken


@pytest.mark.parametrize(
    "name, state, told",
    [
        ("a group whose rate nobody can read", "sound", "Own, lr=None"),
        ("Adafactor", "sound", "Adafactor, lr=None"),
        ("a group stands still beside one whose rate nobody can read", "found", "Own, lr=None"),
        ("Adam with a weight decay", "sound", ""),
    ],
)
def test_of_the_parameters_only_a_group_without_a_rate_is_not_looked_at(reports, name, state, told):
    looked = reports[name]["observations"]["parameters"]
    partly = f"parameter groups whose rate isn't a number ({told})" if told else None
    assert looked["state"] == state and looked.get("partly") == partly and "why" not in looked
    if state == "found" and told:
        (one,) = [one for one in reports[name]["findings"] if one["id"] == "O2"]
        assert one["numbers"]["parameters"] == ["2.weight", "4.weight"]
