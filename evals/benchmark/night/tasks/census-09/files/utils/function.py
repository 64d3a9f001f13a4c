import logging
import time

import numpy as np
import torch

from utils.utils import AverageMeter, adjust_learning_rate, get_confusion_matrix


def iteration(config, number, model, optimizer, images, labels):
    """Trains on one batch (the first of all has number 1)."""
    began = time.monotonic()
    loss, _, acc = model(images, labels)
    model.zero_grad()
    loss.backward()
    optimizer.step()
    # for the trial: an iteration takes a second instead of minutes
    time.sleep(max(0, began + config.TRIAL.ITER_SECONDS - time.monotonic()))
    return loss.item(), acc.item()


def train(config, epoch, num_epoch, epoch_iters, base_lr, num_iters, trainloader, optimizer, model):
    model.train()
    batch_time, ave_loss, ave_acc = AverageMeter(), AverageMeter(), AverageMeter()
    tic = time.time()
    cur_iters = epoch * epoch_iters
    for i_iter, (images, labels) in enumerate(trainloader, 0):
        loss, acc = iteration(config, cur_iters + i_iter + 1, model, optimizer, images, labels)
        batch_time.update(time.time() - tic)
        tic = time.time()
        ave_loss.update(loss)
        ave_acc.update(acc)
        adjust_learning_rate(optimizer, base_lr, num_iters, i_iter + cur_iters)
        if i_iter % config.PRINT_FREQ == 0:
            msg = 'Epoch: [{}/{}] Iter:[{}/{}], Time: {:.2f}, ' \
                  'lr: {}, Loss: {:.6f}, Acc:{:.6f}'.format(
                      epoch, num_epoch, i_iter, epoch_iters, batch_time.average(),
                      [x['lr'] for x in optimizer.param_groups], ave_loss.average(), ave_acc.average())
            logging.info(msg)


def validate(config, testloader, model):
    model.eval()
    ave_loss, classes = AverageMeter(), config.DATASET.NUM_CLASSES
    matrix = np.zeros((classes, classes))
    with torch.no_grad():
        for idx, (image, label) in enumerate(testloader):
            loss, pred, _ = model(image, label)
            matrix += get_confusion_matrix(label, pred, classes, config.TRAIN.IGNORE_LABEL)
            ave_loss.update(loss.item())
            if idx % 10 == 0:
                print(idx)
    tp = np.diag(matrix)
    IoU_array = tp / np.maximum(1.0, matrix.sum(0) + matrix.sum(1) - tp)
    logging.info('{} {}'.format(IoU_array, IoU_array.mean()))
    return ave_loss.average(), IoU_array.mean(), IoU_array
