"""Recorders: where clips come from when people have none. Each drives an engine of its own, an optional extra.

A recorder is a frozen dataclass with
    kind                    the engine is imported inside `require` and `record`, never here
    require()               ValueError that names the pip command if the engine is not installed
    record(split, indices) -> Iterator[Clip]
                            clip i of a split is a function of (the config, the split, i) and of the engine's version,
                            whatever else is recorded: uint8 frames (t, h, w, c), actions int64 (t,), the action stored
                            with frame t leading to it, pose float32 (t, d), id "<split>/<i>"
    format                  -> clip.Format of its frames
    action_names            the names of actions 0, 1, ...
    engines                 the packages whose versions decide what clips look like

Members
    doom_maze    DeepMind Lab's maze generator and textures (labmaze), drawn by ViZDoom

To add one: a module here, a line in `Recorder`, an extra in pyproject.toml, a case in tests/recorders. `making/`
writes what they record to disk.
"""

from videopred.recorders.doom_maze import DoomMazeConfig

Recorder = DoomMazeConfig

__all__ = ["DoomMazeConfig", "Recorder"]
