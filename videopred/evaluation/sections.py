"""The tables of a block: of metrics, revisit tests, differences, costs and time; and what must be said of them."""

from typing import Any

from videopred.evaluation import bootstrap, revisit
from videopred.evaluation.blocks import Block
from videopred.evaluation.cells import Best, Table, digits, pair

GOOD = {
    "one": "1 is right",
    "higher": "higher is better",
    "lower": "lower is better",
    "neither": "neither more nor less is better",
}


def sections(block: Block, timed: bool = True) -> list[tuple[str, Table]]:
    """The tables of a block, each with its title; that of costs has none.

    timed : also where the time of the evaluation went, which is of the machine, not of the model
    """
    metrics = block.rows[0]["metrics"]
    tested = [metric for metric in metrics if any("revisit" in row["metrics"][metric] for row in block.rows)]
    found = [_metric(block, metric) for metric in metrics]
    found += [revisit.table(block.rows, metric, block.protocol["revisit"]) for metric in tested]
    found += [section for metric in metrics if len((section := _differences(block, metric))[1]) > 1]
    costs = _costs(block)
    return found + [("", costs)] * (len(costs) > 1) + [_time(block)] * bool(timed and block.seconds)


def differences(block: Block, metric: str) -> dict[str, bootstrap.Difference]:
    """Of every row to that of `block.against`, where it can be told."""
    found = {}
    for rival in (row for row in block.rows if row["name"] == block.against):
        for row in block.rows:
            entries = row["metrics"][metric], rival["metrics"][metric]
            if row is not rival and all("windows" in entry for entry in entries):
                found[row["name"]] = bootstrap.difference(entries[0], row["clip_ids"], entries[1], rival["clip_ids"])
    return {name: apart for name, apart in found.items() if apart is not None}


def _differences(block: Block, metric: str) -> tuple[str, Table]:
    table: Table = [["", "difference", "from", "to", "clips better"]]
    for name, apart in differences(block, metric).items():
        places = 2 if max(abs(apart.low), abs(apart.high)) >= 0.5 else 4
        cells = [f"{number:+.{places}f}" for number in (apart.mean, apart.low, apart.high)]
        table.append([name, *cells, f"{apart.better} of {apart.clips}"])
    how = f"{bootstrap.RESAMPLES:,} resamples, seed {bootstrap.SEED}"
    return (
        f"{metric}, less that of {block.against}: {bootstrap.LEVEL:.0%} interval, paired bootstrap over clips, {how}",
        table,
    )


def _metric(block: Block, metric: str) -> tuple[str, Table]:
    entries = _entries(block, metric)
    known = next((entry for entry in entries.values() if "windows" in entry), None)
    if known is None:
        return metric, [["", "mean"], *([name, "-"] for name in entries)]
    windows, grouped = list(known["windows"]), any("group_mean" in entry for entry in entries.values())
    ratio, ranked = known["better"] == "one", known["better"] in ("higher", "lower")
    header = ["", *(f"frame {w}" if "-" not in w else w for w in windows)]
    header += ["lowest", "highest"] if ratio else []
    header += [f"groups of {block.protocol['group_size']} ± std"] if grouped else []
    best = {w: _best(block, metric, w) for w in windows}
    table = [header]
    for name, entry in entries.items():
        if "windows" not in entry:
            table.append([name, *["-"] * (len(header) - 1)])
            continue
        cells = [pair(*_cell(entry, w)) for w in windows]
        cells = [Best(cell) if name in best[w] else cell for cell, w in zip(cells, windows, strict=True)]
        if ratio:
            finite = [x for x in entry["per_frame"] if x is not None]
            cells += [f"{f(finite):.3f}" if finite else "-" for f in (min, max)]
        cells += [pair(entry.get("group_mean"), entry.get("group_std"))] if grouped else []
        table.append([name, *cells])
    if ranked:
        table += _gains(block, metric, windows, len(header))
    if (floor := known.get("floor")) is not None:
        among = f"true clips, {known['floor_clips']} against {known['floor_clips']}"
        table.append([among, pair(floor, None), *[""] * (len(header) - 2)])
    unit = f" ({known['unit']})" if known["unit"] else ""
    together = f"of all clips together{_settings(block, metric)}"
    what = "mean ± standard error over clips" if known["per_frame"] else together
    return f"{metric}{unit}, {GOOD[known['better']]}; {what}", table


