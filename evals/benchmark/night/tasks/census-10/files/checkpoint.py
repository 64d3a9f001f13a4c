"""Checkpoints: DIR/ckpt_stepN.pth, written by rank 0; the newest five are kept."""
import glob
import io
import os
import time

import torch

DISK_MB_S = 6.0  # for the trial: the disk, as slow as it is for the real model


class SlowFile(io.RawIOBase):
    """For the trial: a file on a slow disk."""

    def __init__(self, path):
        self.file = open(path, "wb", buffering=0)

    def writable(self):
        return True

    def write(self, data):
        return self.piece(data)

    def piece(self, data):
        time.sleep(len(data) / 1e6 / DISK_MB_S)
        return self.file.write(data)

    def close(self):
        if not self.closed:
            super().close()
            self.file.close()


def write(path, state):
    with io.BufferedWriter(SlowFile(path), 1 << 17) as f:
        torch.save(state, f)


def save_checkpoint(save_dir, model, optimizer, step, epoch, best_loss, tokens_seen, max_keep=5):
    """Saves the state of the training under the step's number, keeps only the newest max_keep."""
    os.makedirs(save_dir, exist_ok=True)
    raw_model = model.module if hasattr(model, "module") else model
    path = os.path.join(save_dir, f'ckpt_step{step}.pth')
    write(path, {
        'model_state_dict': raw_model.state_dict(),
        'optimizer_state': optimizer.state_dict(),
        'step': step,
        'epoch': epoch,
        'best_loss': best_loss,
        'tokens_seen': tokens_seen,
        'model_config': {
            'vocab_size': raw_model.vocab_size,
            'D': raw_model.D,
            'num_layers': raw_model.num_layers,
            'D_ff': raw_model.D_ff,
        },
    })
    print(f"  -> Checkpoint saved: {path}")
    ckpts = sorted(glob.glob(os.path.join(save_dir, 'ckpt_step*.pth')))
    while len(ckpts) > max_keep:
        old = ckpts.pop(0)
        os.remove(old)
        print(f"  -> Removed old checkpoint: {old}")


def load_checkpoint(path, model, optimizer, rank):
    """Loads a checkpoint; returns step, epoch and tokens seen."""
    if rank == 0:
        print(f"Loading checkpoint from {path}...")
    ckpt = torch.load(path, map_location="cpu", weights_only=False)
    raw_model = model.module if hasattr(model, "module") else model
    raw_model.load_state_dict(ckpt['model_state_dict'], strict=False)
    try:
        optimizer.load_state_dict(ckpt['optimizer_state'])
    except (ValueError, KeyError):
        if rank == 0:
            print("  Warning: Optimizer state incompatible, starting fresh.")
    step, epoch, tokens_seen = ckpt.get('step', 0), ckpt.get('epoch', 0), ckpt.get('tokens_seen', 0)
    if rank == 0:
        print(f"  Resumed: step={step}, epoch={epoch}, tokens={tokens_seen:,}")
    return step, epoch, tokens_seen
