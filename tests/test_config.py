"""The loader: strict, and its errors name the key, the value and what is allowed."""

import dataclasses
import sys
import tomllib
import types
from dataclasses import dataclass, field
from typing import Literal

import pytest

from videopred import config
from videopred.config import ConfigError, from_dict


@dataclass(frozen=True)
class Gated:
    kind: Literal["gated"] = "gated"
    kernel_size: int = 3


@dataclass(frozen=True)
class Looped:
    kind: Literal["looped"] = "looped"
    state_dim: int = 64
    rate: float = 0.5


@dataclass(frozen=True)
class Source:
    kind: Literal["source"] = "source"
    name: str = ""
    size: int = 8


@dataclass(frozen=True)
class Model:
    memory: Gated | Looped = field(default_factory=Looped)
    only: Gated = field(default_factory=Gated)
    widths: tuple[int, ...] = (8, 16)
    span: tuple[float, float] = (0.0, 1.0)
    skips: tuple[tuple[int, int], ...] = ()
    mode: Literal["paper", "ours"] = "ours"
    limit: int | None = None
    workers: Literal["auto"] | int = "auto"
    bias: bool = False
    extra: dict[str, float] = field(default_factory=dict)

    def __post_init__(self):
        if self.span[0] > self.span[1]:
            raise ValueError(f"span = {self.span}: must rise")


