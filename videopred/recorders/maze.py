"""Mazes and the walk through them: labmaze's random mazes, and an agent that goes from place to place.

Positions are (x, y) in map units, x to the east and y to the north, angles in degrees counter-clockwise from east.
Cell (row, column) of the grid, row 0 in the north, has x in column * CELL and -y in row * CELL to one CELL more.
"""

import math
from collections import deque
from dataclasses import dataclass

import numpy as np

CELL = 128.0
ROOM = 26.0  # how near the agent comes to a wall
JITTER = 18.0  # it aims at a place this far, at most, from the middle of a cell
FORWARD, LEFT, RIGHT = range(3)
MEMORY = 12  # cells it may turn back to

Cell = tuple[int, int]


@dataclass(frozen=True)
class Maze:
    """`walls` bool (n, n); `rooms` str (n, n): the letter of the room a cell belongs to, or "." in a corridor."""

    walls: np.ndarray
    rooms: np.ndarray

    @property
    def cells(self) -> list[Cell]:
        return [(int(row), int(column)) for row, column in np.argwhere(~self.walls)]

    def free(self, x: float, y: float) -> bool:
        """Whether an agent can stand at (x, y)."""
        corners = (cell_of(x + dx, y + dy) for dx in (-ROOM, ROOM) for dy in (-ROOM, ROOM))
        return not any(self.walls[cell] for cell in corners)

    def path(self, start: Cell, goal: Cell) -> list[Cell]:
        """The cells after `start` on a shortest way to `goal`."""
        came: dict[Cell, Cell | None] = {start: None}
        queue = deque([start])
        while queue and goal not in came:
            row, column = queue.popleft()
            for near in ((row, column + 1), (row + 1, column), (row, column - 1), (row - 1, column)):
                if near not in came and not self.walls[near]:
                    came[near] = (row, column)
                    queue.append(near)
        way, cell = [], goal
        while cell != start:
            way.append(cell)
            cell = came[cell]  # type: ignore[assignment]  # labmaze's mazes are connected
        return way[::-1]


def random_maze(size: int, rooms: int, seed: int) -> Maze:
    """A maze of `size` x `size` cells, by the generator of DeepMind Lab."""
    import labmaze

    made = labmaze.RandomMaze(
        height=size,
        width=size,
        max_rooms=rooms,
        room_min_size=3,
        room_max_size=5,
        extra_connection_probability=0.2,
        random_seed=seed,
    )
    layers = [
        np.array([list(row) for row in str(x).strip("\n").split("\n")])
        for x in (made.entity_layer, made.variations_layer)
    ]
    return Maze(layers[0] == "*", layers[1])


def cell_of(x: float, y: float) -> Cell:
    return int(-y // CELL), int(x // CELL)


def middle(cell: Cell) -> tuple[float, float]:
    return (cell[1] + 0.5) * CELL, -(cell[0] + 0.5) * CELL


class Walker:
    """Chooses an action after the other: to a random cell, or with probability `revisit` back to one it knows."""

    def __init__(self, maze: Maze, rng: np.random.Generator, turn: float, revisit: float):
        self.maze, self.rng, self.turn, self.revisit = maze, rng, turn, revisit
        self.way: list[Cell] = []
        self.aim: tuple[float, float] | None = None
        self.seen: list[Cell] = []

    def act(self, x: float, y: float, angle: float) -> int:
        here = cell_of(x, y)
        if here in self.seen:
            self.seen.remove(here)
        self.seen = [*self.seen, here][-MEMORY:]
        while self.aim is None or math.dist(self.aim, (x, y)) < CELL / 5:
            self.aim = self._next(here)
        off = (math.degrees(math.atan2(self.aim[1] - y, self.aim[0] - x)) - angle + 180) % 360 - 180
        if abs(off) <= self.turn * 0.6:
            return FORWARD
        return LEFT if off > 0 else RIGHT

    def stuck(self, x: float, y: float) -> None:
        """The last step led into a wall: first back to the middle of the cell."""
        self.way, self.aim = [], middle(cell_of(x, y))

    def _next(self, here: Cell) -> tuple[float, float]:
        while not self.way:
            known = self.seen[:-1] if self.rng.random() < self.revisit else []
            choice = known or self.maze.cells
            self.way = self.maze.path(here, choice[self.rng.integers(len(choice))])
        x, y = middle(self.way.pop(0))
        dx, dy = self.rng.uniform(-JITTER, JITTER, 2)
        return x + float(dx), y + float(dy)


def step(maze: Maze, x: float, y: float, angle: float, distance: float) -> tuple[float, float]:
    """Where a step forward leads: along a wall where one is in the way."""
    dx, dy = distance * math.cos(math.radians(angle)), distance * math.sin(math.radians(angle))
    for ahead in ((x + dx, y + dy), (x + dx, y), (x, y + dy)):
        if maze.free(*ahead):
            return ahead
    return x, y
