"""A worker is forked after the parent has used the card."""

import torch
import torch.multiprocessing as mp


def work(queue):
    queue.put(torch.ones(2, device="cuda").sum().item())


torch.ones(2, device="cuda").sum().item()
worker = mp.get_context("fork").Process(target=work, args=(mp.get_context("fork").Queue(),))
worker.start()
worker.join()
raise SystemExit(worker.exitcode)
