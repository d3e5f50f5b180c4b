"""Blocks: results that share a table because they are of one protocol and of the same true clips."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from videopred import config


@dataclass(frozen=True)
class Block:
    """Rows under one protocol: `models` first, then the trivial ones; each as in a result's `rows`.

    A model under shuffled actions is a row of `models` too, right behind its own.
    """

    protocol: dict[str, Any]
    models: list[dict[str, Any]]
    trivial: list[dict[str, Any]]
    devices: list[str]
    seconds: dict[str, dict[str, Any]]  # of each result, by the name of its model: where its time went
    against: str = ""  # the row that the others are compared with clip by clip

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [*self.models, *self.trivial]

    @property
    def description(self) -> str:
        p = self.protocol
        recipe = p["recipe"].get("name") or p["recipe"]["kind"]
        numbers = f"{p['num_clips']} clips, context {p['context']}, horizon {p['horizon']}, {p['samples']} sample(s)"
        data = f", data {p['data']}" if "data" in p else ""
        return f"{p['name']} ({p['hash']}{data}): recipe {recipe}, {p['split']} split, {numbers}, {p['quantise']}"


def blocks(
    results: Sequence[dict[str, Any]], labels: Sequence[str] = (), *, across_protocols: bool = False, against: str = ""
) -> list[Block]:
    """Results grouped by protocol and data; models of equal name are told apart by `labels` (one each), or by a number.

    against : a row of every block

    Raises ValueError if the results are of more than one protocol, unless `across_protocols`, or lack the row.
    """
    found: dict[tuple[str, str], Block] = {}
    for result, told in zip(results, _names(results, labels), strict=True):
        own, *others = result["rows"]
        models = [own, *(row for row in others if row.get("role") == "shuffled actions")]
        trivial = [row for row in others if row.get("role") != "shuffled actions"]
        models = [row | {"name": told + row["name"].removeprefix(own["name"])} for row in models]
        devices = [result["environment"]["device"]] * len(models)
        block = found.setdefault(ground(result), Block(result["protocol"], [], trivial, [], {}))
        found[ground(result)] = replace(
            block,
            models=[*block.models, *models],
            devices=[*block.devices, *devices],
            seconds=block.seconds | ({told: result["seconds"]} if "seconds" in result else {}),
        )
    if len(found) > 1 and not across_protocols:
        first, second, *_ = (block.protocol for block in found.values())
        differing = [line for line in config.difference(first, second) if not line.startswith(("name:", "hash:"))]
        raise ValueError(
            f"results of different protocols cannot share a table ({first['name']} and {second['name']}; "
            f"{'; '.join(differing[:3])}); --across-protocols prints one table for each"
        )
    for block in found.values() if against else ():
        if against not in (names := [row["name"] for row in block.rows]):
            where = f"protocol {block.protocol['name']!r} has no such row; it has {', '.join(names)}"
            raise ValueError(f"--against {against!r}: {where}")
    return [replace(block, against=against) for block in found.values()]


def ground(result: dict[str, Any]) -> tuple[str, str]:
    """What two results must have alike to share a table: the protocol's hash, and that of the true clips.

    The second is "" in files of older versions, whose first one holds the name of the data's folder.
    """
    return result["protocol"]["hash"], result["protocol"].get("data", "")


def _names(results: Sequence[dict[str, Any]], labels: Sequence[str]) -> list[str]:
    """What each result's model is called in its block: never as another row is, or one would hide the other."""
    own = [(ground(result), result["rows"][0]["name"]) for result in results]
    taken = {(key, row["name"]) for result, (key, _) in zip(results, own, strict=True) for row in result["rows"][1:]}
    found = []
    for i, (key, name) in enumerate(own):
        if labels and (own.count((key, name)) > 1 or (key, name) in taken):
            name = f"{name} [{labels[i]}]"
        numbered = (f"{name} [{number}]" if number > 1 else name for number in itertools.count(1))
        found.append(next(name for name in numbered if (key, name) not in taken))
        taken.add((key, found[-1]))
    return found
