"""tools/train.py, but so that it can resume: it validates in its first epoch (else it knows no mean_IoU),
saves best.pt before the checkpoint that counts on it, and only whole files without nan replace others."""
import os
import sys

sys.path.insert(0, "tools")
import utils.utils

write = utils.utils.save


def save(state, path, mb_s):
    if not all(v.isfinite().all() for v in state.get("state_dict", state).values()):
        raise FloatingPointError("nan in the weights")
    write(state, "part.pt", mb_s)
    os.replace("part.pt", path)


utils.utils.save = save
with open("tools/train.py") as f:
    source = f.read()
best = source[source.index("        if mean_IoU > best_mIoU:"):source.index("        msg = ")]
saves = "        logger.info('=> saving checkpoint"
assert "if epoch % 5 == 0:" in source and saves in source
source = source.replace(best, "").replace(saves, best + saves)
source = source.replace("if epoch % 5 == 0:", "if epoch % 5 == 0 or epoch == last_epoch:")
exec(compile(source, "tools/train.py", "exec"))