def _cell(entry: dict[str, Any], window: str) -> tuple[float | None, float | None]:
    """Mean and standard error in a window; none where another version of the program has no such window."""
    cell = entry["windows"].get(window, {"mean": None, "stderr": None})
    return cell["mean"], cell["stderr"]


def _settings(block: Block, metric: str) -> str:
    """The conventions that a number is of, from the protocol, whose metrics are in the order of a row's."""
    settings = dict(zip(block.rows[0]["metrics"], block.protocol.get("metrics", []), strict=False)).get(metric, {})
    told = [f"{key} {value}" for key, value in settings.items() if key != "kind" and (key, value) != ("frames", 0)]
    return f" ({', '.join(told)})" if told else ""


def _best(block: Block, metric: str, window: str) -> set[str]:
    """The rows that are best in a window, of those that are scored on all clips; none if there is only one."""
    most = max(row["clips"] for row in block.rows)
    entries = {row["name"]: row["metrics"][metric] for row in block.rows if row["clips"] == most}
    means = {name: _cell(entry, window)[0] for name, entry in entries.items() if "windows" in entry}
    order = {"one": lambda mean: -abs(mean - 1), "higher": float, "lower": lambda mean: -mean}
    found = {name: mean for name, mean in means.items() if mean is not None and entries[name]["better"] in order}
    ranks = {name: order[entries[name]["better"]](mean) for name, mean in found.items()}
    return {name for name, rank in ranks.items() if rank == max(ranks.values()) and len(ranks) > 1}


def named(row: dict[str, Any], metric: str) -> dict[str, dict[str, Any]]:
    """What a row has of a metric; where several samples were drawn, behind it the best of each clip."""
    entry = row["metrics"][metric]
    best = entry.get("best_of")
    return {row["name"]: entry} | ({f"{row['name']}, best of {best['samples']}": best} if best else {})


def _entries(block: Block, metric: str) -> dict[str, dict[str, Any]]:
    return {name: entry for row in block.rows for name, entry in named(row, metric).items()}


def _gains(block: Block, metric: str, windows: list[str], width: int) -> Table:
    """By how much each model beats the best trivial row, and itself under shuffled actions, window by window."""
    table: Table = []
    for own in block.models:
        if own.get("role") == "shuffled actions":
            continue
        misled = [row for row in block.models if row["name"] == f"{own['name']} (shuffled actions)"]
        label = f": {own['name']}" if sum(row.get("role") != "shuffled actions" for row in block.models) > 1 else ""
        table.append([f"over best trivial{label}", *_gain(own, block.trivial, metric, windows, width - 1)])
        if misled:
            table.append([f"over shuffled actions{label}", *_gain(own, misled, metric, windows, width - 1)])
    return table


def _gain(own: dict, rivals: list[dict], metric: str, windows: list[str], width: int) -> list[str]:
    """A row less the best of others in each window; negative where it is worse, - where they are of other clips."""
    entry = own["metrics"][metric]
    others = [row["metrics"][metric] for row in rivals if row["clip_ids"] == own["clip_ids"]]
    others = [other for other in others if "windows" in other]
    if "windows" not in entry or not others:
        return ["-"] * width
    sign = -1 if entry["better"] == "lower" else 1
    cells = []
    for w in windows:
        mean, *rest = (_cell(x, w)[0] for x in (entry, *others))
        known = [sign * x for x in rest if x is not None]
        cells.append("-" if mean is None or not known else f"{sign * mean - max(known):+.{digits(mean)}f}")
    return cells + [""] * (width - len(cells))


