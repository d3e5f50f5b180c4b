"""Action conditioning: an embedding per action, tiled over the latent and concatenated to its channels.

The table has one more row than there are actions, and that last row says "unknown" (id -1). Training may make all
actions of a clip unknown (`training.action_dropout`), so that the same model also predicts without actions. Where
there is only one action, clips need not name it.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from videopred.config import at_least
from videopred.nn.conv import channels_last


@dataclass(frozen=True)
class ActionsConfig:
    """`num_actions` 0 takes the number from the recipe. The paper's unconditional models have a table for 1 action."""

    num_actions: int = 0
    width: int = 16

    def __post_init__(self):
        at_least(self, num_actions=0, width=1)

    def build(self, num_actions: int) -> "Actions":
        return Actions(self.num_actions or num_actions, self.width)


class Actions(nn.Module):
    """Joins embedded ids (b, t) to latents (b, t, d, h, w) -> (b, t, d + width, h, w); no table, no change."""

    def __init__(self, num_actions: int, width: int):
        super().__init__()
        self.num_actions = num_actions
        self.width = width if num_actions else 0
        self.table = nn.Embedding(num_actions + 1, width) if num_actions else None
        if self.table is not None:
            nn.init.normal_(self.table.weight, std=width**-0.5)

    def forward(self, latents: Tensor, ids: Tensor) -> Tensor:
        if self.table is None:
            return latents
        rows = self.table(torch.where(ids < 0, self.num_actions, ids)).to(latents.dtype)
        tiled = rows.flatten(0, 1)[..., None, None].expand(-1, -1, *latents.shape[-2:])
        joined = torch.cat([channels_last(latents.flatten(0, 1)), channels_last(tiled)], 1)
        return joined.unflatten(0, latents.shape[:2])

    def ids(self, actions: Tensor | None, batch: int, time: int, device: torch.device) -> Tensor:
        """Checked ids (batch, time). Raises ValueError where they are missing, too few or out of range."""
        if actions is None:
            if self.num_actions > 1:
                raise ValueError(
                    f"this model needs an action (0..{self.num_actions - 1}, or -1 for unknown) for every frame, "
                    f"and the clip has none; give actions, or a recipe that has them"
                )
            return torch.zeros(batch, time, dtype=torch.int64, device=device)
        if actions.shape != (batch, time):
            raise ValueError(f"actions of shape {tuple(actions.shape)}: must be ({batch}, {time}), one for every frame")
        if actions.device.type == "cpu" and not torch.compiler.is_compiling():  # looking would make a GPU wait
            low, high = int(actions.min()), int(actions.max())
            if self.num_actions and (low < -1 or high >= self.num_actions):
                raise ValueError(f"actions lie in {low}..{high}: must be 0..{self.num_actions - 1}, or -1 for unknown")
        return actions.long()
