import io
import logging
import os
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn


class FullModel(nn.Module):
    """The network with its loss, so that both are computed where the data is."""

    def __init__(self, model, ignore_label):
        super().__init__()
        self.model = model
        self.sem_loss = nn.CrossEntropyLoss(ignore_index=ignore_label)

    def forward(self, inputs, labels):
        outputs = self.model(inputs)
        valid = labels < outputs.shape[1]
        acc = (outputs.argmax(1) == labels)[valid].float().mean()
        return self.sem_loss(outputs, labels), outputs, acc


class AverageMeter(object):
    def __init__(self):
        self.sum, self.count = 0, 0

    def update(self, val):
        self.sum += val
        self.count += 1

    def average(self):
        return self.sum / self.count


def create_logger(cfg, cfg_name, phase='train'):
    cfg_name = os.path.basename(cfg_name).split('.')[0]
    final_output_dir = Path(cfg.OUTPUT_DIR) / cfg.DATASET.DATASET / cfg_name
    print('=> creating {}'.format(final_output_dir))
    final_output_dir.mkdir(parents=True, exist_ok=True)
    log_file = '{}_{}_{}.log'.format(cfg_name, time.strftime('%Y-%m-%d-%H-%M'), phase)
    logging.basicConfig(filename=str(final_output_dir / log_file), format='%(asctime)-15s %(message)s')
    logger = logging.getLogger()
    logger.setLevel(logging.INFO)
    logging.getLogger('').addHandler(logging.StreamHandler())
    return logger, str(final_output_dir)


def get_confusion_matrix(label, pred, num_class, ignore):
    pred, label = pred.argmax(1).numpy(), label.numpy()
    there = label != ignore
    index = label[there] * num_class + pred[there]
    return np.bincount(index, minlength=num_class ** 2).reshape(num_class, num_class)


def adjust_learning_rate(optimizer, base_lr, max_iters, cur_iters, power=0.9):
    lr = base_lr * ((1 - float(cur_iters) / max_iters) ** power)
    optimizer.param_groups[0]['lr'] = lr
    return lr


class SlowFile(io.RawIOBase):
    """For the trial: a file on a disk that is as slow as the real one is for the real model."""

    def __init__(self, path, mb_s):
        self.file, self.mb_s = open(path, "wb", buffering=0), mb_s

    def writable(self):
        return True

    def write(self, data):
        return self.piece(data)

    def piece(self, data):
        time.sleep(len(data) / 1e6 / self.mb_s)
        return self.file.write(data)

    def close(self):
        if not self.closed:
            super().close()
            self.file.close()


def save(state, path, mb_s):
    with io.BufferedWriter(SlowFile(path, mb_s), 1 << 17) as f:
        torch.save(state, f)
