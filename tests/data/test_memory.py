"""Reading for epochs takes no more memory than reading one."""

import os
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from videopred.data import ClipsConfig, loader
from videopred.data.video_writer import VideoWriter

STATUS = Path("/proc/self/statm")


def resident() -> float:
    """MB of this process."""
    return int(STATUS.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


@pytest.mark.skipif(not STATUS.exists(), reason="the system does not say how much memory a process has")
@pytest.mark.parametrize("suffix, epochs", [(".npz", 40), (".mp4", 12)])
def test_memory_stays_flat(tmp_path, suffix, epochs):
    video = np.random.default_rng(0).integers(0, 256, (24, 64, 64, 3)).astype(np.uint8)
    for number in range(8):
        if suffix == ".npz":
            np.savez_compressed(tmp_path / f"{number}.npz", video=video)
        else:
            with VideoWriter(tmp_path / f"{number}.mp4", Fraction(20)) as writer:
                for frame in video:
                    writer.write(frame)
    batches = loader.batches(ClipsConfig(root=str(tmp_path), image_size=64, test_share=0).build("train", 20), 4, 0)
    after = []
    for _ in range(3):
        for _ in range(2 * epochs // 3):
            next(batches)
        after.append(resident())
    read = 8 * epochs // 3 * 20 * 64 * 64 * 3 / 2**20  # MB of frames between two looks
    assert after[2] - after[1] < read / 10, after
