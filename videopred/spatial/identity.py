"""No mixing within a frame: what remains when the spatial block is taken away."""

from dataclasses import dataclass
from typing import Literal

from torch import nn


@dataclass(frozen=True)
class IdentityConfig:
    kind: Literal["identity"] = "identity"

    def build(self, width: int) -> nn.Identity:
        return nn.Identity()