@dataclass(frozen=True)
class Run:
    source: Source = config.named("recipes")
    name: str = ""
    model: Model = field(default_factory=Model)


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Folders of presets and recipes with one of each."""
    for folder in ("presets", "recipes"):
        (tmp_path / folder).mkdir()
        monkeypatch.setitem(config.FOLDERS, folder, (tmp_path / "absent", tmp_path / folder))
    (tmp_path / "presets" / "first.toml").write_text('source = "small"\n[model]\nwidths = [4]\n')
    (tmp_path / "recipes" / "small.toml").write_text("size = 4\n")
    (tmp_path / "recipes" / "large.toml").write_text('kind = "source"\nsize = 64\n')
    return tmp_path


WRONG = {
    "unknown key": ({"memroy": {}}, "model.memroy: no such key, did you mean 'memory'?"),
    "nothing close": (
        {"only": {"zzz": 1}},
        "model.only.zzz: no such key, there are: kind, kernel_size",
    ),
    "a name where none belongs": ({"name": "x"}, "model.name: no such key"),
    "unknown kind": (
        {"memory": {"kind": "gate"}},
        "model.memory.kind = 'gate': must be one of gated, looped, did you mean 'gated'?",
    ),
    "the only kind": ({"only": {"kind": "looped"}}, "model.only.kind = 'looped': must be one of gated"),
    "text for int": ({"only": {"kernel_size": "3"}}, "model.only.kernel_size = '3': must be int, got str"),
    "bool for int": ({"only": {"kernel_size": True}}, "model.only.kernel_size = True: must be int, got bool"),
    "float for int": ({"only": {"kernel_size": 3.0}}, "model.only.kernel_size = 3.0: must be int, got float"),
    "int for bool": ({"bias": 1}, "model.bias = 1: must be bool, got int"),
    "item of a tuple": ({"widths": [4, "8"]}, "model.widths[1] = '8': must be int, got str"),
    "length of a tuple": ({"span": [0.5]}, "model.span = [0.5]: must be a list of 2"),
    "nested tuple": ({"skips": [[1, 2], [3]]}, "model.skips[1] = [3]: must be a list of 2"),
    "value for a list": ({"widths": 4}, "model.widths = 4: must be a list"),
    "value for a table": (
        {"memory": 4},
        "model.memory = 4: must be a table; one sets its keys, for example model.memory.kind=...",
    ),
    "word": ({"mode": "papre"}, "model.mode = 'papre': must be one of paper, ours, did you mean 'paper'?"),
    "infinite": ({"extra": {"a": float("inf")}}, "model.extra.a = inf: must be a finite number"),
    "no number": ({"extra": {"a": float("nan")}}, "model.extra.a = nan: must be a finite number"),
    "table of floats": ({"extra": {"a": "b"}}, "model.extra.a = 'b': must be float, got str"),
    "own rule": ({"span": [2, 1]}, "model: span = (2.0, 1.0): must rise"),
    "no such module": ({"only": {"kind": "nowhere:Part"}}, "model.only.kind = 'nowhere:Part': cannot be imported"),
    "no such name": ({"only": {"kind": "math:Part"}}, "model.only.kind = 'math:Part': cannot be imported"),
    "not a part": ({"only": {"kind": "math:pi"}}, "model.only.kind = 'math:pi': must name a dataclass"),
}


@pytest.mark.parametrize(("table", "message"), WRONG.values(), ids=WRONG)
def test_a_mistake_is_named(table, message):
    with pytest.raises(ConfigError) as caught:
        from_dict(Model, table, "model")
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_values_are_converted_to_their_types():
    model = from_dict(Model, {"span": [0, 2], "skips": [[1, 2]], "limit": 3, "workers": 2, "extra": {"a": 1}})
    assert model == Model(span=(0.0, 2.0), skips=((1, 2),), limit=3, workers=2, extra={"a": 1.0})
    assert [type(value) for value in (*model.span, model.limit, model.extra["a"])] == [float, float, int, float]


def test_a_part_without_a_kind_is_of_the_default_kind():
    assert from_dict(Model, {"memory": {"state_dim": 2}}).memory == Looped(state_dim=2)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../x", "x\0y", "x\ny", "\udcff"])
def test_a_name_that_no_file_can_have_is_refused(name, files):
    with pytest.raises(ConfigError, match=r"^name = .*: files are called after it"):
        config.load(Run, "presets", "first", [f"name={name}"])
    assert config.load(Run, "presets", "first", ["name=mine v1.5-ü"]).name == "mine v1.5-ü"


def test_a_part_without_a_kind_and_a_default_is_refused():
    with pytest.raises(ConfigError, match=r"^kind: missing: must be one of gated, looped$"):
        from_dict(Gated | Looped, {})


def test_what_is_written_is_read_back_equal():
    model = Model(memory=Gated(kernel_size=5), limit=3, skips=((0, 1), (1, 3)), extra={"a.b": 1e-5}, mode="paper")
    run = Run(source=Source(name="s"), model=model)
    assert from_dict(Run, tomllib.loads(config.dumps(run))) == run


def test_every_difference_is_listed():
    old, new = config.to_dict(Model()), config.to_dict(Model(memory=Gated(), limit=1, widths=(8,)))
    assert config.difference(old, old) == []
    assert config.difference(old, new) == [
        "limit: None -> 1",
        "memory.kernel_size: None -> 3",
        f"memory.kind: '{__name__}:Looped' -> '{__name__}:Gated'",  # parts of a test are somebody else's
        "memory.rate: 0.5 -> None",
        "memory.state_dim: 64 -> None",
        "widths: [8, 16] -> [8]",
    ]


@pytest.fixture
def outsider(monkeypatch):
    """A part that lives in a package of somebody else's."""

    @dataclass(frozen=True)
    class Part:
        kind: str = "part"
        size: int = 1

    module = types.ModuleType("somebody")
    Part.__module__, Part.__qualname__, module.Part = "somebody", "Part", Part
    monkeypatch.setitem(sys.modules, "somebody", module)
    return Part


@pytest.mark.parametrize("place", ["memory", "only"], ids=["in a union", "where there is one member"])
def test_a_part_of_somebody_elses_is_taken_checked_and_written_back(outsider, place):
    model = from_dict(Model, {place: {"kind": "somebody:Part", "size": 7}})
    assert getattr(model, place) == outsider(size=7)
    assert config.to_dict(model)[place] == {"kind": "somebody:Part", "size": 7}
    assert from_dict(Model, config.to_dict(model)) == model
    with pytest.raises(ConfigError, match=r"only\.szie: no such key, did you mean 'size'"):
        from_dict(Model, {"only": {"kind": "somebody:Part", "szie": 7}})


