"""Logger, optimizer, saving."""
import logging
import os
import time
from pathlib import Path

import torch

import trial


def create_logger(cfg, cfg_name, phase='train'):
    name = os.path.basename(cfg_name).split('.')[0]
    final_output_dir = Path(cfg.OUTPUT_DIR) / cfg.DATASET.DATASET / cfg.MODEL.NAME / name
    print('=> creating {}'.format(final_output_dir))
    final_output_dir.mkdir(parents=True, exist_ok=True)
    log_file = '{}_{}_{}.log'.format(name, time.strftime('%Y-%m-%d-%H-%M'), phase)
    logging.basicConfig(filename=str(final_output_dir / log_file), format='%(asctime)-15s %(message)s')
    logger = logging.getLogger()
    logger.setLevel(logging.INFO)
    logger.addHandler(logging.StreamHandler())
    return logger, str(final_output_dir)


def get_optimizer(cfg, model):
    if cfg.TRAIN.OPTIMIZER == 'adam':
        return torch.optim.Adam(model.parameters(), lr=cfg.TRAIN.LR)
    return torch.optim.SGD(model.parameters(), lr=cfg.TRAIN.LR, momentum=0.9)


def save_checkpoint(states, is_best, output_dir, filename='checkpoint.pth'):
    trial.save(states, os.path.join(output_dir, filename))
    if is_best and 'state_dict' in states:
        trial.save(states['best_state_dict'], os.path.join(output_dir, 'model_best.pth'))
