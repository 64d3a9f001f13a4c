"""SNN language model pretraining with DistributedDataParallel.

    python3 -m torch.distributed.run --standalone --nproc_per_node=2 train_ddp.py
    python3 -m torch.distributed.run --standalone --nproc_per_node=2 train_ddp.py --resume checkpoints/ckpt_step40.pth
"""
import argparse
import glob
import math
import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

import trial
from dataset import PretrainDataset
from model import SNNLanguageModel


def is_main_process(rank):
    return rank == 0


def Logger(content, rank=0):
    if is_main_process(rank):
        print(content)


def get_lr(it, total_iters, learning_rate, warmup_iters):
    min_lr = learning_rate / 10
    if it < warmup_iters:
        return learning_rate * it / warmup_iters
    if it > total_iters:
        return min_lr
    ratio = (it - warmup_iters) / (total_iters - warmup_iters)
    return min_lr + 0.5 * (1.0 + math.cos(math.pi * ratio)) * (learning_rate - min_lr)


def save_checkpoint(save_dir, model, optimizer, step, epoch, best_loss, tokens_seen, max_keep=5):
    """Saves the state under a name with the step, and keeps the newest max_keep."""
    os.makedirs(save_dir, exist_ok=True)
    raw_model = model.module if isinstance(model, DDP) else model
    path = os.path.join(save_dir, f'ckpt_step{step}.pth')
    trial.save({
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
    }, path)
    print(f"  → Checkpoint saved: {path}")

    ckpts = sorted(glob.glob(os.path.join(save_dir, 'ckpt_step*.pth')))
    while len(ckpts) > max_keep:
        old = ckpts.pop(0)
        os.remove(old)
        print(f"  → Removed old checkpoint: {old}")


def load_checkpoint(path, model, optimizer, rank):
    Logger(f"Loading checkpoint from {path}...", rank)
    ckpt = torch.load(path, map_location='cpu', weights_only=False)
    raw_model = model.module if isinstance(model, DDP) else model
    raw_model.load_state_dict(ckpt['model_state_dict'], strict=False)
    try:
        optimizer.load_state_dict(ckpt['optimizer_state'])
    except (ValueError, KeyError):
        Logger("  Warning: Optimizer state incompatible, starting fresh.", rank)
    step, epoch, tokens_seen = ckpt.get('step', 0), ckpt.get('epoch', 0), ckpt.get('tokens_seen', 0)
    Logger(f"  Resumed: step={step}, epoch={epoch}, tokens={tokens_seen:,}", rank)
    return step, epoch, tokens_seen


