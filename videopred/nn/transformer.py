"""The transformer block of the ConvS5 and TECO papers' code.

z = z + attention(norm(z));  z = z + mlp(norm(z))      the mlp's activation is x sigmoid(1.702 x)
"""

from torch import Tensor, nn
from torch.nn import functional

from videopred.nn.conv import variance_scaling_
from videopred.nn.norm import EPSILON


class Block(nn.Module):
    """(b, n, token) -> the same shape; a token sees those that its row of `seen` (n, n) allows, or all.

    With `places` (b, k) what becomes of these tokens alone, (b, k, token); they see all.
    """

    def __init__(self, token: int, mlp_width: int, num_heads: int):
        super().__init__()
        self.num_heads = num_heads
        self.norm1, self.norm2 = nn.LayerNorm(token, EPSILON), nn.LayerNorm(token, EPSILON)
        self.query, self.key, self.value, self.out = (linear(token, token) for _ in range(4))
        self.wide, self.narrow = linear(token, mlp_width), linear(mlp_width, token)
        for part in self.query, self.key, self.value, self.out:
            nn.init.normal_(part.weight, std=token**-0.5)

    def forward(self, z: Tensor, seen: Tensor | None = None, places: Tensor | None = None) -> Tensor:
        normed = asking = self.norm1(z)
        if places is not None:
            z, asking = (x.gather(1, places[..., None].expand(-1, -1, x.shape[-1])) for x in (z, normed))
        q, k, v = (
            part(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
            for part, x in ((self.query, asking), (self.key, normed), (self.value, normed))
        )
        attended = functional.scaled_dot_product_attention(q, k, v, seen)
        z = z + self.out(attended.transpose(1, 2).flatten(2))
        wide = self.wide(self.norm2(z))
        return z + self.narrow(wide * (1.702 * wide).sigmoid())


def linear(inputs: int, outputs: int) -> nn.Linear:
    """With LeCun-normal weights and zero bias, as flax initialises it."""
    linear = nn.Linear(inputs, outputs)
    variance_scaling_(linear.weight, 1.0, inputs)
    nn.init.zeros_(linear.bias)
    return linear
