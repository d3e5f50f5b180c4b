"""The walk, on mazes drawn by hand: no engine is needed."""

import itertools
import math

import numpy as np
import pytest

from videopred.recorders.maze import CELL, FORWARD, LEFT, RIGHT, ROOM, Maze, Walker, cell_of, middle, step

DRAWN = """
#######
#     #
# ### #
#   # #
### # #
#     #
#######
"""


@pytest.fixture
def maze() -> Maze:
    rows = [list(row) for row in DRAWN.strip().split("\n")]
    walls = np.array(rows) == "#"
    return Maze(walls, np.where(walls, "*", "."))


def test_a_cells_middle_lies_in_it(maze):
    for cell in maze.cells:
        assert cell_of(*middle(cell)) == cell
        assert maze.free(*middle(cell))


def test_nobody_stands_nearer_to_a_wall_than_allowed(maze):
    x, y = middle((1, 1))
    edge = CELL / 2 - ROOM
    assert maze.free(x - edge + 1, y) and not maze.free(x - edge - 1, y)  # a wall to the west
    assert maze.free(x + edge + 1, y)  # none to the east


def test_a_path_is_the_shortest_and_ends_at_the_goal(maze):
    path = maze.path((1, 1), (5, 1))
    assert path[-1] == (5, 1) and len(path) == 8
    for (row, column), (below, beside) in zip([(1, 1), *path], path, strict=False):
        assert abs(row - below) + abs(column - beside) == 1 and not maze.walls[below, beside]
    assert maze.path((1, 1), (1, 1)) == []


def test_a_step_slides_along_a_wall_and_stops_in_a_corner(maze):
    x, y = middle((1, 1))
    top = y + CELL / 2 - ROOM - 1
    ahead = step(maze, x, top, 45, 10)  # north-east, and the north is walled
    assert ahead == (pytest.approx(x + 10 / math.sqrt(2)), top)
    left = x - CELL / 2 + ROOM + 1
    assert step(maze, left, top, 135, 10) == (left, top)


def test_the_walker_turns_the_shorter_way_and_then_walks(maze):
    walker = Walker(maze, np.random.default_rng(0), 10, 0)
    x, y = middle((1, 1))
    walker.aim = (x + CELL, y)
    assert walker.act(x, y, 5) == FORWARD
    assert walker.act(x, y, 30) == RIGHT
    assert walker.act(x, y, 330) == LEFT
    walker.aim = (x - CELL, y)
    assert walker.act(x, y, 170) == LEFT
    assert walker.act(x, y, 190) == RIGHT


@pytest.mark.parametrize("revisit", [0.0, 0.9])
def test_the_walker_goes_everywhere_and_through_no_wall(maze, revisit):
    walker = Walker(maze, np.random.default_rng(1), 10, revisit)
    (x, y), angle, cells = middle((1, 1)), 0, []
    for _ in range(3000):
        action = walker.act(x, y, angle)
        if action == FORWARD:
            ahead = step(maze, x, y, angle, 16)
            if ahead == (x, y):
                walker.stuck(x, y)
            x, y = ahead
        else:
            angle += 10 if action == LEFT else -10
        assert maze.free(x, y)
        cells.append(cell_of(x, y))
    entered = sum(here != before for before, here in itertools.pairwise(cells))
    assert set(cells) == set(maze.cells)
    assert entered > 150  # it does not stand and turn


def test_a_walker_that_likes_to_return_does(maze):
    def revisited(share: float) -> float:
        """Share of entered cells that were entered within the last six."""
        walker = Walker(maze, np.random.default_rng(2), 10, share)
        here, entered = (1, 1), [(1, 1)]
        for _ in range(600):
            walker.act(*middle(here), 0)
            assert walker.aim is not None
            here = cell_of(*walker.aim)
            entered.append(here)
        return float(np.mean([cell in entered[max(0, i - 6) : i] for i, cell in enumerate(entered)]))

    assert revisited(0.9) > revisited(0.0) + 0.1
