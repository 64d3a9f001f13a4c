"""In a loader's worker: the states of its random generators around the first batches."""

import functools
import hashlib
import json
import os
import random
import sys
import time

FETCHES = 2  # batches of each worker that are looked at


def state_of(generator):
    """A hash of a generator's state, or None for anything else. The state isn't changed."""
    kind = type(generator).__module__ + "." + type(generator).__name__
    if kind == "random.Random":
        text = repr(generator.getstate())
    elif kind == "torch._C.Generator" or kind == "torch.Generator":
        text = repr(generator.get_state().tolist())
    elif kind.startswith("numpy.random") and hasattr(generator, "bit_generator"):
        text = repr(generator.bit_generator.state)
    elif kind.startswith("numpy.random") and hasattr(generator, "get_state"):
        text = repr(
            [
                part if isinstance(part, (int, float, str)) else part.tolist()
                for part in generator.get_state()
            ]
        )
    else:
        return None
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def generators(dataset):
    """path -> state, of the generators in a dataset and of the process's own."""
    import torch

    found = {
        "random": hashlib.sha256(repr(random.getstate()).encode()).hexdigest()[:16],
        "torch": state_of(torch.default_generator),
    }
    numpy = sys.modules.get("numpy")
    if numpy is not None and "numpy.random" in sys.modules:
        found["numpy.random"] = state_of(numpy.random.mtrand._rand)
    todo, known = [("dataset", dataset, 0)], set()
    while todo and len(known) < 300:
        path, thing, depth = todo.pop()
        if id(thing) in known:
            continue
        known.add(id(thing))
        state = state_of(thing)
        if state:
            found[path] = state
        elif depth < 4 and isinstance(thing, (list, tuple)) and len(thing) <= 32:
            todo += [(f"{path}[{i}]", one, depth + 1) for i, one in enumerate(thing)]
        elif depth < 4 and not isinstance(thing, (torch.Tensor, type)):
            held = getattr(thing, "__dict__", None)
            if isinstance(held, dict) and not callable(getattr(thing, "mro", None)):
                todo += [(path + "." + str(k), v, depth + 1) for k, v in list(held.items())[:64]]
    return found


class Workers:
    """Writes the states of one worker, for the parent to compare with its neighbours'."""

    def __init__(self, folder):
        self.folder, self.pid, self.rows = folder, 0, []

    def around(self, original):
        """The fetch of a map-style dataset, with a look before and after it."""
        workers = self

        @functools.wraps(original)
        def fetch(fetcher, *args, **kwargs):
            import torch

            worker = torch.utils.data.get_worker_info()
            if worker is None:
                return original(fetcher, *args, **kwargs)
            if workers.pid != os.getpid():
                workers.pid, workers.rows = os.getpid(), []
            if len(workers.rows) >= FETCHES:
                return original(fetcher, *args, **kwargs)
            before = workers.look(fetcher)
            result = original(fetcher, *args, **kwargs)
            workers.note(worker, before, workers.look(fetcher))
            return result

        return fetch

    def look(self, fetcher):
        """The states, or nothing where they can't be read."""
        try:
            return generators(fetcher.dataset)
        except Exception:
            return {}

    def note(self, worker, before, after):
        """Write them."""
        self.rows.append({path: [state, after.get(path)] for path, state in before.items()})
        name = f"worker-{os.getppid()}-{worker.id}-{os.getpid()}.json"
        path = os.path.join(self.folder, name)
        try:
            with open(path + ".part", "w", encoding="utf-8") as handle:
                json.dump(
                    {
                        "trainer": os.getppid(),
                        "worker": worker.id,
                        "of": worker.num_workers,
                        "time": time.time(),
                        "rows": self.rows,
                    },
                    handle,
                )
            os.replace(path + ".part", path)
        except OSError:
            pass
