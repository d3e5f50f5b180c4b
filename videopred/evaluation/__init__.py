"""Evaluation: a protocol says what is rolled out and how it is scored; the runner does it; a result is one JSON file.

protocol.py  every choice that changes a number, as a frozen dataclass read from eval/protocols/*.toml
trivial.py   the four predictions that need no model
shuffled.py  the model under the actions of other clips: does it hear them?
revisit.py   frames whose pose was seen in the context against the others: does it remember?
files.py     evaluate_files(): the same for clips that lie in files
runner.py    evaluate(): protocol -> rollouts -> metrics, in one pass
reconstruction.py  a tokenizer in a predictor's place: frames from their own tokens, and the use of codes
rows.py      rows of a result: what is predicted for a batch, and what is kept of it
parts.py     what one batch adds, as it waits on disk; collect.py: all parts, by one process or several
cost.py      parameters, FLOPs and time of a predictor; timing.py: where an evaluation's time goes
result.py    the JSON object, the .npz beside it, written whole or not at all; schema.py: what is read of it
blocks.py    results that share a table; sections.py: its parts; bootstrap.py: differences; cells.py: numbers
table.py     results -> text, markdown, LaTeX or CSV
sweep_table.py  the result of a sweep -> text or markdown
report.py    results -> one HTML page; curves.py draws, shown.py picks its clips
"""

from videopred.evaluation.files import evaluate_files
from videopred.evaluation.protocol import Protocol
from videopred.evaluation.result import Result
from videopred.evaluation.runner import evaluate

__all__ = ["Protocol", "Result", "evaluate", "evaluate_files"]
