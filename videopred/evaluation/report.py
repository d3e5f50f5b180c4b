"""One HTML page of results that needs nothing but itself: tables, curves over the horizon, clips that play.

Curves are SVG, clips animated WebP in the page; there is no script and nothing is loaded. Colours follow the reader's
light or dark setting. A clip is one picture with the truth and every model side by side, so that they play in step.
Over each runs a line that says where in the clip it is, blue over true context frames and orange over predicted ones.
"""

import base64
import html
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from videopred.data import whole_file
from videopred.evaluation.blocks import Block, blocks
from videopred.evaluation.cells import Best, Table
from videopred.evaluation.curves import curves
from videopred.evaluation.sections import notes, sections

SHOWN, PREDICTED, LINE, GAP = (59, 130, 246), (249, 115, 22), 4, 8
SIDE = 192  # pixels that a frame is enlarged to, at most
MILLISECONDS = 80  # per frame
LONGEST = 300  # frames that are shown of a clip
LINES = "Blue line: context frames, which are true. Orange: predicted."

STYLE = """
:root { color-scheme: light dark; --line: #8883; --soft: #8881; --muted: #667; }
@media (prefers-color-scheme: dark) { :root { --muted: #a3a9b8; } body { background: #14161a; color: #e6e8ec; } }
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 68rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.5rem; margin: .5rem 0; } h2 { font-size: 1.25rem; margin: 2rem 0 .25rem; }
h3 { font-size: 1rem; font-weight: 600; margin: 1.25rem 0 .25rem; }
p { margin: .25rem 0 .75rem; } .muted { color: var(--muted); font-size: .875rem; overflow-wrap: anywhere; }
section { overflow-x: auto; }
table { border-collapse: collapse; margin: .25rem 0 .5rem; font-size: .875rem; font-variant-numeric: tabular-nums; }
td, th { padding: .2rem .6rem; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--line); }
th { color: var(--muted); font-weight: 600; } tr:hover td { background: var(--soft); }
td:first-child, th:first-child { text-align: left; padding-left: 0; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 27rem), 1fr)); gap: 0 1.5rem; }
.plots > div { min-width: 0; }
svg { width: 100%; height: auto; display: block; } svg text { fill: currentColor; font-size: 13px; }
figure { margin: 0 0 1.25rem; } img { display: block; width: 100%; image-rendering: pixelated; border-radius: 4px; }
.panes { display: grid; grid-auto-flow: column; grid-auto-columns: 1fr; gap: .5rem; text-align: center; }
.panes span, figcaption { font-size: .875rem; color: var(--muted); overflow-wrap: anywhere; }
.key { margin-right: 1rem; white-space: nowrap; font-size: .875rem; }
.key::before { content: "\\25A0\\00A0"; color: var(--c); }
pre { overflow-x: auto; font-size: 12px; } details { margin: .25rem 0; }
"""


@dataclass(frozen=True)
class Shown:
    """A clip for the page: uint8 frames (t, h, w, c) of the truth and of each model, by name; `context` are true."""

    title: str
    panes: dict[str, np.ndarray]
    context: int


def page(
    results: Sequence[dict[str, Any]],
    labels: Sequence[str] = (),
    clips: Sequence[Shown] = (),
    absent: Sequence[str] = (),
    **options,
) -> str:
    """The page of results as `blocks` takes them; `options` are its `across_protocols` and `against`.

    absent : sentences that say why there are no clips of some results
    """
    parts = [f"<!doctype html><html lang=en><meta charset=utf-8><title>videopred report</title><style>{STYLE}</style>"]
    parts.append('<meta name=viewport content="width=device-width, initial-scale=1"><body><h1>videopred report</h1>')
    grouped = blocks(results, labels, **options)
    parts += [_summary(block) + _plots(block) for block in grouped]
    if clips or absent:
        parts.append("<h2>Clips</h2>")
        parts += [f"<p class=muted>{html.escape(text)}</p>" for text in (*([LINES] if clips else []), *absent)]
        parts += [_figure(clip) for clip in clips]
    for block in grouped:
        parts.append(f"<h2>Tables of {html.escape(block.protocol['name'])}</h2>")
        for title, cells in sections(block):
            parts.append(f"<h3>{html.escape(title or 'cost')}</h3><section>{_table(cells)}</section>")
        parts += [f"<p class=muted>{html.escape(note)}</p>" for note in notes(block)]
    parts.append("<h2>Protocol and environment</h2>")
    parts += [_facts(result) for result in results]
    return "\n".join([*parts, "</body></html>\n"])


