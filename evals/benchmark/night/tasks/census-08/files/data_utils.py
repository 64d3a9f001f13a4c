"""Made-up speech: each speaker has a pitch, each symbol a colour."""
import math

import torch
from torch.utils.data import Dataset


class TextAudioSpeakerLoader(Dataset):
    def __init__(self, hps):
        self.n, self.hps = hps.data.training_files, hps

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        rng = torch.Generator().manual_seed(i)
        text = torch.randint(self.hps.data.n_symbols, (self.hps.data.text_length,), generator=rng)
        speaker = i % self.hps.data.n_speakers
        size = self.hps.train.segment_size
        pitch = 90 + 40 * speaker + text.float().repeat_interleave(size // len(text))
        phase = torch.cumsum(2 * math.pi * pitch / self.hps.data.sampling_rate, 0)
        wave = 0.5 * torch.sin(phase) + 0.2 * torch.sin(2 * phase) + 0.02 * torch.randn(size, generator=rng)
        return text, wave.unsqueeze(0), speaker
