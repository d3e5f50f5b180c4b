"""What is sharp but wrong: a critic that tells true frames from reconstructions, patch by patch.

PatchGAN (Isola et al., CVPR 2017) under the hinge loss (Lim and Ye, 2017), weighed as in VQGAN (Esser et al., CVPR
2021). Norms are of each frame by itself, so that no verdict depends on the rest of the batch.
"""

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from videopred.nn.norm import EPSILON, at_least_float32

LEAST_GRADIENT, MOST_WEIGHT = 1e-4, 1e4
LAST = 3  # sides that the layers after the last halving need, to leave one patch


def least_side(depth: int) -> int:
    """The shortest side of a frame, in pixels, that a critic of this depth can judge."""
    return LAST * 2**depth


class PatchCritic(nn.Module):
    """(n, c, h, w) -> a verdict per patch (n, 1, h', w'), high for true; `depth` halvings, each twice as wide."""

    def __init__(self, channels: int, width: int, depth: int):
        super().__init__()
        widths = [width * min(2**i, 8) for i in range(depth + 1)]
        layers: list[nn.Module] = [nn.Conv2d(channels, width, 4, 2, 1), nn.LeakyReLU(0.2)]
        for i, (before, after) in enumerate(pairwise(widths)):
            stride = 2 if i < depth - 1 else 1
            layers += [nn.Conv2d(before, after, 4, stride, 1, bias=False), nn.GroupNorm(1, after, EPSILON)]
            layers.append(nn.LeakyReLU(0.2))
        self.layers = nn.Sequential(*layers, nn.Conv2d(widths[-1], 1, 4, 1, 1))
        for layer in self.layers:
            if isinstance(layer, nn.Conv2d):
                nn.init.normal_(layer.weight, 0.0, 0.02)

    def forward(self, x: Tensor) -> Tensor:
        return at_least_float32(self.layers(x))

    def judge(self, true: Tensor, painted: Tensor) -> Tensor:
        """The critic's own loss; gradient for its parameters alone."""
        return (functional.relu(1 - self(true)).mean() + functional.relu(1 + self(painted.detach())).mean()) / 2

    def fooled(self, painted: Tensor) -> Tensor:
        """The painter's loss: frames (n, c, h, w) should be taken for true. Gradient for the painter alone."""
        fixed = {name: parameter.detach() for name, parameter in self.named_parameters()}
        return -torch.func.functional_call(self, fixed, (painted,)).mean()


def adaptive_weight(reconstruction: Tensor, fooled: Tensor, last: Tensor) -> Tensor:
    """The factor at which both losses pull equally hard at the painter's `last` weights."""
    ours, theirs = (torch.autograd.grad(loss, last, retain_graph=True)[0].norm() for loss in (reconstruction, fooled))
    return (ours / (theirs + LEAST_GRADIENT)).clamp(max=MOST_WEIGHT).detach()
