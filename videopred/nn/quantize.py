"""Vector quantisation: each vector is replaced by the nearest of `num_codes` learned ones.

    Codebook           Euclidean, learned by its loss (van den Oord et al., NeurIPS 2017; Esser et al., CVPR 2021)
    AveragedCodebook   Euclidean, each code the running mean of the vectors it stands for (ibid., appendix A.1)
    CosineCodebook     codes on a sphere of few dimensions, between two projections (Yu et al., ICLR 2022; TECO)

The gradient passes straight through: that of a code's vector is given to the vector it stands for. `forward` changes
nothing. `settle`, called after an update, is where running means move and dead codes are put to new use.
"""

from typing import NamedTuple

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from videopred.nn.norm import at_least_float32

FLOOR = 1e-6  # least norm of what is divided by its norm
MEMORY = 0.99  # of the running use of codes


class Quantized(NamedTuple):
    """Codes' vectors (..., d) with gradient straight through, ids int64 (...), and two losses.

    commitment : beta / 2 times the mean squared distance, by which vectors are drawn to their codes
    codebook   : half the mean squared distance, by which codes are drawn to their vectors; a mere number for averages
    """

    vectors: Tensor
    ids: Tensor
    commitment: Tensor
    codebook: Tensor


class Codebook(nn.Module):
    """(..., width) -> Quantized, in float32 at least.

    `used` is a running mean of how often each code is met, in shares of an equal spread: 1 is its fair share. A code
    below `restart_below` is dead; at first all are, so the first `settle` spreads them over true vectors.
    """

    used: Tensor

    def __init__(self, num_codes: int, width: int, *, beta: float = 0.25, restart_below: float = 0.05):
        super().__init__()
        self.beta, self.restart_below = beta, restart_below
        self.codes = nn.Parameter(torch.randn(num_codes, width) / width**0.5)
        self.register_buffer("used", torch.zeros(num_codes))

    def forward(self, x: Tensor) -> Quantized:
        x = at_least_float32(x)
        ids = self.nearest(x)
        codes = self.embed(ids)
        return Quantized(through(x, codes), ids, *distances(x, codes, self.beta))

    def nearest(self, x: Tensor) -> Tensor:
        """Ids int64 (...) of the codes nearest to (..., width); the first of equals."""
        return nearest(at_least_float32(x), self.codes)

    def embed(self, ids: Tensor) -> Tensor:
        """Vectors (..., width) of the codes `ids`, which must lie in 0..num_codes - 1."""
        return functional.embedding(ids, self.codes)

    @torch.no_grad()
    def settle(self, x: Tensor, ids: Tensor, generator: Generator) -> int:
        """Counts the use of codes by vectors (..., width), restarts dead ones on some of these; returns how many."""
        x, ids = at_least_float32(x).flatten(0, -2), ids.flatten()
        counts = torch.bincount(ids, minlength=len(self.codes)).to(self.used)
        new = self.used == 0  # all at first, even those that most vectors happen to be near
        self.used.lerp_(counts * (len(self.codes) / len(ids)), 1 - MEMORY)
        self.absorb(x, ids, counts)
        dead = (self.used.masked_fill(new, 0) < self.restart_below).nonzero().flatten()
        chosen = torch.randperm(len(x), generator=generator)[: len(dead)].to(x.device)
        dead = dead[: len(chosen)]  # all, unless there are fewer vectors
        self.put(dead, x[chosen].to(self.codes), len(x) / len(self.codes))
        self.used[dead] = 1
        return len(dead)

    def absorb(self, x: Tensor, ids: Tensor, counts: Tensor) -> None:
        """Moves codes by the vectors (n, width) they stand for; not where they learn by gradient."""

    def put(self, which: Tensor, vectors: Tensor, size: float) -> None:
        """Sets codes to vectors, as if each had long stood for `size` of them."""
        self.codes[which] = vectors


class AveragedCodebook(Codebook):
    """A `Codebook` whose codes are running means with memory `decay`; each begins as if it had stood for one vector.

    Codes move by `settle` alone and take no gradient.
    """

    sizes: Tensor
    sums: Tensor

    def __init__(self, num_codes: int, width: int, *, decay: float = 0.99, **settings: float):
        super().__init__(num_codes, width, **settings)
        self.decay = decay
        codes = self.codes.detach()
        del self.codes
        self.register_buffer("codes", codes)
        self.register_buffer("sizes", torch.ones(num_codes))
        self.register_buffer("sums", codes.clone())

    def absorb(self, x: Tensor, ids: Tensor, counts: Tensor) -> None:
        added = torch.zeros_like(self.sums).index_add_(0, ids, x.to(self.sums))
        self.sizes.lerp_(counts, 1 - self.decay)
        self.sums.lerp_(added, 1 - self.decay)
        met = self.sizes > FLOOR
        self.codes[met] = self.sums[met] / self.sizes[met, None]

    def put(self, which: Tensor, vectors: Tensor, size: float) -> None:
        super().put(which, vectors, size)
        self.sizes[which] = size
        self.sums[which] = size * vectors


class CosineCodebook(nn.Module):
    """(..., features) -> Quantized, by the cosine in `width` dimensions; codes learn by their loss, none is restarted.

    The losses are distances of unit vectors. Codes start normal with deviation 0.02, as in TECO.
    """

    def __init__(self, num_codes: int, features: int, width: int = 32, *, beta: float = 0.25):
        super().__init__()
        self.beta = beta
        self.codes = nn.Parameter(0.02 * torch.randn(num_codes, width))
        self.inward = nn.Linear(features, width, bias=False)
        self.outward = nn.Linear(width, features, bias=False)

    def forward(self, x: Tensor) -> Quantized:
        x, codes = unit(self.inward(x)), unit(self.codes)
        ids = nearest(x, codes)
        found = functional.embedding(ids, codes)
        return Quantized(self.outward(through(x, found)), ids, *distances(x, found, self.beta))

    def embed(self, ids: Tensor) -> Tensor:
        """Vectors (..., features) of the codes `ids`."""
        return self.outward(functional.embedding(ids, unit(self.codes)))


@torch.no_grad()
def nearest(x: Tensor, codes: Tensor) -> Tensor:
    """Ids int64 (...) of the rows of `codes` (n, d) at the least Euclidean distance from x (..., d)."""
    with torch.autocast(x.device.type, enabled=False):  # bfloat16 would confuse neighbours
        # |x|^2 is the same for all codes
        return (codes.square().sum(-1) - 2 * torch.matmul(x, codes.to(x).t())).argmin(-1)


def through(x: Tensor, codes: Tensor) -> Tensor:
    """Exactly the codes, with the gradient going to x."""
    return codes.detach() + (x - x.detach())


def distances(x: Tensor, codes: Tensor, beta: float) -> tuple[Tensor, Tensor]:
    """The losses of commitment and of the codebook, each a mean over all numbers."""
    return beta * (x - codes.detach()).square().mean() / 2, (x.detach() - codes).square().mean() / 2


def unit(x: Tensor) -> Tensor:
    return functional.normalize(at_least_float32(x), dim=-1, eps=FLOOR)


def spread(ids: Tensor, num_codes: int) -> tuple[Tensor, Tensor]:
    """Perplexity (e to the entropy of how often codes are met, 1..num_codes) and the share of codes met at all.

    As papers' code has it, 1e-10 is added within the logarithm.
    """
    shares = torch.bincount(ids.flatten(), minlength=num_codes).double() / ids.numel()
    return (-shares * (shares + 1e-10).log()).sum().exp(), (shares > 0).double().mean()
