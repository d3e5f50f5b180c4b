"""Cells of tables: numbers with their errors, and columns for a screen or for Markdown."""

Table = list[list[str]]  # the first row is the header


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
    lines = [f"| {' | '.join(row)} |" for row in table]
    return "\n".join([lines[0], f"|{'---|' * len(table[0])}", *lines[1:]])
