"""Evaluation: a protocol says what is rolled out and how it is scored; the runner does it; a result is one JSON file.

protocol.py  every choice that changes a number, as a frozen dataclass read from eval/protocols/*.toml
trivial.py   the three predictions that need no model
runner.py    evaluate(): protocol -> rollouts -> metrics, in one pass
cost.py      parameters, FLOPs and time of a predictor
result.py    the JSON object, the .npz beside it, written whole or not at all
table.py     results -> text, markdown or CSV
cells.py     the result of a sweep -> text or markdown
"""

from videopred.evaluation.protocol import Protocol
from videopred.evaluation.result import Result
from videopred.evaluation.runner import evaluate

__all__ = ["Protocol", "Result", "evaluate"]
