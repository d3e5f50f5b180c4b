"""TOML files <-> frozen dataclasses: the only loader.

A dataclass is the schema. A union of dataclasses is a registry: the table's `kind` says which member is meant, and
`kind = "package.module:Config"` names a part that lives outside this package; left out, it is that of the field's
default. Loading is strict: an unknown key, a wrong type or an unknown kind is a ConfigError that names the key, the
value and what is allowed.
"""

import dataclasses
import difflib
import importlib
import tomllib
import types
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import tomli_w

T = TypeVar("T")

PACKAGE = Path(__file__).parent
CHECKOUT = PACKAGE.parent
RUNS = Path("checkpoints") / "runs"  # where training writes, unless it is told where
# Where files called by name lie: in a wheel inside the package, in a checkout where people look for them.
FOLDERS = {
    "presets": (PACKAGE / "configs",),
    "recipes": (PACKAGE / "recipes", CHECKOUT / "datasets"),
    "protocols": (PACKAGE / "protocols", CHECKOUT / "eval" / "protocols"),
    "ablations": (PACKAGE / "ablations", CHECKOUT / "eval" / "ablations"),
}


class ConfigError(ValueError):
    """A configuration that cannot be used; the message is for the person who wrote it."""


def named(folder: str, **kwargs: Any) -> Any:
    """A dataclass field that a file may give by name: `recipe = "moving-mnist"` reads that file of `folder`."""
    return dataclasses.field(metadata={"folder": folder}, **kwargs)


def at_least(config: Any, **limits: float) -> None:
    """For a dataclass's `__post_init__`: ValueError if a field, or one of a tuple's items, is below its limit."""
    for name, limit in limits.items():
        value = getattr(config, name)
        if not all(item >= limit for item in (value if isinstance(value, tuple) else (value,))):
            raise ValueError(f"{name} = {value}: must be at least {limit}")


def at_most(config: Any, **limits: float) -> None:
    """As `at_least`, for what is above its limit."""
    for name, limit in limits.items():
        value = getattr(config, name)
        if not all(item <= limit for item in (value if isinstance(value, tuple) else (value,))):
            raise ValueError(f"{name} = {value}: must be at most {limit}")


def shipped(folder: str) -> list[str]:
    """Names of the files of `folder` ("presets", "recipes", ...) that come with videopred, sorted."""
    return sorted({path.stem for place in FOLDERS[folder] for path in place.glob("*.toml")})


def find(folder: str, name: str) -> Path:
    """The TOML file that `name` (a shipped name, or a path to a file) means. Raises ConfigError if there is none."""
    if name.endswith(".toml") or "/" in name:
        if Path(name).is_file():
            return Path(name)
        raise ConfigError(f"{name}: no such file. Give a path to a TOML file, or one of {_listed(shipped(folder))}")
    for place in FOLDERS[folder]:
        if (place / f"{name}.toml").is_file():
            return place / f"{name}.toml"
    raise ConfigError(f"{name}: no such name in {folder}{meant(name, shipped(folder))}")


def read(path: Path) -> dict[str, Any]:
    """The table of one TOML file; a file without a `name` is called after its stem."""
    return {"name": path.stem} | parse(path)


def parse(path: Path) -> dict[str, Any]:
    """The table of one TOML file as it stands. Raises ConfigError."""
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from error
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error


def load(cls: type[T], folder: str, name: str, overrides: Sequence[str] = ()) -> T:
    """Reads the file `name` of `folder` as a `cls`, after applying `overrides` such as `training.steps=100`."""
    raw = _expand(cls, read(find(folder, name)))
    for text in overrides:
        override(raw, text)
        raw = _expand(cls, raw)
    _require_name(raw["name"])
    return from_dict(cls, raw)


