"""python3 train_qcnet.py --root data --train_batch_size 8 --val_batch_size 8 --test_batch_size 8 --devices 1"""
from argparse import ArgumentParser

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import LearningRateMonitor, TQDMProgressBar

import trial
from callbacks import TrialCheckpoint
from datamodules import ArgoverseV2DataModule
from predictors import QCNet

if __name__ == '__main__':
    torch.set_num_threads(1)
    pl.seed_everything(2023, workers=True)

    parser = ArgumentParser()
    parser.add_argument('--root', type=str, required=True)
    parser.add_argument('--train_batch_size', type=int, required=True)
    parser.add_argument('--val_batch_size', type=int, required=True)
    parser.add_argument('--test_batch_size', type=int, required=True)
    parser.add_argument('--shuffle', type=bool, default=True)
    parser.add_argument('--num_workers', type=int, default=0)
    parser.add_argument('--accelerator', type=str, default='auto')
    parser.add_argument('--devices', type=int, required=True)
    parser.add_argument('--max_epochs', type=int, default=10)
    QCNet.add_model_specific_args(parser)
    args = parser.parse_args()

    model = QCNet(**vars(args))
    datamodule = {'argoverse_v2': ArgoverseV2DataModule}[args.dataset](**vars(args))
    model_checkpoint = TrialCheckpoint(monitor='val_minFDE', save_top_k=5, mode='min')
    lr_monitor = LearningRateMonitor(logging_interval='epoch')
    trainer = pl.Trainer(accelerator=args.accelerator, devices=args.devices,
                         callbacks=[model_checkpoint, lr_monitor, TQDMProgressBar()], max_epochs=args.max_epochs)
    trainer.fit(model, datamodule)
    trial.give_back()
