"""A small text-to-speech GAN: the generator goes from text to a wave by way of a latent."""
import torch
from torch import nn
from torch.nn import functional as F


class SynthesizerTrn(nn.Module):
    def __init__(self, n_symbols, n_speakers, segment_size, inter_channels, hidden_channels, gin_channels):
        super().__init__()
        self.segment_size = segment_size
        self.emb = nn.Embedding(n_symbols, hidden_channels)
        self.emb_g = nn.Embedding(n_speakers, gin_channels)
        self.enc_p = nn.Conv1d(hidden_channels + gin_channels, 2 * inter_channels, 5, padding=2)
        self.enc_q = nn.Conv1d(1, 2 * inter_channels, 64, stride=64)
        self.ups = nn.ModuleList(
            [nn.ConvTranspose1d(inter_channels, 64, 16, 8, 4), nn.ConvTranspose1d(64, 32, 16, 8, 4)])
        self.res = nn.ModuleList([nn.Conv1d(64, 64, 7, padding=3), nn.Conv1d(32, 32, 7, padding=3)])
        self.conv_post = nn.Conv1d(32, 1, 7, padding=3)

    def forward(self, x, wave, speakers):
        g = self.emb_g(speakers).unsqueeze(2)
        h = self.emb(x).transpose(1, 2)
        m_p, logs_p = self.enc_p(torch.cat([h, g.expand(-1, -1, h.size(2))], 1)).chunk(2, 1)
        m_q, logs_q = self.enc_q(wave).chunk(2, 1)
        z = m_q + torch.randn_like(m_q) * torch.exp(logs_q)
        return self.dec(z), z, m_p, logs_p, m_q, logs_q

    def dec(self, z):
        for up, res in zip(self.ups, self.res):
            z = up(F.leaky_relu(z, 0.1))
            z = z + res(F.leaky_relu(z, 0.1))
        return torch.tanh(self.conv_post(F.leaky_relu(z)))


class DiscriminatorP(nn.Module):
    def __init__(self, period):
        super().__init__()
        self.period = period
        self.convs = nn.ModuleList(
            [nn.Conv2d(1, 16, (5, 1), (3, 1)), nn.Conv2d(16, 64, (5, 1), (3, 1)), nn.Conv2d(64, 64, (5, 1))])
        self.conv_post = nn.Conv2d(64, 1, (3, 1))

    def forward(self, x):
        x = F.pad(x, (0, -x.size(2) % self.period))
        x, fmap = x.view(x.size(0), 1, -1, self.period), []
        for conv in self.convs:
            x = F.leaky_relu(conv(x), 0.1)
            fmap.append(x)
        return self.conv_post(x).flatten(1), fmap


class MultiPeriodDiscriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.discriminators = nn.ModuleList([DiscriminatorP(p) for p in (2, 3, 5)])

    def forward(self, y, y_hat):
        real, fake = zip(*[(d(y), d(y_hat)) for d in self.discriminators])
        return [r[0] for r in real], [f[0] for f in fake], [r[1] for r in real], [f[1] for f in fake]
