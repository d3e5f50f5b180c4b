"""shown(): the best, the median and the worst clip of an evaluation, rolled out once more for its report.

shown_files(): those of clips that lie in files, read once more.
"""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from videopred import config
from videopred.clip import Clip, stack
from videopred.evaluation.files import Files
from videopred.evaluation.protocol import Protocol
from videopred.evaluation.reconstruction import row_of
from videopred.evaluation.report import Shown, choice
from videopred.evaluation.rows import finish
from videopred.evaluation.timing import Stopwatch
from videopred.metrics import PSNRConfig


def shown(predictors: Mapping[str, Any], protocol: Protocol, result: dict[str, Any]) -> list[Shown]:
    """First samples, by every predictor, of the clips that `report.choice` names of a result.

    A rollout repeats, so they are what was scored. Raises ValueError if the recipe has not got one of these clips.
    """
    dataset, wanted, found = protocol.dataset(), choice(result), {}
    for i in protocol.indices if wanted else ():
        clip = dataset[i]
        if clip.id in wanted.values():
            found[clip.id] = clip
        if len(found) == len(set(wanted.values())):
            break
    if lacking := set(wanted.values()) - set(found):
        raise ValueError(f"recipe {protocol.recipe.name!r} has no clip {min(lacking)}, of which the result is")
    clips = []
    for title, name in wanted.items():
        batch = stack([found[name]])
        truth = protocol.truth(batch)
        panes = {"truth": truth[0].numpy()}
        panes |= {told: _rolled(predictor, protocol, batch, truth) for told, predictor in predictors.items()}
        clips.append(Shown(title, panes, protocol.context))
    return clips


def shown_of(predictors: Mapping[str, Any], result: dict[str, Any]) -> list[Shown]:
    """The same of a result that was read from a file."""
    table = {key: value for key, value in result["protocol"].items() if key not in ("hash", "data")}
    return shown(predictors, config.from_dict(Protocol, table).shortened(None, 1), result)


def shown_files(predictions: Path, targets: Path, protocol: Protocol, result: dict[str, Any]) -> list[Shown]:
    """The same of clips in files, by the result that `evaluate_files` made of them; without context if they have none.

    Raises ValueError if the files no longer hold what was scored.
    """
    name = result["rows"][0]["name"]
    files, clips = Files(predictions, targets, protocol, name, torch.device("cpu")), []
    for title, clip in choice(result).items():
        fake, truth, context = files.first_sample(clip)
        clips.append(Shown(title, {"truth": truth.numpy(), name: fake.numpy()}, context))
    return clips


@torch.no_grad()
def _rolled(predictor: Any, protocol: Protocol, batch: Clip, truth: Tensor) -> np.ndarray:
    """Context and predicted frames of a batch of one, uint8 (t, h, w, c)."""
    device = next((p.device for p in predictor.parameters()), torch.device("cpu"))
    alone = dataclasses.replace(protocol, metrics=(PSNRConfig(),))
    row, was_training = row_of(predictor, alone, "shown", Stopwatch(device)), predictor.training
    predictor.eval()
    try:
        fake = finish(row.take(batch.to(device), truth.to(device), 0))
    finally:
        predictor.train(was_training)
    return torch.cat([truth[:, : protocol.context], fake.cpu()], 1)[0].numpy()