def require_writable(path: Path) -> None:
    """Raises ValueError unless a page can be written to `path`, whose name says so: no result is written over."""
    if path.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"{path}: a report's name must end in .html")
    whole_file.require_writable(path)


def _summary(block: Block) -> str:
    return (
        f"<h2>{html.escape(block.protocol['name'])}</h2><p class=muted>{html.escape(block.description)}; "
        f"{html.escape(', '.join(dict.fromkeys(block.devices)))}</p>"
    )


def _plots(block: Block) -> str:
    drawn = [curves(block, metric) for metric in block.rows[0]["metrics"]]
    return f"<div class=plots>{''.join(drawn)}</div>" if any(drawn) else ""


def _facts(result: dict[str, Any]) -> str:
    facts = {key: result[key] for key in ("protocol", "environment")}
    facts["checkpoint"] = {key: value for key, value in result["checkpoint"].items() if key != "config"}
    text = html.escape(json.dumps(facts, indent=1))
    return f"<details><summary>{html.escape(result['rows'][0]['name'])}</summary><pre>{text}</pre></details>"


def choice(result: dict[str, Any]) -> dict[str, str]:
    """The best, the median and the worst clip of the model by its first metric with a number per clip: title -> id.

    Of less than three clips one may be two of these, and its title says so.
    """
    model = result["rows"][0]
    for metric, entry in model["metrics"].items():
        values = entry.get("per_clip") or []
        if values and None not in values and entry["better"] in ("higher", "lower"):
            order = sorted(range(len(values)), key=lambda i: values[i], reverse=entry["better"] == "higher")
            places = {"best": order[0], "median": order[len(order) // 2], "worst": order[-1]}
            words = {i: " and ".join(word for word, place in places.items() if place == i) for i in places.values()}
            return {
                f"{told} by {metric} ({values[i]:.2f}): {model['clip_ids'][i]}": model["clip_ids"][i]
                for i, told in words.items()
            }
    return {}


def _table(cells: Table) -> str:
    head, *rows = [
        [f"<b>{html.escape(x)}</b>" if isinstance(x, Best) else html.escape(x) for x in row] for row in cells
    ]
    lines = ["<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows]
    top = "".join(f"<th>{cell}</th>" for cell in head)
    return f"<table><tr>{top}</tr>{''.join(lines)}</table>"


def _figure(clip: Shown) -> str:
    source, title = base64.b64encode(_animation(clip)).decode(), html.escape(clip.title)
    names = "".join(f"<span>{html.escape(name)}</span>" for name in clip.panes)
    width = len(clip.panes) * 18  # rem, of which a phone gives less
    return (
        f'<figure style="max-width:{width}rem"><figcaption>{title}</figcaption><div class=panes>{names}</div>'
        f'<img alt="{title}" src="data:image/webp;base64,{source}"></figure>'
    )


def _animation(clip: Shown) -> bytes:
    """Truth and predictions side by side, enlarged by a whole number, as a WebP that repeats for ever."""
    frames = [pane[:LONGEST] for pane in clip.panes.values()]
    height, width = frames[0].shape[1:3]
    scale, total = max(1, SIDE // max(height, width)), len(frames[0])
    height, width = height * scale, width * scale
    pictures = []
    for t in range(total):
        picture = np.zeros((height + LINE, len(frames) * (width + GAP) - GAP, 3), np.uint8)
        for i, pane in enumerate(frames):
            left = i * (width + GAP)
            run = left + round(width * (t + 1) / total)
            picture[:LINE, left:run] = SHOWN if t < clip.context else PREDICTED
            shown = pane[t].repeat(scale, 0).repeat(scale, 1).repeat(3 // pane.shape[-1], 2)
            picture[LINE:, left : left + width] = shown
        pictures.append(Image.fromarray(picture))
    file = io.BytesIO()
    rest = {"save_all": True, "append_images": pictures[1:], "duration": MILLISECONDS, "loop": 0, "lossless": True}
    pictures[0].save(file, "WEBP", method=0, **rest)
    return file.getvalue()
