"""videopred: video prediction with state-space models.

    predictor = videopred.load("moving-mnist-small").predictor
    state = predictor.observe(clip)
    for frame in videopred.rollout(predictor, state): ...          # for ever, in constant memory

A model is one choice from each of four lists: videopred.dynamics, .spatial, .codecs and .predictors. The names here are
imported when first used, so that `import videopred` costs nothing.
"""

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from videopred.checkpoint import load
    from videopred.clip import Clip
    from videopred.evaluation import evaluate
    from videopred.rollout import rollout

__version__ = "0.1.0"
__all__ = ["Clip", "__version__", "evaluate", "load", "rollout"]

_HOMES = {
    "Clip": "videopred.clip",
    "evaluate": "videopred.evaluation",
    "load": "videopred.checkpoint",
    "rollout": "videopred.rollout",
}


class _Package(ModuleType):
    """A submodule named like a public name does not hide it: once imported, `videopred.rollout` is the function."""

    def __setattr__(self, name: str, value: Any) -> None:
        public = isinstance(value, ModuleType) and name in _HOMES
        super().__setattr__(name, getattr(value, name) if public else value)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'videopred' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


sys.modules[__name__].__class__ = _Package
