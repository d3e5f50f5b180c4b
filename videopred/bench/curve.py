"""A picture of what a bench found: times over the horizon, both axes logarithmic, as SVG."""

import html
import math
import re
from collections.abc import Sequence
from typing import Any

COLOURS = ("#0072b2", "#d55e00", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#000000")
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 380, 56, 200, 16, 40


def curve(rows: Sequence[dict[str, Any]]) -> str:
    """Milliseconds of one step by frame, of all rows of a bench file whose shape begins "frame N, B 1,"."""
    lines: dict[str, dict[int, float]] = {}
    for row in rows:
        found = re.match(r"frame ([\d,]+), B 1,", row["shape"])
        if found and row["median_ms"]:
            lines.setdefault(row["name"], {})[int(found[1].replace(",", ""))] = row["median_ms"]
    if not lines:
        raise ValueError("no row of this bench is of one frame; only `rollout` has a curve")
    frames = sorted({frame for line in lines.values() for frame in line})
    times = [ms for line in lines.values() for ms in line.values()]
    low, high = math.floor(math.log10(min(times))), math.ceil(math.log10(max(times)))

    def x(frame: int) -> float:
        span = math.log(frames[-1] / frames[0]) or 1
        return LEFT + (WIDTH - LEFT - RIGHT) * math.log(frame / frames[0]) / span

    def y(ms: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (high - math.log10(ms)) / ((high - low) or 1)

    drawn = [_text(LEFT - 6, y(10.0**power) + 4, "end", f"{10.0**power:g} ms") for power in range(low, high + 1)]
    drawn += [_line([(LEFT, y(10.0**p)), (WIDTH - RIGHT, y(10.0**p))], "#ddd", 1) for p in range(low, high + 1)]
    drawn += [_text(x(frame), HEIGHT - 20, "middle", f"{frame:,}") for frame in frames]
    drawn.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 4, "middle", "frame of the rollout"))
    for place, (name, line) in enumerate(lines.items()):
        colour = COLOURS[place % len(COLOURS)]
        points = [(x(frame), y(ms)) for frame, ms in sorted(line.items())]
        drawn += [_line(points, colour, 2), *(_dot(point, colour) for point in points)]
        drawn.append(_text(WIDTH - RIGHT + 14, TOP + 12 + 18 * place, "start", name, colour))
    style = "font-family='sans-serif' font-size='12'"
    size = f"viewBox='0 0 {WIDTH} {HEIGHT}' width='{WIDTH}' height='{HEIGHT}'"
    ground = f"<rect width='{WIDTH}' height='{HEIGHT}' fill='white'/>"
    return f"<svg xmlns='http://www.w3.org/2000/svg' {size} {style}>\n{ground}\n" + "\n".join([*drawn, "</svg>\n"])


def _line(points: list[tuple[float, float]], colour: str, width: int) -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f"<polyline points='{path}' fill='none' stroke='{colour}' stroke-width='{width}'/>"


def _dot(point: tuple[float, float], colour: str) -> str:
    return f"<circle cx='{point[0]:.1f}' cy='{point[1]:.1f}' r='3' fill='{colour}'/>"


def _text(x: float, y: float, anchor: str, text: str, colour: str = "#333") -> str:
    return f"<text x='{x:.1f}' y='{y:.1f}' text-anchor='{anchor}' fill='{colour}'>{html.escape(text)}</text>"
