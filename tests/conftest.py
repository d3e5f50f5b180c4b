"""What tests of several folders share."""

import os

os.environ["OMP_NUM_THREADS"] = "1"  # for the processes that tests start

import pytest
import torch

torch.set_num_threads(1)  # results repeat bit for bit only at a fixed number of threads


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


@pytest.fixture
def empty_folder(tmp_path, monkeypatch):
    """An empty folder that is the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
