"""Runs the tests of the scan on its GPU kernels, in Triton's interpreter, on CPU tensors: `python interpreted.py`.

In a process of its own, for TRITON_INTERPRET must be there before Triton is imported. Options are pytest's.
"""

import os
import sys
from pathlib import Path

os.environ["TRITON_INTERPRET"] = "1"

import pytest

from videopred.nn import scan, scan_kernels

LAUNCHES = []


class Interpreted:
    """What pytest sees of this file: the kernels serve the CPU, and are counted."""

    @pytest.fixture(autouse=True)
    def kernels(self, monkeypatch):
        monkeypatch.setattr(scan, "_kernels", lambda device: self)

    def forward(self, *arguments):
        LAUNCHES.append("forward")
        return scan_kernels.forward(*arguments)

    def backward(self, *arguments):
        LAUNCHES.append("backward")
        return scan_kernels.backward(*arguments)


if __name__ == "__main__":
    tests = Path(__file__).with_name("test_scan.py")
    code = pytest.main([str(tests), "-q", "-p", "no:cacheprovider", *sys.argv[1:]], plugins=[Interpreted()])
    print(f"kernels launched: {LAUNCHES.count('forward')} forward, {LAUNCHES.count('backward')} backward")
    sys.exit(code)
