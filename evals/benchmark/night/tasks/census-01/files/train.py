"""Compares positional encodings: one GPT after the other, each with another encoding.

    python3 train.py
    python3 train.py --init_from=resume
    python3 train.py --embedding_types="['sinusoidal']" --max_iters=50
"""
import math
import os
import time

import torch
from tqdm.auto import tqdm

import trial
from data import Batches
from model import GPT, GPTConfig

# -----------------------------------------------------------------------------
# I/O
out_dir = 'out'
eval_interval = 10
log_interval = 1
eval_iters = 2
always_save_checkpoint = True
init_from = 'scratch'  # 'scratch' | 'resume' | 'checkpoint'
checkpoint_path = ''   # for 'checkpoint'
# data
gradient_accumulation_steps = 2
batch_size = 4
block_size = 64
# model
n_layer = 3
n_head = 4
n_embd = 96
dropout = 0.0
bias = False
# adamw optimizer
learning_rate = 6e-4
max_iters = 50
weight_decay = 1e-1
beta1 = 0.9
beta2 = 0.95
grad_clip = 1.0
# learning rate decay settings
decay_lr = True
warmup_iters = 5
lr_decay_iters = 50
min_lr = 6e-5
# Positional encodings, one training each
embedding_types = ['learned', 'sinusoidal']
attention_types = ['default']
seed = 1337
# -----------------------------------------------------------------------------
config_keys = [k for k, v in globals().items()
               if not k.startswith('_') and isinstance(v, (int, float, bool, str, list))]
exec(open('configurator.py').read())
config = {k: globals()[k] for k in config_keys}
# -----------------------------------------------------------------------------
ALL_TYPES = ['learned', 'sinusoidal']


def get_lr(it):
    if it < warmup_iters:
        return learning_rate * it / warmup_iters
    if it > lr_decay_iters:
        return min_lr
    ratio = (it - warmup_iters) / (lr_decay_iters - warmup_iters)
    return min_lr + 0.5 * (1.0 + math.cos(math.pi * ratio)) * (learning_rate - min_lr)


def main():
    torch.set_num_threads(1)
    print(f"Tokens per iteration will be: {gradient_accumulation_steps * batch_size * block_size:,}")
    os.makedirs(out_dir, exist_ok=True)
    batches = Batches(block_size, batch_size)

    @torch.no_grad()
    def estimate_loss(model):
        out = {}
        model.eval()
        for split in ('train', 'val'):
            losses = [model(*batches.get_batch(split))[1].item() for _ in range(eval_iters)]
            out[split] = sum(losses) / len(losses)
        model.train()
        return out

    for embedding_type in embedding_types:
        for attention_type in attention_types:
            model_args = dict(n_layer=n_layer, n_head=n_head, n_embd=n_embd, block_size=block_size,
                              bias=bias, vocab_size=96, dropout=dropout,
                              embedding_type=embedding_type, attention_type=attention_type)
            iter_num, best_val_loss, checkpoint = 0, 1e9, None
            ckpt_path = os.path.join(out_dir, f"ckpt_{embedding_type}_{attention_type}.pt")

            if init_from == 'scratch':
                print(f"\nInitializing new model with embedding_type={embedding_type}, "
                      f"attention_type={attention_type}")
                model = GPT(GPTConfig(**model_args))
            elif init_from in ('resume', 'checkpoint'):
                path = ckpt_path if init_from == 'resume' else checkpoint_path
                if not path or not os.path.exists(path):
                    raise FileNotFoundError(f"Checkpoint not found at {path}")
                print(f"\nResuming training from checkpoint {path}")
                checkpoint = torch.load(path, map_location='cpu', weights_only=False)
                model = GPT(GPTConfig(**checkpoint['model_args']))
                model.load_state_dict(checkpoint['model'])
                iter_num = checkpoint['iter_num']
                best_val_loss = checkpoint['best_val_loss']
            else:
                raise ValueError(f"Unknown init_from '{init_from}'")

            torch.manual_seed(seed)
            optimizer = model.configure_optimizers(weight_decay, learning_rate, (beta1, beta2))
            if checkpoint is not None:
                optimizer.load_state_dict(checkpoint['optimizer'])

            def update(lr):
                for group in optimizer.param_groups:
                    group['lr'] = lr
                for _ in range(gradient_accumulation_steps):
                    _, loss = model(*batches.get_batch('train'))
                    (loss / gradient_accumulation_steps).backward()
                if grad_clip != 0.0:
                    torch.nn.utils.clip_grad_norm_(model.parameters(), grad_clip)
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
                return loss.item()

            first = ALL_TYPES.index(embedding_type) * 51
            t0 = time.time()
            progress_bar = tqdm(total=max_iters, initial=iter_num,
                                desc=f"Training {embedding_type} + {attention_type}")
            while True:
                lr = get_lr(iter_num) if decay_lr else learning_rate

                # evaluate and checkpoint
                if iter_num % eval_interval == 0 and iter_num > 0:
                    losses = estimate_loss(model)
                    print(f"\nStep {iter_num}:")
                    print(f"Train loss: {losses['train']:.4f}, Val loss: {losses['val']:.4f}")
                    if losses['val'] < best_val_loss or always_save_checkpoint:
                        best_val_loss = losses['val']
                        print(f"Saving checkpoint to {ckpt_path}")
                        trial.save({
                            'model': model.state_dict(),
                            'optimizer': optimizer.state_dict(),
                            'model_args': model_args,
                            'iter_num': iter_num,
                            'best_val_loss': best_val_loss,
                            'config': config,
                            'seed': seed,
                        }, ckpt_path)

                lossf = trial.gpu_step(first + iter_num, update, lr)

                t1 = time.time()
                dt, t0 = t1 - t0, t1
                if iter_num % log_interval == 0:
                    progress_bar.set_postfix({'loss': f"{lossf:.4f}", 'lr': f"{lr:.2e}",
                                              'time_per_iter_ms': f"{dt * 1000:.2f}ms"})
                iter_num += 1
                progress_bar.update(1)
                if iter_num > max_iters:
                    break
            progress_bar.close()


if __name__ == '__main__':
    main()
