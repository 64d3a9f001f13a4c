import argparse
import glob
import io
import json
import logging
import os
import sys
import time

import torch

logging.basicConfig(stream=sys.stdout, level=logging.INFO)
logger = logging


class SlowFile(io.RawIOBase):
    """For the trial: a file on a disk that is as slow as the real one is for the real models."""

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


def save_checkpoint(model, optimizer, learning_rate, epoch, iteration, checkpoint_path, mb_s):
    logger.info(
        "Saving model and optimizer state at iteration {} to {}".format(iteration, checkpoint_path))
    state_dict = model.module.state_dict() if hasattr(model, "module") else model.state_dict()
    with io.BufferedWriter(SlowFile(checkpoint_path, mb_s), 1 << 17) as f:
        torch.save(
            {
                "model": state_dict,
                "epoch": epoch,
                "iteration": iteration,
                "optimizer": optimizer.state_dict(),
                "learning_rate": learning_rate,
            },
            f,
        )


def load_checkpoint(checkpoint_path, model, optimizer=None):
    assert os.path.isfile(checkpoint_path)
    checkpoint_dict = torch.load(checkpoint_path, map_location="cpu")
    iteration, learning_rate = checkpoint_dict["iteration"], checkpoint_dict["learning_rate"]
    if optimizer is not None:
        optimizer.load_state_dict(checkpoint_dict["optimizer"])
    target = model.module if hasattr(model, "module") else model
    target.load_state_dict(checkpoint_dict["model"])
    logger.info("Loaded checkpoint '{}' (iteration {})".format(checkpoint_path, iteration))
    return model, optimizer, learning_rate, checkpoint_dict["epoch"]


def latest_checkpoint_path(dir_path, regex="G_*.pth"):
    f_list = glob.glob(os.path.join(dir_path, regex))
    f_list.sort(key=lambda f: int("".join(filter(str.isdigit, f))))
    x = f_list[-1]
    print(x)
    return x


def get_hparams():
    parser = argparse.ArgumentParser()
    parser.add_argument("-c", "--config", type=str, default="./configs/base.json",
                        help="JSON file for configuration")
    parser.add_argument("-m", "--model", type=str, required=True, help="Model name")
    args = parser.parse_args()
    model_dir = os.path.join("./logs", args.model)
    os.makedirs(model_dir, exist_ok=True)
    with open(args.config) as f:
        data = f.read()
    with open(os.path.join(model_dir, "config.json"), "w") as f:
        f.write(data)
    hparams = HParams(**json.loads(data))
    hparams.model_dir = model_dir
    return hparams


def get_logger(model_dir, filename="train.log"):
    global logger
    logger = logging.getLogger(os.path.basename(model_dir))
    h = logging.FileHandler(os.path.join(model_dir, filename))
    h.setFormatter(logging.Formatter("%(asctime)s\t%(name)s\t%(levelname)s\t%(message)s"))
    logger.addHandler(h)
    return logger


class HParams:
    def __init__(self, **kwargs):
        for k, v in kwargs.items():
            setattr(self, k, HParams(**v) if type(v) == dict else v)

    def items(self):
        return self.__dict__

    def __repr__(self):
        return repr(self.__dict__)
