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
    """Parameter groups with and without decay, each in the order of `module.named_parameters()`.

    What is particular to a parameter is said by the module that defines it. `no_decay()` spares it whatever its shape
    (what has one axis, as norms, biases and ConvNeXt's gamma, is spared anyway); `learning_rates()` names those that
    learn at a multiple of the rate, the `factor` of their groups.
    """
    parts = list(module.modules())
    slow = [pair for part in parts if hasattr(part, "learning_rates") for pair in part.learning_rates()]  # type: ignore[operator]
    factors = {id(p): factor for p, factor in slow}
    spared = {id(p) for part in parts if hasattr(part, "no_decay") for p in part.no_decay()}  # type: ignore[operator]
    found: dict[tuple[bool, float], list[nn.Parameter]] = {(True, 1.0): []}
    if config.decay == "matrices":
        found[False, 1.0] = []
    for p in module.parameters():
        decayed = config.decay == "all" or (p.dim() > 1 and id(p) not in spared)
        found.setdefault((decayed, factors.get(id(p), 1.0)), []).append(p)
    return [
        {"params": members, "weight_decay": config.weight_decay if decayed else 0.0, "factor": factor}
        for (decayed, factor), members in found.items()
    ]