def train_epoch(epoch, model, train_loader, sampler, optimizer, args, iter_per_epoch, tokens_seen,
                gpu, rank, world_size):
    sampler.set_epoch(epoch)
    start_time = time.time()

    def update(X, Y, loss_mask):
        mask = loss_mask.view(-1)
        loss = torch.sum(model(X, Y) * mask) / mask.sum()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), args.grad_clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.item(), mask.sum()

    for step, (X, Y, loss_mask) in enumerate(train_loader):
        lr = get_lr(epoch * iter_per_epoch + step, args.epochs * iter_per_epoch,
                    args.learning_rate, args.warmup_iters)
        for param_group in optimizer.param_groups:
            param_group['lr'] = lr

        batch_loss, valid_tokens = gpu.step(epoch * iter_per_epoch + step + 1, update, X, Y, loss_mask)
        dist.all_reduce(valid_tokens, op=dist.ReduceOp.SUM)
        tokens_seen += int(valid_tokens.item())

        if step % args.log_interval == 0 and is_main_process(rank):
            spend_time = time.time() - start_time
            print('Epoch:[{}/{}]({}/{}) loss:{:.3f} ppl:{:.1f} lr:{:.7f} TPS:{:.0f} '
                  'epoch_Time:{}min | GPUs:{}'.format(
                      epoch + 1, args.epochs, step, iter_per_epoch, batch_loss,
                      math.exp(min(batch_loss, 20.0)), lr, tokens_seen / spend_time,
                      spend_time / (step + 1) * iter_per_epoch // 60 - spend_time // 60, world_size))

        if (step + 1) % args.save_interval == 0:
            if is_main_process(rank):
                model.eval()
                save_checkpoint(args.save_dir, model, optimizer, epoch * iter_per_epoch + step + 1,
                                epoch, batch_loss, tokens_seen)
                model.train()
            dist.barrier()
    return tokens_seen


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="SNN Language Model Pretraining (DDP)")
    parser.add_argument('--vocab_size', type=int, default=512)
    parser.add_argument('--D', type=int, default=96)
    parser.add_argument('--num_layers', type=int, default=4)
    parser.add_argument('--D_ff', type=int, default=288)
    parser.add_argument('--v_th_min', type=float, default=0.1)
    parser.add_argument("--out_dir", type=str, default="checkpoints")
    parser.add_argument("--epochs", type=int, default=9)
    parser.add_argument("--batch_size", type=int, default=4, help="per rank")
    parser.add_argument("--max_length", type=int, default=16)
    parser.add_argument('--learning_rate', type=float, default=2e-3)
    parser.add_argument('--grad_clip', type=float, default=1.0)
    parser.add_argument('--warmup_iters', type=int, default=0)
    parser.add_argument("--log_interval", type=int, default=5)
    parser.add_argument("--save_interval", type=int, default=10)
    parser.add_argument('--resume', type=str, default=None)
    args = parser.parse_args()

    torch.set_num_threads(1)
    dist.init_process_group(backend="gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    gpu = trial.Gpu(rank)
    args.save_dir = args.out_dir
    os.makedirs(args.out_dir, exist_ok=True)
    torch.manual_seed(42 + rank)

    model = SNNLanguageModel(args.vocab_size, args.D, args.num_layers, args.D_ff, args.v_th_min)
    Logger(f'SNN LM parameters: {sum(p.numel() for p in model.parameters()) / 1e6:.3f} M', rank)
    model = DDP(model)
    train_ds = PretrainDataset(10 * args.batch_size * world_size, args.vocab_size, args.max_length)
    sampler = DistributedSampler(train_ds, num_replicas=world_size, rank=rank, shuffle=True)
    train_loader = DataLoader(train_ds, batch_size=args.batch_size, sampler=sampler, drop_last=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.learning_rate, betas=(0.9, 0.95))

    tokens_seen, start_epoch = 0, 0
    if args.resume:
        start_step, start_epoch, tokens_seen = load_checkpoint(args.resume, model, optimizer, rank)

    iter_per_epoch = len(train_loader)
    Logger(f"\n{'=' * 60}", rank)
    Logger(f"SNN Language Model Pretraining (DDP, {world_size} GPUs)", rank)
    Logger(f"  Model:       D={args.D}, Layers={args.num_layers}, D_ff={args.D_ff}", rank)
    Logger(f"  Samples:     {len(train_ds):,}", rank)
    Logger(f"  Epochs:      {args.epochs}", rank)
    Logger(f"  Steps/epoch: {iter_per_epoch:,}", rank)
    Logger(f"  Save every:  {args.save_interval} steps", rank)
    Logger(f"{'=' * 60}\n", rank)

    for epoch in range(start_epoch, args.epochs):
        model.train()
        tokens_seen = train_epoch(epoch, model, train_loader, sampler, optimizer, args, iter_per_epoch,
                                  tokens_seen, gpu, rank, world_size)

    if is_main_process(rank):
        Logger(f"\nTraining finished. Total tokens seen: {tokens_seen:,}", rank)
        save_checkpoint(args.save_dir, model, optimizer, args.epochs * iter_per_epoch, args.epochs - 1,
                        0.0, tokens_seen)
    dist.destroy_process_group()
