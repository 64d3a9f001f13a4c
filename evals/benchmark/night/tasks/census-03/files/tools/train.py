"""Train keypoints network.

python3 tools/train.py --cfg experiments/mars/hrnet/w32_256x192_adam_lr1e-3.yaml [KEY VALUE ...]
"""
import argparse
import os
import pprint

import torch

import _init_paths
import dataset
import models
import trial
from config import cfg, update_config
from core.function import train, validate
from utils.utils import create_logger, get_optimizer, save_checkpoint


def parse_args():
    parser = argparse.ArgumentParser(description='Train keypoints network')
    parser.add_argument('--cfg', help='experiment configure file name', required=True, type=str)
    parser.add_argument('opts', help='Modify config options using the command-line', default=None,
                        nargs=argparse.REMAINDER)
    return parser.parse_args()


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    args = parse_args()
    update_config(cfg, args)
    logger, final_output_dir = create_logger(cfg, args.cfg, 'train')
    logger.info(pprint.pformat(args))
    logger.info(cfg)

    model = torch.nn.DataParallel(getattr(models, cfg.MODEL.NAME).get_pose_net(cfg, is_train=True))
    criterion = torch.nn.MSELoss()
    train_dataset = getattr(dataset, cfg.DATASET.DATASET)(cfg, cfg.DATASET.TRAIN_IMAGES, True)
    valid_dataset = getattr(dataset, cfg.DATASET.DATASET)(cfg, cfg.DATASET.TEST_IMAGES, False)
    train_loader = torch.utils.data.DataLoader(train_dataset, batch_size=cfg.TRAIN.BATCH_SIZE,
                                               shuffle=cfg.TRAIN.SHUFFLE, num_workers=cfg.WORKERS)
    valid_loader = torch.utils.data.DataLoader(valid_dataset, batch_size=cfg.TEST.BATCH_SIZE,
                                               shuffle=False, num_workers=cfg.WORKERS)

    best_perf, best_model, last_epoch = 0.0, False, -1
    optimizer = get_optimizer(cfg, model)
    begin_epoch = cfg.TRAIN.BEGIN_EPOCH
    checkpoint_file = os.path.join(final_output_dir, 'checkpoint.pth')

    if cfg.AUTO_RESUME and os.path.exists(checkpoint_file):
        logger.info("=> loading checkpoint '{}'".format(checkpoint_file))
        checkpoint = torch.load(checkpoint_file)
        begin_epoch = checkpoint['epoch']
        best_perf = checkpoint['perf']
        last_epoch = checkpoint['epoch']
        model.load_state_dict(checkpoint['state_dict'])
        optimizer.load_state_dict(checkpoint['optimizer'])
        logger.info("=> loaded checkpoint '{}' (epoch {})".format(checkpoint_file, checkpoint['epoch']))

    lr_scheduler = torch.optim.lr_scheduler.MultiStepLR(
        optimizer, cfg.TRAIN.LR_STEP, cfg.TRAIN.LR_FACTOR, last_epoch=last_epoch)

    for epoch in range(begin_epoch, cfg.TRAIN.END_EPOCH):
        train(cfg, train_loader, model, criterion, optimizer, epoch)
        lr_scheduler.step()
        perf_indicator = validate(cfg, valid_loader, valid_dataset, model, criterion)

        if perf_indicator >= best_perf:
            best_perf, best_model = perf_indicator, True
        else:
            best_model = False

        logger.info('=> saving checkpoint to {}'.format(final_output_dir))
        save_checkpoint({
            'epoch': epoch + 1,
            'model': cfg.MODEL.NAME,
            'state_dict': model.state_dict(),
            'best_state_dict': model.module.state_dict(),
            'perf': perf_indicator,
            'optimizer': optimizer.state_dict(),
        }, best_model, final_output_dir)

    final_model_state_file = os.path.join(final_output_dir, 'final_state.pth')
    logger.info('=> saving final model state to {}'.format(final_model_state_file))
    trial.save(model.module.state_dict(), final_model_state_file)


if __name__ == '__main__':
    main()