def _costs(block: Block) -> Table:
    table = [["", "parameters", "GFLOP/frame", "ms/step", "batch", "frames/s", "device"]]
    for row, device in zip(block.models, block.devices, strict=True):
        if row["step_ms"] is None:  # frames from a file
            continue
        cost = [f"{row['parameters']:,}", f"{row['flops_per_frame'] / 1e9:.4g}", f"{row['step_ms']:.3g}"]
        table.append([row["name"], *cost, str(row["batch_size"]), f"{row['frames_per_second']:.4g}", device])
    return table


def _time(block: Block) -> tuple[str, Table]:
    """Seconds of each result by what they were spent on, all processes together."""
    known = [dict(seconds) | dict(seconds["metrics"]) for seconds in block.seconds.values()]
    parts = list(dict.fromkeys(part for seconds in known for part in seconds if part != "metrics"))
    table: Table = [["", *parts, "all"]]
    for name, seconds in zip(block.seconds, known, strict=True):
        spent = [seconds.get(part, 0.0) for part in parts]
        table.append([name, *(f"{number:.1f}" for number in [*spent, sum(spent)])])
    return "time of evaluation, in seconds", table


def notes(block: Block) -> list[str]:
    """What must be said about numbers of a block: one line each."""
    notes = _shared_notes(block) + _unpaired(block)
    for row in block.rows:
        notes += [f"warning: {row['name']}: {text}" for text in row.get("warnings", [])]
        if codes := row.get("codes"):
            used = f"{codes['usage']:.0%} of {codes['num_codes']} codes are used, perplexity {codes['perplexity']:.0f}"
            notes.append(f"{row['name']}: each frame from its own tokens; {used} ({codes['tokens']:,} tokens)")
        if row["failed_clips"]:
            clips = ", ".join(f"{clip} (from frame {frame})" for clip, frame in list(row["failed_clips"].items())[:5])
            more = f" and {len(row['failed_clips']) - 5} more" if len(row["failed_clips"]) > 5 else ""
            notes.append(
                f"note: {row['name']}: {len(row['failed_clips'])} clip(s) left out, a frame is not finite: "
                f"{clips}{more}; not comparable with rows of all clips"
            )
        for metric, entry in row["metrics"].items():
            test = entry.get("revisit", {})
            for reason in dict.fromkeys(test[group].get("reason") for group in ("seen", "new") if test):
                notes += [f"note: {row['name']}: revisit, {metric}: {reason}"] * bool(reason)
            if entry.get("capped_frames"):
                notes.append(f"note: {row['name']}: {entry['capped_frames']} frame(s) at the cap of {metric}")
            if (ratio := entry.get("ratio_to_error")) is not None:
                notes.append(f"note: {row['name']}: {metric} is {ratio:.2f} of the squared error; 1 is right")
    return notes


def _unpaired(block: Block) -> list[str]:
    """Which rows cannot be compared clip by clip with `block.against`, as they are not of the same clips."""
    rivals = [set(row["clip_ids"]) for row in block.rows if row["name"] == block.against]
    common = {row["name"]: len(set(row["clip_ids"]) & rival) for rival in rivals for row in block.rows}
    names = [name for name, count in common.items() if count < 2 and name != block.against]
    why = f"fewer than 2 clips in common with {block.against} (by `clip_ids` of the results), so no difference to it"
    return [f"note: {', '.join(names)}: {why}"] * bool(names)


def _shared_notes(block: Block) -> list[str]:
    """What is said of a metric, once for all rows it is said of; whose names are left out if that is every row."""
    said: dict[str, list[str]] = {}
    for row in block.rows:
        for metric, entry in row["metrics"].items():
            if entry.get("reason"):
                said.setdefault(f"{metric} not computed: {entry['reason']}", []).append(row["name"])
            if entry.get("group_reason"):
                said.setdefault(f"{metric}: no mean over groups: {entry['group_reason']}", []).append(row["name"])
            if entry.get("warning"):
                said.setdefault(f"{metric}: {entry['warning']}", []).append(row["name"])
    every = len(block.rows)
    return [f"note: {'' if len(names) == every else ', '.join(names) + ': '}{text}" for text, names in said.items()]
