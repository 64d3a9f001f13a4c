"""One batch of training."""
import time

import torch
from torch.nn import functional as F


def kl_loss(z, logs_q, m_p, logs_p):
    return (logs_p - logs_q - 0.5 + 0.5 * (z - m_p) ** 2 * torch.exp(-2.0 * logs_p)).mean()


def spectrum(y):
    window = torch.hann_window(256)
    return torch.log(torch.stft(y.squeeze(1), 256, 64, window=window, return_complex=True).abs() + 1e-3)


class Batch:
    def __init__(self, hps, nets, optims):
        self.hps, (self.net_g, self.net_d), (self.optim_g, self.optim_d) = hps, nets, optims

    def train(self, number, x, y, speakers):
        """Trains on the batch of this number (the first of all has 1); returns its losses."""
        began = time.monotonic()
        y_hat, z, m_p, logs_p, m_q, logs_q = self.net_g(x, y, speakers)

        real, fake, _, _ = self.net_d(y, y_hat.detach())
        loss_disc = sum(((1 - r) ** 2).mean() + (f ** 2).mean() for r, f in zip(real, fake))
        self.optim_d.zero_grad()
        loss_disc.backward()
        self.optim_d.step()

        _, fake, fmap_r, fmap_g = self.net_d(y, y_hat)
        loss_mel = F.l1_loss(spectrum(y), spectrum(y_hat)) * self.hps.train.c_mel
        loss_kl = kl_loss(z, logs_q, m_p, logs_p) * self.hps.train.c_kl
        loss_fm = 2 * sum((a.detach() - b).abs().mean() for r, g in zip(fmap_r, fmap_g) for a, b in zip(r, g))
        loss_gen = sum(((1 - f) ** 2).mean() for f in fake)
        self.optim_g.zero_grad()
        (loss_gen + loss_fm + loss_mel + loss_kl).backward()
        self.optim_g.step()

        # for the trial: a batch takes a good second instead of minutes
        time.sleep(max(0, began + self.hps.trial.batch_seconds - time.monotonic()))
        return [loss_disc, loss_gen, loss_fm, loss_mel, loss_kl]
