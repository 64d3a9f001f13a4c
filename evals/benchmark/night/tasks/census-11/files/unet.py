"""A small UNet over latents, conditioned on a prompt, with LoRA layers in its attention; one step of training."""
import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

STEP_SECONDS = 1.1  # for the trial: a step takes a second instead of minutes


class LoRALinear(nn.Module):
    def __init__(self, inside, outside, rank):
        super().__init__()
        self.base = nn.Linear(inside, outside).requires_grad_(False)
        self.lora_A, self.lora_B = nn.Linear(inside, rank, bias=False), nn.Linear(rank, outside, bias=False)
        nn.init.normal_(self.lora_A.weight, std=1 / rank)
        nn.init.zeros_(self.lora_B.weight)

    def forward(self, x):
        return self.base(x) + self.lora_B(self.lora_A(x))


class Attention(nn.Module):
    def __init__(self, channels, cross, rank):
        super().__init__()
        self.to_q, self.to_k = LoRALinear(channels, channels, rank), LoRALinear(cross, channels, rank)
        self.to_v, self.to_out = LoRALinear(cross, channels, rank), LoRALinear(channels, channels, rank)

    def forward(self, x, text):
        h = x.flatten(2).transpose(1, 2)
        h = F.scaled_dot_product_attention(self.to_q(h), self.to_k(text), self.to_v(text))
        return x + self.to_out(h).transpose(1, 2).view_as(x)


class UNet(nn.Module):
    def __init__(self, channels=64, cross=96, rank=32):
        super().__init__()
        self.time = nn.Linear(32, channels)
        self.conv_in = nn.Conv2d(4, channels, 3, padding=1)
        self.down, self.up = nn.Conv2d(channels, channels, 3, 2, 1), nn.ConvTranspose2d(channels, channels, 4, 2, 1)
        self.attentions = nn.ModuleList([Attention(channels, cross, rank) for _ in range(3)])
        self.conv_out = nn.Conv2d(channels, 4, 3, padding=1)
        for name, p in self.named_parameters():
            p.requires_grad_("lora_" in name)

    def forward(self, x, timesteps, text):
        angles = timesteps[:, None] * torch.exp(-math.log(1000) * torch.arange(16) / 16)
        t = self.time(torch.cat([angles.sin(), angles.cos()], 1))[:, :, None, None]
        skip = self.attentions[0](self.conv_in(x) + t, text)
        h = self.attentions[1](F.silu(self.down(skip)), text)
        return self.conv_out(self.attentions[2](skip + self.up(F.silu(h)), text))

    def lora_state_dict(self):
        return {f"unet.{k}": v for k, v in self.state_dict().items() if "lora_" in k}


class NoiseScheduler:
    def __init__(self, steps=1000):
        self.steps = steps
        self.alphas = torch.cumprod(1 - torch.linspace(0.00085, 0.012, steps), 0)

    def add_noise(self, x, noise, timesteps):
        a = self.alphas[timesteps][:, None, None, None]
        return a.sqrt() * x + (1 - a).sqrt() * noise


class Step:
    def __init__(self, accelerator, unet, optimizer, lr_scheduler, max_grad_norm):
        self.accelerator, self.unet, self.optimizer = accelerator, unet, optimizer
        self.lr_scheduler, self.max_grad_norm, self.noise = lr_scheduler, max_grad_norm, NoiseScheduler()

    def run(self, number, batch):
        """Trains on a batch (the first of all has number 1)."""
        began = time.monotonic()
        latents, text = batch
        with self.accelerator.accumulate(self.unet):
            noise = torch.randn_like(latents)
            timesteps = torch.randint(0, self.noise.steps, (len(latents),))
            loss = F.mse_loss(self.unet(self.noise.add_noise(latents, noise, timesteps), timesteps, text), noise)
            self.accelerator.backward(loss)
            self.accelerator.clip_grad_norm_([p for p in self.unet.parameters() if p.requires_grad],
                                             self.max_grad_norm)
            self.optimizer.step()
            self.lr_scheduler.step()
            self.optimizer.zero_grad()
        time.sleep(max(0, began + STEP_SECONDS - time.monotonic()))
        return loss.detach()