def from_dict(cls: Any, data: Any, path: str = "") -> Any:
    """A value of type `cls` (a dataclass, union, Literal, tuple, dict or scalar) from what TOML gave."""
    origin, args = get_origin(cls), get_args(cls)
    if origin in (Union, types.UnionType):
        return _union(args, data, path)
    if dataclasses.is_dataclass(cls):
        return _dataclass(_member((cls,), data, path), data, path)
    if origin is Literal:
        if data in args and type(data) in {type(a) for a in args}:
            return data
        raise ConfigError(f"{path} = {data!r}: must be one of {_listed(args)}{_close(str(data), map(str, args))}")
    if origin is tuple:
        if not isinstance(data, list | tuple) or (args[-1] is not ... and len(data) != len(args)):
            raise ConfigError(f"{path} = {data!r}: must be a list" + ("" if args[-1] is ... else f" of {len(args)}"))
        kinds = [args[0]] * len(data) if args[-1] is ... else args
        return tuple(from_dict(kind, item, f"{path}[{i}]") for i, (kind, item) in enumerate(zip(kinds, data)))
    if origin is dict:
        _require_table(data, path)
        return {key: from_dict(args[1], value, _join(path, key)) for key, value in data.items()}
    data = float(data) if cls is float and type(data) is int else data
    if type(data) is cls and not (cls is float and not abs(data) < float("inf")):  # NaN too
        return data
    what = "a finite number" if type(data) is cls else f"{cls.__name__}, got {type(data).__name__}"
    raise ConfigError(f"{path} = {data!r}: must be {what}")


def to_dict(config: Any) -> Any:
    """The inverse of `from_dict`: plain tables and lists, None left out; an outsider's `kind` is where it lives."""
    if dataclasses.is_dataclass(config):
        pairs = {f.name: getattr(config, f.name) for f in dataclasses.fields(config) if f.init}
        module, name = type(config).__module__, type(config).__qualname__
        if "kind" in pairs and module.partition(".")[0] != __package__:
            pairs["kind"] = f"{module}:{name}"
        return {name: to_dict(value) for name, value in pairs.items() if value is not None}
    if isinstance(config, dict):
        return {key: to_dict(value) for key, value in config.items()}
    if isinstance(config, list | tuple):
        return [to_dict(item) for item in config]
    return config


def dumps(config: Any) -> str:
    """A config as TOML text that `from_dict(type(config), tomllib.loads(text))` reads back equal."""
    return tomli_w.dumps(to_dict(config))


def difference(old: Any, new: Any, path: str = "") -> list[str]:
    """Lines such as `training.steps: 100 -> 200` for every key in which two tables (or values) differ."""
    if isinstance(old, dict) and isinstance(new, dict):
        keys = sorted(old.keys() | new.keys())
        return [line for key in keys for line in difference(old.get(key), new.get(key), _join(path, key))]
    return [] if old == new else [f"{path}: {old!r} -> {new!r}"]


def _dataclass(cls: Any, data: Any, path: str) -> Any:
    hints = get_type_hints(cls)
    fields = {field.name: field for field in dataclasses.fields(cls) if field.init}
    for key in data:
        if key not in fields:
            raise ConfigError(f"{_join(path, key)}: no such key{meant(key, fields)}")
    values = {}
    for name, value in _expand(cls, data).items():
        if name == "kind" and ":" in str(value):
            continue  # an outsider: `_member` found the class by it
        if isinstance(value, dict) and "kind" not in value and hasattr(_default(fields[name]), "kind"):
            value = {"kind": _default(fields[name]).kind} | value
        values[name] = from_dict(hints[name], value, _join(path, name))
    for name, field in fields.items():
        if name not in data and _default(field) is dataclasses.MISSING:
            raise ConfigError(f"{_join(path, name)}: missing; {path or 'the file'} needs it")
    try:
        return cls(**values)
    except ConfigError:
        raise
    except ValueError as error:  # a rule of the dataclass's own __post_init__
        raise ConfigError(f"{path}: {error}" if path else str(error)) from error


