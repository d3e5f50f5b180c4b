"""What a result file must hold for tables, curves and reports to be made of it; files come from other hands, too."""

from typing import Any

NUMBER = int | float | None
PROTOCOL = {"name": str, "hash": str, "recipe": dict, "split": str, "quantise": str}
PROTOCOL |= dict.fromkeys(("num_clips", "context", "horizon", "samples"), int)
ROW = {
    "name": str,
    "clips": int,
    "samples": int,
    "metrics": dict,
    "clip_ids": list,
    "failed_clips": dict,
    "parameters": int,
}
ROW |= dict.fromkeys(("flops_per_frame", "step_ms", "frames_per_second"), NUMBER)
COST = {"flops_per_frame": int | float, "frames_per_second": int | float, "batch_size": int}  # of what was timed
CODES = {"usage": int | float, "perplexity": int | float, "num_codes": int, "tokens": int}
CELL = {"mean": NUMBER, "stderr": NUMBER}
GAIN = CELL | {"gain": NUMBER, "gain_stderr": NUMBER}
CURVE = ("per_frame", "per_frame_stderr")
METRIC = CELL | {"windows": dict, "better": str, "unit": str} | dict.fromkeys((*CURVE, "per_clip"), list)
BETTER = ("higher", "lower", "one", "neither")
TOGETHER = (("group_mean", "group_std"), ("floor", "floor_clips"))  # one of them alone says nothing


def check(data: Any) -> None:
    """Raises ValueError that names the first part of a result that is missing, or of another type or length."""
    _require(data, {"protocol": dict, "checkpoint": dict, "environment": dict, "rows": list}, "it")
    _require(data["environment"], {"device": str}, "environment")
    _protocol(data["protocol"])
    if "seconds" in data:
        _numbers(data["seconds"], "seconds", but="metrics")
        _require(data["seconds"], {"metrics": dict}, "seconds")
        _numbers(data["seconds"]["metrics"], "seconds.metrics")
    if not data["rows"]:
        raise ValueError("it has no rows")
    for i, row in enumerate(data["rows"]):
        _row(row, f"rows[{i}]", list(data["rows"][0]["metrics"]) if i else [])
    _alike(data["rows"])


def _protocol(protocol: dict[str, Any]) -> None:
    _require(protocol, PROTOCOL, "protocol")
    _require(protocol, {"data": str} if "data" in protocol else {}, "protocol")
    if "metrics" in protocol:
        _listed(protocol["metrics"], dict, "protocol.metrics")
    recipe = protocol["recipe"]
    _require(recipe, {"name": str} if recipe.get("name") else {"kind": str}, "protocol.recipe")


def _row(row: Any, where: str, metrics: list[str]) -> None:
    """`metrics` are those it must have."""
    _require(row, ROW, where)
    _require(row["metrics"], dict.fromkeys(metrics, dict), f"{where}.metrics")
    _require(row, COST if row["step_ms"] is not None else {}, where)
    _listed(row["clip_ids"], str, f"{where}.clip_ids")
    if "warnings" in row:
        _listed(row["warnings"], str, f"{where}.warnings")
    if row.get("codes"):
        _require(row["codes"], CODES, f"{where}.codes")
    for metric, entry in row["metrics"].items():
        _metric(entry, f"{where}.metrics.{metric}", len(row["clip_ids"]))


def _metric(entry: Any, where: str, clips: int) -> None:
    _require(entry, CELL, where)
    if "windows" not in entry:
        return
    _require(entry, METRIC, where)
    if entry["better"] not in BETTER or not entry["windows"]:
        raise ValueError(f"{where} has no windows, or better = {entry['better']!r}, not one of {', '.join(BETTER)}")
    for window, cell in entry["windows"].items():
        _require(cell, CELL, f"{where}.windows.{window}")
    for name in (*CURVE, "per_clip"):
        _listed(entry[name], NUMBER, f"{where}.{name}")
    if len({len(entry[name]) for name in CURVE}) > 1 or len(entry["per_clip"]) not in (0, clips):
        raise ValueError(f"{where} has numbers of another count of frames or clips")
    if "ratio_to_error" in entry:
        _require(entry, {"ratio_to_error": NUMBER}, where)
    for pair in TOGETHER:
        _require(entry, dict.fromkeys(pair, NUMBER) if set(pair) & set(entry) else {}, where)
    if entry.get("best_of"):
        _require(entry["best_of"], {"samples": int, "windows": dict}, f"{where}.best_of")
        _metric(entry["best_of"] | {key: entry[key] for key in ("better", "unit")}, f"{where}.best_of", clips)
    if entry.get("revisit"):
        _revisit(entry["revisit"], f"{where}.revisit")


def _revisit(test: Any, where: str) -> None:
    _require(test, {"difference": dict, "unmatched": dict}, where)
    _require(test["difference"], CELL, f"{where}.difference")
    for place, groups in ((where, test), (f"{where}.unmatched", test["unmatched"])):
        for name in ("seen", "new"):
            _require(groups.get(name), GAIN, f"{place}.{name}")


def _alike(rows: list[dict[str, Any]]) -> None:
    """Raises ValueError unless a metric has the same windows in all rows."""
    for metric in rows[0]["metrics"]:
        entries = [row["metrics"][metric] for row in rows]
        known = [list(entry["windows"]) for entry in entries if "windows" in entry]
        if any(windows != known[0] for windows in known):
            raise ValueError(f"its rows do not have {metric} over the same windows")


def _require(table: Any, kinds: dict[str, Any], where: str) -> None:
    """Raises ValueError unless `table` is one that has these keys, each with a value of its kind."""
    if not isinstance(table, dict):
        raise ValueError(f"{where} is not a table")
    for key, kind in kinds.items():
        if key not in table or not isinstance(table[key], kind):
            raise ValueError(f"{where} has no {key}, or of another type")


def _listed(values: Any, kind: Any, where: str) -> None:
    if not isinstance(values, list) or not all(isinstance(value, kind) for value in values):
        raise ValueError(f"{where} is not a list, or an item is of another type")


def _numbers(table: Any, where: str, but: str = "") -> None:
    kinds = dict.fromkeys(table, int | float) if isinstance(table, dict) else {}
    _require(table, {key: kind for key, kind in kinds.items() if key != but}, where)
