"""One epoch of training and of validation."""
import logging
import time

import torch

import trial

logger = logging.getLogger(__name__)


class AverageMeter:
    def __init__(self):
        self.val = self.sum = self.count = self.avg = 0

    def update(self, val, n=1):
        self.val, self.sum, self.count = val, self.sum + val * n, self.count + n
        self.avg = self.sum / self.count


def accuracy(output, target):
    w = output.shape[-1]
    a, b = output.flatten(2).argmax(-1), target.flatten(2).argmax(-1)
    return (((a % w - b % w) ** 2 + (a // w - b // w) ** 2) < 4).float().mean().item()


def train(cfg, loader, model, criterion, optimizer, epoch):
    batch_time, losses, acc = AverageMeter(), AverageMeter(), AverageMeter()
    model.train()

    def update(input, target):
        output = model(input)
        loss = criterion(output, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return output.detach(), loss.item()

    for i, (input, target) in enumerate(loader):
        end = time.time()
        output, loss = trial.gpu_step(epoch * len(loader) + i + 1, update, input, target)
        losses.update(loss, input.size(0))
        acc.update(accuracy(output, target), input.size(0))
        batch_time.update(time.time() - end)
        if i % cfg.PRINT_FREQ == 0:
            logger.info(
                'Epoch: [{0}][{1}/{2}]\tTime {t.val:.3f}s ({t.avg:.3f}s)\tSpeed {speed:.1f} samples/s\t'
                'Loss {loss.val:.5f} ({loss.avg:.5f})\tAccuracy {acc.val:.3f} ({acc.avg:.3f})'.format(
                    epoch, i, len(loader), t=batch_time, speed=input.size(0) / batch_time.val,
                    loss=losses, acc=acc))


def validate(cfg, loader, dataset, model, criterion):
    losses, acc, preds = AverageMeter(), AverageMeter(), []
    model.eval()
    with torch.no_grad():
        for i, (input, target) in enumerate(loader):
            output = model(input)
            losses.update(criterion(output, target).item(), input.size(0))
            acc.update(accuracy(output, target), input.size(0))
            preds.append(output)
            if i % cfg.PRINT_FREQ == 0:
                logger.info('Test: [{0}/{1}]\tLoss {loss.val:.4f} ({loss.avg:.4f})\t'
                            'Accuracy {acc.val:.3f} ({acc.avg:.3f})'.format(i, len(loader), loss=losses, acc=acc))
    values, perf_indicator = dataset.evaluate(torch.cat(preds))
    logger.info('| Arch ' + ' '.join(f'| {name}' for name in values) + ' |')
    logger.info('|---' * (len(values) + 1) + '|')
    logger.info('| ' + cfg.MODEL.NAME + ' ' + ' '.join(f'| {value:.3f}' for value in values.values()) + ' |')
    return perf_indicator
