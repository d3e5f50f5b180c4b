"""One HTML page of results that needs nothing but itself: tables, curves over the horizon, clips that play.

Curves are SVG, clips animated WebP in the page; there is no script and nothing is loaded. Colours follow the reader's
light or dark setting. A clip shows truth beside prediction in step, with a blue line over true context frames and an
orange one over predicted frames.
"""

import base64
import html
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from videopred.evaluation.blocks import Block, blocks
from videopred.evaluation.cells import Best, Table
from videopred.evaluation.sections import notes, sections

COLOURS = ("#3b82f6", "#f97316", "#10b981", "#a855f7", "#ef4444", "#84cc16", "#06b6d4", "#8b8b8b")
WIDTH, HEIGHT, LEFT, BOTTOM = 640, 240, 56, 24  # of a plot, and of its margins
SHOWN, PREDICTED, LINE, GAP = (59, 130, 246), (249, 115, 22), 3, 6
SIDE = 192  # pixels that a frame is enlarged to, at most
MILLISECONDS = 80  # per frame

STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1rem; }
section { overflow-x: auto; }
table { border-collapse: collapse; margin: .5rem 0 1rem; font-variant-numeric: tabular-nums; }
td, th { padding: .15rem .6rem; text-align: right; white-space: nowrap; border-bottom: 1px solid #8884; }
td:first-child, th:first-child { text-align: left; }
svg { max-width: 100%; height: auto; } svg text { fill: currentColor; font-size: 11px; }
figure { display: inline-block; margin: 0 1rem 1rem 0; } img { max-width: 100%; image-rendering: pixelated; }
.key { margin-right: 1rem; white-space: nowrap; } .key::before { content: "\\25A0 "; color: var(--c); }
pre { overflow-x: auto; font-size: 12px; }
"""


@dataclass(frozen=True)
class Shown:
    """A clip for the page: uint8 `real` and `fake` (t, h, w, c), of which the first `context` frames are true."""

    title: str
    real: np.ndarray
    fake: np.ndarray
    context: int


def page(results: Sequence[dict[str, Any]], labels: Sequence[str] = (), clips: Sequence[Shown] = (), **options) -> str:
    """The page of results as `blocks` takes them; `options` are its `across_protocols`."""
    parts = [f"<!doctype html><html lang=en><meta charset=utf-8><title>videopred report</title><style>{STYLE}</style>"]
    parts.append('<meta name=viewport content="width=device-width, initial-scale=1"><body><h1>videopred report</h1>')
    for block in blocks(results, labels, **options):
        parts.append(f"<h2>{html.escape(block.description)}</h2>")
        parts += [_curves(block, metric) for metric in block.rows[0]["metrics"]]
        parts += [
            f"<h3>{html.escape(title)}</h3><section>{_table(cells)}</section>" for title, cells in sections(block)
        ]
        parts += [f"<p>{html.escape(note)}</p>" for note in notes(block)]
    if clips:
        parts.append("<h2>Clips</h2><p>Truth left, prediction right; blue: context, orange: predicted.</p>")
        parts += [_figure(clip) for clip in clips]
    for result in results:
        facts = {key: result[key] for key in ("protocol", "environment")}
        facts["checkpoint"] = {key: value for key, value in result["checkpoint"].items() if key != "config"}
        text = html.escape(json.dumps(facts, indent=1))
        parts.append(f"<details><summary>Protocol and environment: {html.escape(result['rows'][0]['name'])}</summary>")
        parts.append(f"<pre>{text}</pre></details>")
    return "\n".join([*parts, "</body></html>\n"])


def choice(result: dict[str, Any]) -> dict[str, str]:
    """The best, the median and the worst clip of the model by its first metric with a number per clip: title -> id."""
    model = result["rows"][0]
    for metric, entry in model["metrics"].items():
        values = entry.get("per_clip") or []
        if values and None not in values and entry["better"] in ("higher", "lower"):
            order = sorted(range(len(values)), key=lambda i: values[i], reverse=entry["better"] == "higher")
            places = {"best": order[0], "median": order[len(order) // 2], "worst": order[-1]}
            return {
                f"{word} by {metric} ({values[i]:.2f}): {model['clip_ids'][i]}": model["clip_ids"][i]
                for word, i in places.items()
            }
    return {}


def _table(cells: Table) -> str:
    head, *rows = [
        [f"<b>{html.escape(x)}</b>" if isinstance(x, Best) else html.escape(x) for x in row] for row in cells
    ]
    lines = ["<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows]
    top = "".join(f"<th>{cell}</th>" for cell in head)
    return f"<table><tr>{top}</tr>{''.join(lines)}</table>"


def _curves(block: Block, metric: str) -> str:
    """A plot of all rows over the horizon, with bands of one standard error; "" where there is nothing to plot."""
    entries = {row["name"]: row["metrics"][metric] for row in block.rows}
    lines = {name: _floats(entry["per_frame"]) for name, entry in entries.items() if entry.get("per_frame")}
    if not lines or all(np.isnan(line).all() for line in lines.values()) or max(map(len, lines.values())) < 2:
        return ""
    bands = {name: np.nan_to_num(_floats(entries[name]["per_frame_stderr"])) for name in lines}
    low = min(np.nanmin(lines[name] - bands[name]) for name in lines)
    high = max(np.nanmax(lines[name] + bands[name]) for name in lines)
    span, frames = (high - low) or 1.0, max(map(len, lines.values()))

    def points(values: np.ndarray) -> list[str]:
        x = LEFT + (WIDTH - LEFT - 8) * np.arange(len(values)) / (frames - 1)
        y = 8 + (HEIGHT - BOTTOM - 8) * (high - values) / span
        return [f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True) if np.isfinite(b)]

    drawn, keys = [], []
    for (name, line), colour in zip(lines.items(), COLOURS * 4, strict=False):
        band = points(line + bands[name]) + points(line - bands[name])[::-1]
        drawn.append(f'<polygon points="{" ".join(band)}" fill="{colour}" opacity=".2"/>')
        drawn.append(f'<polyline points="{" ".join(points(line))}" fill="none" stroke="{colour}" stroke-width="2"/>')
        keys.append(f'<span class=key style="--c:{colour}">{html.escape(name)}</span>')
    ends = [(LEFT, HEIGHT - 6, "start", "1"), (WIDTH - 8, HEIGHT - 6, "end", f"{frames} frames ahead")]
    ends += [(LEFT - 6, 12 + (HEIGHT - BOTTOM - 8) * i // 2, "end", f"{high - span * i / 2:.3g}") for i in range(3)]
    ticks = [f'<text x="{x}" y="{y}" text-anchor="{anchor}">{text}</text>' for x, y, anchor, text in ends]
    return (
        f"<h3>{html.escape(metric)} over the horizon</h3><svg viewBox='0 0 {WIDTH} {HEIGHT}' role=img "
        f"width={WIDTH} height={HEIGHT}>{''.join(drawn)}{''.join(ticks)}</svg><p>{''.join(keys)}</p>"
    )


def _figure(clip: Shown) -> str:
    source = base64.b64encode(_animation(clip)).decode()
    title = html.escape(clip.title)
    return f'<figure><img alt="{title}" src="data:image/webp;base64,{source}"><figcaption>{title}</figcaption></figure>'


def _animation(clip: Shown) -> bytes:
    """Truth and prediction side by side, enlarged by a whole number, as a WebP that repeats for ever."""
    scale = max(1, SIDE // max(clip.fake.shape[1:3]))
    pictures = []
    for t, (real, fake) in enumerate(zip(clip.real, clip.fake, strict=True)):
        pair = [frame.repeat(scale, 0).repeat(scale, 1).repeat(3 // frame.shape[-1], 2) for frame in (real, fake)]
        height, width = pair[0].shape[:2]
        picture = np.zeros((height + LINE, 2 * width + GAP, 3), np.uint8)
        picture[:LINE] = SHOWN if t < clip.context else PREDICTED
        picture[LINE:, :width], picture[LINE:, width + GAP :] = pair
        pictures.append(Image.fromarray(picture))
    file = io.BytesIO()
    rest = {"save_all": True, "append_images": pictures[1:], "duration": MILLISECONDS, "loop": 0, "lossless": True}
    pictures[0].save(file, "WEBP", method=0, **rest)
    return file.getvalue()


def _floats(values: Sequence[float | None]) -> np.ndarray:
    return np.array([np.nan if value is None else value for value in values], np.float64)
