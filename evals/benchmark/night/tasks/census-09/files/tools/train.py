"""Trains the segmentation network.

    python3 tools/train.py --cfg configs/cityscapes/ictednet_small_city_train.yaml [KEY VALUE ...]
"""
import argparse
import os
import pprint
import random
import timeit

import torch
import torch.optim

import _init_paths
import datasets
import models
from configs import config, update_config
from utils.function import train, validate
from utils.utils import FullModel, create_logger, save

torch.set_num_threads(1)


def parse_args():
    parser = argparse.ArgumentParser(description='Train segmentation network')
    parser.add_argument('--cfg', help='experiment configure file name',
                        default="configs/cityscapes/ictednet_small_city_train.yaml", type=str)
    parser.add_argument('--seed', type=int, default=304)
    parser.add_argument('opts', help="Modify config options using the command-line",
                        default=None, nargs=argparse.REMAINDER)
    args = parser.parse_args()
    update_config(config, args)
    return args


def main():
    args = parse_args()
    if args.seed > 0:
        print('Seeding with', args.seed)
        random.seed(args.seed)
        torch.manual_seed(args.seed)

    logger, final_output_dir = create_logger(config, args.cfg, 'train')
    logger.info(pprint.pformat(args))
    logger.info(config)
    model = models.get_seg_model(config)

    def loader(number, first, shuffle):
        dataset = getattr(datasets, config.DATASET.DATASET)(
            number, config.DATASET.NUM_CLASSES, config.TRAIN.IMAGE_SIZE, config.TRAIN.IGNORE_LABEL, first)
        return torch.utils.data.DataLoader(
            dataset, batch_size=config.TRAIN.BATCH_SIZE_PER_GPU, shuffle=shuffle, drop_last=shuffle)

    trainloader = loader(config.DATASET.TRAIN_IMAGES, 0, True)
    testloader = loader(config.DATASET.TEST_IMAGES, 10000, False)
    model = FullModel(model, config.TRAIN.IGNORE_LABEL)
    model = torch.nn.DataParallel(model)

    # optimizer
    if config.TRAIN.OPTIMIZER == 'sgd':
        optimizer = torch.optim.SGD(model.parameters(), lr=config.TRAIN.LR, momentum=config.TRAIN.MOMENTUM,
                                    weight_decay=config.TRAIN.WD)
    else:
        raise ValueError('Only Support SGD optimizer')

    epoch_iters = int(config.DATASET.TRAIN_IMAGES / config.TRAIN.BATCH_SIZE_PER_GPU)
    best_mIoU = 0
    last_epoch = config.TRAIN.BEGIN_EPOCH
    flag_rm = config.TRAIN.RESUME
    if config.TRAIN.RESUME:
        model_state_file = os.path.join(final_output_dir, 'checkpoint.pth.tar')
        if os.path.isfile(model_state_file):
            checkpoint = torch.load(model_state_file, map_location={'cuda:0': 'cpu'}, weights_only=False)
            best_mIoU = checkpoint['best_mIoU']
            last_epoch = checkpoint['epoch']
            dct = checkpoint['state_dict']
            model.module.model.load_state_dict(
                {k.replace('model.', ''): v for k, v in dct.items() if k.startswith('model.')})
            optimizer.load_state_dict(checkpoint['optimizer'])
            logger.info("=> loaded checkpoint (epoch {})".format(checkpoint['epoch']))

    start = timeit.default_timer()
    end_epoch = config.TRAIN.END_EPOCH
    num_iters = config.TRAIN.END_EPOCH * epoch_iters
    for epoch in range(last_epoch, end_epoch):
        train(config, epoch, end_epoch, epoch_iters, config.TRAIN.LR, num_iters,
              trainloader, optimizer, model)
        if epoch % 5 == 0:
            valid_loss, mean_IoU, IoU_array = validate(config, testloader, model)
        if flag_rm == 1:
            flag_rm = 0

        logger.info('=> saving checkpoint to {}'.format(final_output_dir + 'checkpoint.pth.tar'))
        save({
            'epoch': epoch + 1,
            'best_mIoU': best_mIoU,
            'state_dict': model.module.state_dict(),
            'optimizer': optimizer.state_dict(),
        }, os.path.join(final_output_dir, 'checkpoint.pth.tar'), config.TRIAL.DISK_MB_S)
        if mean_IoU > best_mIoU:
            best_mIoU = mean_IoU
            save(model.module.state_dict(), os.path.join(final_output_dir, 'best.pt'), config.TRIAL.DISK_MB_S)
        msg = 'Loss: {:.3f}, MeanIU: {: 4.4f}, Best_mIoU: {: 4.4f}'.format(valid_loss, mean_IoU, best_mIoU)
        logger.info(msg)
        logger.info(IoU_array)

    save(model.module.state_dict(), os.path.join(final_output_dir, 'final_state.pt'), config.TRIAL.DISK_MB_S)
    end = timeit.default_timer()
    logger.info('Hours: %d' % int((end - start) / 3600))
    logger.info('Done')


if __name__ == '__main__':
    main()
