"""train.py with --resume CHECKPOINT; a loss of nan ends it before it is saved."""
import sys

code = open("train.py").read()


def change(old, new):
    global code
    assert code.count(old) == 1, f"train.py has changed: {old}"
    code = code.replace(old, new)


change("for epoch in range(epochs):", """first = 0
if sys.argv[1:2] == ["--resume"]:
    saved = torch.load(sys.argv[2], map_location=device)
    model.load_state_dict(saved["model_state_dict"])
    optimizer.load_state_dict(saved["optimizer_state_dict"])
    first = saved["epoch"]
    print("Going on after epoch", first)
for epoch in range(first, epochs):""")
change("        epoch_loss += loss\n", """        epoch_loss += loss
        assert loss == loss, "the loss is nan"
""")
exec(compile(code, "train.py", "exec"))