def test_a_file_is_found_by_name_and_by_path(files):
    run = config.load(Run, "presets", "first")
    assert run == Run(name="first", source=Source(name="small", size=4), model=Model(widths=(4,)))
    assert config.load(Run, "presets", str(files / "presets" / "first.toml")) == run
    assert config.shipped("recipes") == ["large", "small"]


def test_a_union_is_loaded_from_a_file(files):
    (files / "recipes" / "gated.toml").write_text('kind = "named"\n')

    @dataclass(frozen=True)
    class Named:
        kind: Literal["named"] = "named"
        name: str = ""

    assert config.load(Source | Named, "recipes", "gated") == Named(name="gated")  # type: ignore[arg-type]
    assert config.load(Source | Named, "recipes", "large", ["size=2"]) == Source(name="large", size=2)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (["source.size=5"], {"source": Source(name="small", size=5)}),
        (["source=large"], {"source": Source(name="large", size=64)}),
        (["source=large", "source.size=5"], {"source": Source(name="large", size=5)}),
        (["name=second"], {"name": "second"}),
        (["name='a = b'"], {"name": "a = b"}),
        (["model.memory.rate=1"], {"model": Model(widths=(4,), memory=Looped(rate=1.0))}),
        (["model.memory.kind=gated"], {"model": Model(widths=(4,), memory=Gated())}),
        (
            ["model.memory={kind='looped', rate=2.0}", "model.memory.kind=gated"],
            {"model": Model(widths=(4,), memory=Gated())},
        ),
        (
            ["model.memory={kind='gated', kernel_size=5}", "model.memory.kind=gated"],
            {"model": Model(widths=(4,), memory=Gated(kernel_size=5))},
        ),
        (['model.memory={kind="gated", kernel_size=5}'], {"model": Model(widths=(4,), memory=Gated(kernel_size=5))}),
        (["model.widths=[1, 2]", "model.bias=true"], {"model": Model(widths=(1, 2), bias=True)}),
    ],
)
def test_overrides(files, overrides, expected):
    run = config.load(Run, "presets", "first", overrides)
    assert run == dataclasses.replace(config.load(Run, "presets", "first"), **expected)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("model.widths", "'model.widths': an override has the form key.path=value"),
        ("=3", "'=3': an override has the form"),
        ("model.widths.x=3", "'model.widths.x=3': model.widths is a value, not a table"),
        ("model.memory.rate=fast", "model.memory.rate = 'fast': must be float, got str"),
        ("modle.bias=true", "modle: no such key, did you mean 'model'?"),
        ("source=smal", "smal: no such name in recipes, did you mean 'small'?"),
    ],
)
def test_a_wrong_override_is_named(files, override, message):
    with pytest.raises(ConfigError) as caught:
        config.load(Run, "presets", "first", [override])
    assert str(caught.value).startswith(message)


def test_a_file_that_cannot_be_read_is_named(files):
    broken = files / "broken.toml"
    broken.write_text("a = = 1")
    with pytest.raises(ConfigError, match=r"broken\.toml: not valid TOML: .*line 1"):
        config.load(Run, "presets", str(broken))
    broken.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match=r"broken\.toml: not valid TOML"):
        config.load(Run, "presets", str(broken))
    with pytest.raises(ConfigError, match=r"absent\.toml: no such file\. Give a path .* or one of first"):
        config.load(Run, "presets", "absent.toml")
    with pytest.raises(ConfigError, match="frist: no such name in presets, did you mean 'first'"):
        config.load(Run, "presets", "frist")
    with pytest.raises(ConfigError, match="source: missing; the file needs it"):
        from_dict(Run, {})


@dataclass(frozen=True)
class Limited:
    count: int = 1
    widths: tuple[int, ...] = (1, 2)

    def __post_init__(self):
        config.at_least(self, count=1, widths=1)


@pytest.mark.parametrize(
    ("raw", "said"), [({"count": 0}, "count = 0: must be at least 1"), ({"widths": [4, 0]}, "widths")]
)
def test_a_field_below_its_limit_is_named(raw, said):
    assert config.from_dict(Limited, {"count": 1, "widths": [1]}) == Limited(1, (1,))
    with pytest.raises(ConfigError, match=said):
        config.from_dict(Limited, raw)
