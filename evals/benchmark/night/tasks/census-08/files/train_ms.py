"""Multi-speaker training.  python3 train_ms.py -c configs/base.json -m NAME

Goes on from the latest G_*.pth and D_*.pth in logs/NAME if there are any.
"""
import os
import socket

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader

import utils
from data_utils import TextAudioSpeakerLoader
from gan import Batch
from models import MultiPeriodDiscriminator, SynthesizerTrn

global_step = 0


def main():
    """Assume Single Node Multi GPUs Training Only"""
    n_gpus = torch.cuda.device_count() or 1
    with socket.socket() as s:  # a free port
        s.bind(("localhost", 0))
        port = s.getsockname()[1]
    os.environ["MASTER_ADDR"] = "localhost"
    os.environ["MASTER_PORT"] = str(port)
    hps = utils.get_hparams()
    mp.spawn(run, nprocs=n_gpus, args=(n_gpus, hps))


def run(rank, n_gpus, hps):
    global global_step
    torch.set_num_threads(1)
    logger = utils.get_logger(hps.model_dir)
    logger.info(hps)
    dist.init_process_group(backend="gloo", init_method="env://", world_size=n_gpus, rank=rank)
    torch.manual_seed(hps.train.seed)

    train_dataset = TextAudioSpeakerLoader(hps)
    train_loader = DataLoader(train_dataset, batch_size=hps.train.batch_size, shuffle=True, drop_last=True)

    net_g = SynthesizerTrn(hps.data.n_symbols, hps.data.n_speakers, hps.train.segment_size,
                           **hps.model.items())
    net_d = MultiPeriodDiscriminator()
    optim_g = torch.optim.AdamW(net_g.parameters(), hps.train.learning_rate, betas=hps.train.betas,
                                eps=hps.train.eps)
    optim_d = torch.optim.AdamW(net_d.parameters(), hps.train.learning_rate, betas=hps.train.betas,
                                eps=hps.train.eps)
    net_g, net_d = DDP(net_g), DDP(net_d)

    try:
        _, _, _, epoch_str = utils.load_checkpoint(
            utils.latest_checkpoint_path(hps.model_dir, "G_*.pth"), net_g, optim_g)
        _, _, _, epoch_str = utils.load_checkpoint(
            utils.latest_checkpoint_path(hps.model_dir, "D_*.pth"), net_d, optim_d)
        global_step = (epoch_str - 1) * len(train_loader)
    except:
        epoch_str = 1
        global_step = 0

    scheduler_g = torch.optim.lr_scheduler.ExponentialLR(optim_g, gamma=hps.train.lr_decay)
    scheduler_d = torch.optim.lr_scheduler.ExponentialLR(optim_d, gamma=hps.train.lr_decay)

    for epoch in range(epoch_str, hps.train.epochs + 1):
        train_epoch(epoch, hps, [net_g, net_d], [optim_g, optim_d], train_loader, logger)
        scheduler_g.step()
        scheduler_d.step()


def train_epoch(epoch, hps, nets, optims, train_loader, logger):
    global global_step
    batch = Batch(hps, nets, optims)
    for batch_idx, (x, y, speakers) in enumerate(train_loader):
        losses = batch.train(global_step + 1, x, y, speakers)
        if global_step % hps.train.log_interval == 0:
            logger.info("Train Epoch: {} [{:.0f}%]".format(epoch, 100.0 * batch_idx / len(train_loader)))
            logger.info([x.item() for x in losses] + [global_step, optims[0].param_groups[0]["lr"]])
        if global_step % hps.train.eval_interval == 0:
            for letter, net, optim in zip("GD", nets, optims):
                utils.save_checkpoint(
                    net, optim, hps.train.learning_rate, epoch, global_step,
                    os.path.join(hps.model_dir, "{}_{}.pth".format(letter, global_step)),
                    hps.trial.disk_mb_s)
        global_step += 1
    logger.info("====> Epoch: {}".format(epoch))


if __name__ == "__main__":
    main()
