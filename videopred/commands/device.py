"""Where a command runs: `--device`."""

import argparse
from typing import Any


def add_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--device", choices=["auto", "cpu", "cuda"], default="auto", help="default: auto, a GPU if there is one"
    )


def device(name: str) -> Any:
    """The torch.device of that name. Raises ValueError if a GPU is asked for where torch finds none."""
    import torch

    if name == "cuda" and not torch.cuda.is_available():
        raise ValueError("--device cuda: torch finds no GPU here; use --device cpu")
    return torch.device(("cuda" if torch.cuda.is_available() else "cpu") if name == "auto" else name)
