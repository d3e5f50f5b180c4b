"""How predicted tokens are scored: cross-entropies, and how varied the codes are."""

import torch
from torch import Tensor
from torch.nn import functional

from videopred.nn.norm import at_least_float32


def nats(logits: Tensor, true: Tensor, smoothing: float = 0.0) -> Tensor:
    """Cross-entropy of each of the tokens `true` (...), logits (..., n).

    `smoothing` is the share of a label that is spread over all n.
    """
    flat = functional.cross_entropy(
        at_least_float32(logits).flatten(0, -2), true.flatten(), reduction="none", label_smoothing=smoothing
    )
    return flat.view_as(true)


def perplexity(codes: Tensor, num_codes: int) -> Tensor:
    """e to the entropy of how often codes (...) are met: 1 if all are the same, `num_codes` if all are as frequent."""
    met = torch.ones(codes.numel(), dtype=torch.float64, device=codes.device)
    counts = torch.zeros(num_codes, dtype=torch.float64, device=codes.device).scatter_add(0, codes.flatten(), met)
    return torch.special.entr(counts / codes.numel()).sum().exp()