def _default(field: dataclasses.Field) -> Any:
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def _union(args: tuple[Any, ...], data: Any, path: str) -> Any:
    if data is None and type(None) in args:
        return None
    members = [arg for arg in args if arg is not type(None)]
    if all(dataclasses.is_dataclass(member) for member in members):
        return _dataclass(_member(members, data, path), data, path)
    members.sort(key=lambda member: member is not type(data))  # 1 is an int before it is a float
    for member in members[:-1]:
        with suppress(ConfigError):
            return from_dict(member, data, path)
    return from_dict(members[-1], data, path)


def _member(members: Sequence[Any], data: Any, path: str) -> Any:
    """The class that a table's `kind` asks for."""
    _require_table(data, path, dataclasses.fields(members[0])[0].name)
    kind = data.get("kind")
    if isinstance(kind, str) and ":" in kind:
        return _outside(kind, _join(path, "kind"))
    if len(members) == 1:
        return members[0]
    kinds = {get_args(get_type_hints(member)["kind"])[0]: member for member in members}
    if kind not in kinds:
        where = f"{_join(path, 'kind')}: missing" if kind is None else f"{_join(path, 'kind')} = {kind!r}"
        raise ConfigError(f"{where}: must be one of {_listed(kinds)}{_close(str(kind), kinds)}")
    return kinds[kind]


def _outside(kind: str, path: str) -> Any:
    module, _, name = kind.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"{path} = {kind!r}: cannot be imported ({error}); is it on PYTHONPATH?") from error
    if not dataclasses.is_dataclass(found) or "kind" not in {field.name for field in dataclasses.fields(found)}:
        raise ConfigError(f"{path} = {kind!r}: must name a dataclass with a field `kind` and a method `build`")
    return found


def _expand(cls: Any, raw: dict[str, Any]) -> dict[str, Any]:
    """`raw` with every field that was given by the name of a file replaced by what the file says."""
    raw = dict(raw)
    for field in dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ():
        value = raw.get(field.name)
        if "folder" in field.metadata and isinstance(value, str):
            raw[field.name] = read(find(field.metadata["folder"], value))
    return raw


def override(raw: dict[str, Any], text: str) -> None:
    """Sets what `text`, key.path=value, says, the value being TOML or a bare word. Raises ConfigError."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ConfigError(f"{text!r}: an override has the form key.path=value, for example training.steps=100")
    try:
        parsed = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value  # a bare word is a string
    *parents, last = key.strip().split(".")
    for i, name in enumerate(parents):
        raw = raw.setdefault(name, {})
        if not isinstance(raw, dict):
            raise ConfigError(f"{text!r}: {'.'.join(parents[: i + 1])} is a value, not a table")
    if last == "kind" and raw.get(last, parsed) != parsed:
        raw.clear()  # settings of the kind that was
    raw[last] = parsed


def _require_name(name: Any) -> None:
    """Raises ConfigError if the name of what a file says could not be, or be part of, a file's name."""
    if isinstance(name, str) and (not name.isprintable() or "/" in name or not name.strip(".")):
        raise ConfigError(f"name = {name!r}: files are called after it; must be printable, without /, and not empty")


def _require_table(data: Any, path: str, key: str = "KEY") -> None:
    if not isinstance(data, dict):
        raise ConfigError(f"{path} = {data!r}: must be a table; one sets its keys, for example {_join(path, key)}=...")


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _listed(names: Iterable[Any]) -> str:
    return ", ".join(str(name) for name in names)


def _close(word: str, names: Iterable[str]) -> str:
    close = difflib.get_close_matches(word, list(names), n=1)
    return f", did you mean {close[0]!r}?" if close else ""


def meant(word: str, names: Iterable[str]) -> str:
    """The end of a message about an unknown `word`: a name that is near it, or all there are."""
    return _close(word, names) or f", there are: {_listed(names)}"
