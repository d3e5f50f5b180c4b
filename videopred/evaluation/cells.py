"""Cells of tables: numbers with their errors, and columns for a screen, for Markdown or for LaTeX."""

import re

Table = list[list[str]]  # the first row is the header
NUMBER = re.compile(r"[+-]?[\d,]*\.?\d+(?:e[+-]?\d+)?(?: ± [\d.]+)?")
SPECIAL = {"\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}", "±": "$\\pm$"}
SPECIAL |= {"<": "\\textless{}", ">": "\\textgreater{}"} | {sign: f"\\{sign}" for sign in "&%$#_{}"}


class Best(str):
    """A cell that is the best of its column: bold where there is bold type."""


def pair(mean: float | None, error: float | None, places: int | None = None, sign: str = "") -> str:
    """A mean and its error, to so many decimal places (None: as `digits` says)."""
    if mean is None:
        return "-"
    places = digits(mean) if places is None else places
    return f"{mean:{sign}.{places}f}" + ("" if error is None else f" ± {error:.{places}f}")


def digits(mean: float) -> int:
    """Decimal places that suit a number: 2 for decibels, 3 for what lies about 0..1."""
    return 2 if abs(mean) >= 2 else 3


def aligned(table: Table) -> str:
    widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
    lines = [
        [cell.ljust(widths[0]) if i == 0 else cell.rjust(widths[i]) for i, cell in enumerate(row)] for row in table
    ]
    return "\n".join("  ".join(line).rstrip() for line in lines)


def piped(table: Table) -> str:
    lines = ["| " + " | ".join(f"**{x}**" if isinstance(x, Best) else x for x in row) + " |" for row in table]
    return "\n".join([lines[0], f"|{'---|' * len(table[0])}", *lines[1:]])


def tabular(table: Table) -> str:
    """LaTeX's, for which no package is needed."""
    lines = [" & ".join(map(_latex, row)) + r" \\" for row in table]
    columns = "l" + "r" * (len(table[0]) - 1)
    head = [rf"\begin{{tabular}}{{{columns}}}", r"\hline", lines[0], r"\hline"]
    return "\n".join([*head, *lines[1:], r"\hline", r"\end{tabular}"])


def escaped(text: str) -> str:
    """Words as LaTeX takes them."""
    return "".join(SPECIAL.get(sign, sign) for sign in text)


def _latex(cell: str) -> str:
    if NUMBER.fullmatch(cell):
        number = cell.replace(",", "{,}").replace("±", r"\pm")
        return rf"$\mathbf{{{number}}}$" if isinstance(cell, Best) else f"${number}$"
    return escaped(cell)
