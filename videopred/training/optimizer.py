"""AdamW, parameter groups and learning-rate schedules.

Ours: decay on matrices and kernels only, a cosine that ends where training ends. The paper's, by name: decay on every
parameter, and a cosine that is over one warm-up too early, so that the last `warmup_steps` steps learn nothing.
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn


@dataclass(frozen=True)
class OptimizerConfig:
    """`decay` "matrices" spares norms, biases and what a layer's `no_decay` names; "all" is the paper's.

    `schedule`: "cosine" to zero at the last step, "paper_cosine" to zero `warmup_steps` before it, "constant".
    """

    learning_rate: float = 1e-3
    schedule: Literal["cosine", "paper_cosine", "constant"] = "cosine"
    warmup_steps: int = 100
    betas: tuple[float, float] = (0.9, 0.95)
    weight_decay: float = 1e-5
    decay: Literal["matrices", "all"] = "matrices"

    def __post_init__(self):
        if not 0 <= self.learning_rate < math.inf or not 0 <= self.weight_decay < math.inf or self.warmup_steps < 0:
            raise ValueError(
                f"learning_rate = {self.learning_rate}, weight_decay = {self.weight_decay} and "
                f"warmup_steps = {self.warmup_steps}: must be at least 0, and finite"
            )
        if not all(0 <= beta < 1 for beta in self.betas):
            raise ValueError(f"betas = {self.betas}: must be at least 0 and below 1")

    def build(self, module: nn.Module) -> torch.optim.AdamW:
        return torch.optim.AdamW(groups(module, self), lr=self.learning_rate, betas=self.betas, eps=1e-8)


def learning_rate(config: OptimizerConfig, step: int, total: int) -> float:
    """The rate of update number `step` (from 0) out of `total`."""
    if step < config.warmup_steps:
        return config.learning_rate * step / config.warmup_steps
    if config.schedule == "constant":
        return config.learning_rate
    length = total - config.warmup_steps * (2 if config.schedule == "paper_cosine" else 1)
    progress = min(1.0, (step - config.warmup_steps) / max(1, length))
    return config.learning_rate / 2 * (1 + math.cos(math.pi * progress))


def groups(module: nn.Module, config: OptimizerConfig) -> list[dict]:
    """Parameter groups with and without decay, in the order of `module.named_parameters()`."""
    parameters = dict(module.named_parameters())
    if config.decay == "all":
        return [{"params": list(parameters.values()), "weight_decay": config.weight_decay}]
    spared = {id(p) for part in module.modules() if hasattr(part, "no_decay") for p in part.no_decay()}  # type: ignore[operator]
    spared |= {id(p) for p in parameters.values() if p.dim() <= 1}
    decayed = [p for p in parameters.values() if id(p) not in spared]
    kept = [p for p in parameters.values() if id(p) in spared]
    return [{"params": decayed, "weight_decay": config.weight_decay}, {"params": kept, "weight_decay": 0.0}]
