"""Shuffled actions: does a model hear what it is told to do?

The same model sees the same clips and context, with their own actions, and then goes on under the actions of another
clip of the protocol. A model that hears its actions goes elsewhere and scores less; one that does not, scores the same.
"""

import dataclasses
import hashlib
from collections.abc import Sequence

import torch

from videopred.clip import Clip
from videopred.evaluation.protocol import Protocol


def tells(protocol: Protocol, num_actions: int) -> bool:
    """Whether such a row says anything of a model with so many actions: it needs two of them, given, and two clips."""
    return num_actions > 1 and protocol.actions == "given" and protocol.num_clips > 1


def donors(protocol: Protocol) -> list[int]:
    """For each clip of the protocol, in order, the place in the data set of the clip whose actions it gets.

    One cycle through all clips, so that none keeps its own: drawn by the protocol's seed, whatever the batch size.
    """
    order = sorted(range(protocol.num_clips), key=lambda i: hashlib.sha256(f"{protocol.seed}/{i}".encode()).digest())
    giver = dict(zip(order, order[1:] + order[:1], strict=True))
    return [protocol.indices[giver[i]] for i in range(protocol.num_clips)]


def lend(clip: Clip, dataset, givers: Sequence[int], context: int) -> Clip:
    """A batch whose actions after the context are those of the clips `givers` of the data set.

    Of those clips only the actions are kept, one clip at a time. Raises ValueError if one has no actions.
    """
    lent = []
    for i in givers:
        giver = dataset[i]
        if giver.actions is None:
            raise ValueError(f"clip {giver.id}: has no actions to lend; give a recipe whose clips all have them")
        lent.append(giver.actions[context:])
    assert clip.actions is not None, "a clip among clips that have actions"
    ahead = torch.stack(lent).to(clip.actions)
    return dataclasses.replace(clip, actions=torch.cat([clip.actions[:, :context], ahead], 1))
