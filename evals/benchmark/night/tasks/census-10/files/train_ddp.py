"""Distributed pretraining of the spiking language model (DDP).

    python3 -m torch.distributed.run --standalone --nproc_per_node=2 train_ddp.py
    python3 -m torch.distributed.run --standalone --nproc_per_node=2 train_ddp.py --resume checkpoints/latest.pt
"""
import argparse
import math
import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

from checkpoint import load_checkpoint, save_checkpoint
from dataset import PretrainDataset
from model import SNNLanguageModel, Worker


def Logger(content, rank=0):
    if rank == 0:
        print(content)


def get_lr(it, total_iters, learning_rate, warmup_iters):
    min_lr = learning_rate / 10
    if it < warmup_iters:
        return learning_rate * it / warmup_iters
    ratio = (it - warmup_iters) / (total_iters - warmup_iters)
    return min_lr + 0.5 * (1.0 + math.cos(math.pi * ratio)) * (learning_rate - min_lr)


def train_epoch(epoch, worker, train_loader, sampler, args, tokens_seen, rank, world_size):
    sampler.set_epoch(epoch)
    start_time = time.time()
    iters = len(train_loader)
    for step, (X, Y) in enumerate(train_loader):
        lr = get_lr(epoch * iters + step, args.epochs * iters, args.learning_rate, args.warmup_iters)
        batch_loss, tokens = worker.batch(epoch * iters + step + 1, lr, X, Y)
        tokens_seen += tokens

        if step % args.log_interval == 0 and rank == 0:
            spend_time = time.time() - start_time
            print('Epoch:[{}/{}]({}/{}) loss:{:.3f} ppl:{:.1f} lr:{:.7f} TPS:{:.0f} '
                  'epoch_Time:{}min | GPUs:{}'.format(
                      epoch + 1, args.epochs, step, iters, batch_loss, math.exp(min(batch_loss, 20.0)), lr,
                      tokens_seen / spend_time,
                      spend_time / (step + 1) * iters // 60 - spend_time // 60, world_size))

        if (step + 1) % args.save_interval == 0:
            if rank == 0:
                save_checkpoint(args.out_dir, worker.model, worker.optimizer, epoch * iters + step + 1, epoch,
                                batch_loss, tokens_seen)
            dist.barrier()
    return tokens_seen


def main():
    parser = argparse.ArgumentParser(description="SNN Language Model Pretraining (DDP)")
    parser.add_argument('--vocab_size', type=int, default=256)
    parser.add_argument('--D', type=int, default=96)
    parser.add_argument('--num_layers', type=int, default=3)
    parser.add_argument('--D_ff', type=int, default=192)
    parser.add_argument("--out_dir", type=str, default="checkpoints")
    parser.add_argument("--epochs", type=int, default=9)
    parser.add_argument("--samples", type=int, default=160)
    parser.add_argument("--batch_size", type=int, default=8, help="per GPU")
    parser.add_argument("--max_length", type=int, default=24)
    parser.add_argument('--learning_rate', type=float, default=2e-3)
    parser.add_argument('--warmup_iters', type=int, default=0)
    parser.add_argument("--log_interval", type=int, default=2)
    parser.add_argument("--save_interval", type=int, default=5)
    parser.add_argument('--resume', type=str, default=None)
    args = parser.parse_args()

    torch.set_num_threads(1)
    dist.init_process_group(backend="gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    os.makedirs(args.out_dir, exist_ok=True)
    torch.manual_seed(42 + rank)

    model = SNNLanguageModel(args.vocab_size, args.D, args.D_ff, args.num_layers)
    Logger(f'SNN LM: {sum(p.numel() for p in model.parameters()) / 1e6:.3f} M parameters', rank)
    model = DDP(model)
    train_ds = PretrainDataset(args.samples, args.vocab_size, args.max_length)
    sampler = DistributedSampler(train_ds, num_replicas=world_size, rank=rank, shuffle=True)
    train_loader = DataLoader(train_ds, batch_size=args.batch_size, sampler=sampler, drop_last=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.learning_rate, betas=(0.9, 0.95))

    tokens_seen, start_epoch = 0, 0
    if args.resume:
        start_step, start_epoch, tokens_seen = load_checkpoint(args.resume, model, optimizer, rank)

    Logger(f"\n{'=' * 60}", rank)
    Logger(f"SNN Language Model Pretraining (DDP, {world_size} GPUs)", rank)
    Logger(f"  Epochs:      {args.epochs}", rank)
    Logger(f"  Steps/epoch: {len(train_loader):,}", rank)
    Logger(f"  Save every:  {args.save_interval} steps", rank)
    Logger(f"{'=' * 60}\n", rank)

    worker = Worker(model, optimizer)
    for epoch in range(start_epoch, args.epochs):
        tokens_seen = train_epoch(epoch, worker, train_loader, sampler, args, tokens_seen, rank, world_size)

    if rank == 0:
        Logger(f"\nTraining finished. Total tokens seen: {tokens_seen:,}")
        save_checkpoint(args.out_dir, model, optimizer, args.epochs * len(train_loader), args.epochs - 1, 0.0,
                        tokens_seen)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
