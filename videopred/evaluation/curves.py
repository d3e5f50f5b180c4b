"""A metric over the horizon, as SVG: a line for each row, and a band of one standard error."""

import html
from collections.abc import Sequence

import numpy as np

from videopred.evaluation.blocks import Block

COLOURS = ("#3b82f6", "#f97316", "#10b981", "#a855f7", "#ef4444", "#84cc16", "#06b6d4", "#8b8b8b")
WIDTH, HEIGHT = 480, 250  # of a plot
LEFT, RIGHT, TOP, BOTTOM = 48, 12, 10, 38  # margins
STEPS = (1, 2, 5)  # of ticks, times a power of ten


def curves(block: Block, metric: str) -> str:
    """The plot and its key; "" where there is nothing to plot. Rows that need no model are dashed."""
    entries = {row["name"]: row["metrics"][metric] for row in block.rows}
    lines = {name: _floats(entry["per_frame"]) for name, entry in entries.items() if entry.get("per_frame")}
    if not lines or all(np.isnan(line).all() for line in lines.values()) or max(map(len, lines.values())) < 2:
        return ""
    bands = {name: np.nan_to_num(_floats(entries[name]["per_frame_stderr"])) for name in lines}
    low = min(np.nanmin(lines[name] - bands[name]) for name in lines)
    high = max(np.nanmax(lines[name] + bands[name]) for name in lines)
    span, frames = (high - low) or 1.0, max(map(len, lines.values()))

    def across(place: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (place - 1) / (frames - 1)

    def up(value: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (high - value) / span

    def points(values: np.ndarray) -> list[str]:
        return [f"{across(i + 1):.1f},{up(y):.1f}" for i, y in enumerate(values) if np.isfinite(y)]

    drawn = [_axes(ticks(1, frames), ticks(low, high), across, up)]
    keys, models = [], {row["name"] for row in block.models}
    for (name, line), colour in zip(lines.items(), COLOURS * 4, strict=False):
        band = points(line + bands[name]) + points(line - bands[name])[::-1]
        drawn.append(f'<polygon points="{" ".join(band)}" fill="{colour}" opacity=".18"/>')
        style = 'stroke-width="2.5"' if name in models else 'stroke-width="1.5" stroke-dasharray="5 3"'
        drawn.append(f'<polyline points="{" ".join(points(line))}" fill="none" stroke="{colour}" {style}/>')
        keys.append(f'<span class=key style="--c:{colour}">{html.escape(name)}</span>')
    unit = entries[next(iter(lines))]["unit"]
    title = html.escape(f"{metric} ({unit}) over the horizon" if unit else f"{metric} over the horizon")
    return (
        f'<div><h3>{title}</h3><svg viewBox="0 0 {WIDTH} {HEIGHT}" role=img aria-label="{title}">{"".join(drawn)}</svg>'
        f"<p>{' '.join(keys)}</p></div>"
    )


def ticks(low: float, high: float) -> list[float]:
    """At most six round numbers in low..high."""
    if not high > low:
        return [low]
    power = 10.0 ** np.floor(np.log10((high - low) / 4))
    step = next(s for s in (*(s * power for s in STEPS), 10 * power) if (high - low) / s <= 5)
    return [float(x) + 0.0 for x in np.arange(np.ceil(low / step), np.floor(high / step) + 1) * step]  # never -0


def _axes(places: Sequence[float], values: Sequence[float], across, up) -> str:
    floor, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    grid = [f'<path d="M{LEFT} {up(y):.1f}H{right}" stroke="currentColor" opacity=".15"/>' for y in values]
    grid += [f'<text x="{LEFT - 6}" y="{up(y) + 4:.1f}" text-anchor="end">{y:.4g}</text>' for y in values]
    grid += [
        f'<text x="{across(x):.1f}" y="{floor + 16}" text-anchor="middle">{x:.0f}</text>' for x in places if x >= 1
    ]
    grid.append(f'<path d="M{LEFT} {floor}H{right}" stroke="currentColor" opacity=".5"/>')
    grid.append(f'<text x="{(LEFT + right) / 2}" y="{HEIGHT - 4}" text-anchor="middle">predicted frame</text>')
    return "".join(grid)


def _floats(values: Sequence[float | None]) -> np.ndarray:
    return np.array([np.nan if value is None else value for value in values], np.float64)
