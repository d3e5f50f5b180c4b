"""shown(): the best, the median and the worst clip of an evaluation, rolled out once more for its report."""

import dataclasses
from typing import Any

import torch

from videopred.clip import stack
from videopred.evaluation.protocol import Protocol
from videopred.evaluation.report import Shown, choice
from videopred.evaluation.rows import ModelRow, finish
from videopred.evaluation.timing import Stopwatch
from videopred.metrics import PSNRConfig


@torch.no_grad()
def shown(predictor, protocol: Protocol, result: dict[str, Any]) -> list[Shown]:
    """First samples of the clips that `report.choice` names; a rollout repeats, so they are what was scored."""
    dataset, device = protocol.dataset(), next((p.device for p in predictor.parameters()), torch.device("cpu"))
    wanted, found = choice(result), {}
    for i in protocol.indices if wanted else ():
        clip = dataset[i]
        if clip.id in wanted.values():
            found[clip.id] = clip
        if len(found) == len(set(wanted.values())):
            break
    clips, was_training = [], predictor.training
    predictor.eval()
    try:
        for title, name in wanted.items():
            row = ModelRow(
                predictor, dataclasses.replace(protocol, metrics=(PSNRConfig(),)), "shown", Stopwatch(device)
            )
            batch = stack([found[name]])
            truth = protocol.truth(batch).to(device)
            fake = finish(row.take(batch.to(device), truth, 0))
            whole = torch.cat([truth[:, : protocol.context], fake], 1)
            clips.append(Shown(title, truth[0].cpu().numpy(), whole[0].cpu().numpy(), protocol.context))
    finally:
        predictor.train(was_training)
    return clips
