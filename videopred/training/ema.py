"""Exponential moving average of weights: what predicts, while the raw weights learn."""

import torch
from torch import nn


class EMA:
    """Averages of every floating tensor of `module`; the decay starts low, so that early averages are not of noise."""

    def __init__(self, module: nn.Module, decay: float):
        self.decay = decay
        self.weights = {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}

    @torch.no_grad()
    def update(self, module: nn.Module, step: int) -> None:
        decay = min(self.decay, (1 + step) / (10 + step))
        for name, tensor in module.state_dict().items():
            if tensor.is_floating_point():
                self.weights[name].lerp_(tensor, 1 - decay)
            else:
                self.weights[name].copy_(tensor)
