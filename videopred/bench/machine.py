"""The machine that numbers come from, and what it can do at best: the roofline of everything else."""

import os
import platform
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from videopred import __version__
from videopred.bench.rounds import compare
from videopred.nn.flops import counting

MIB = 1 << 20


def environment(rounds: int) -> dict[str, Any]:
    """Versions, processor, threads, and peaks: the best of `rounds` measurements each."""
    return {
        "videopred": __version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "platform": platform.platform(),
        "cpu": cpu_name(),
        "cpus": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "peaks": peaks(rounds),
    }


def cpu_name() -> str:
    """The processor as its maker calls it, as far as the system tells."""
    if platform.system() == "Linux" and (info := Path("/proc/cpuinfo")).is_file():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    if platform.system() == "Darwin":
        told = subprocess.run(["sysctl", "-n", "machdep.cpu.brand_string"], capture_output=True, text=True, check=False)
        if told.stdout.strip():
            return told.stdout.strip()
    return platform.processor() or platform.machine()


def peaks(rounds: int, side: int = 1024, frames: int = 16, megabytes: int = 64) -> dict[str, float]:
    """GFLOP/s (2 per multiply-add) of a float32 matrix product and of a 3x3 convolution 64 -> 64 on `frames` frames
    of 32x32 in channels-last memory; GB/s read and written by a copy of `megabytes` MiB.
    """
    a, b, product = (torch.rand(side, side) for _ in range(3))
    x = torch.rand(frames, 64, 32, 32).to(memory_format=torch.channels_last)
    weight = torch.rand(64, 64, 3, 3).to(memory_format=torch.channels_last)
    source = torch.rand(megabytes * MIB // 4)
    target = torch.empty_like(source)
    functions = {
        "matmul_gflops": lambda: torch.mm(a, b, out=product),
        "conv3x3_gflops": lambda: torch.conv2d(x, weight, padding=1),
        "copy_gbytes": lambda: target.copy_(source),
    }
    work = {
        "matmul_gflops": 2 * side**3,
        "conv3x3_gflops": 2 * 9 * 64 * 64 * 32 * 32 * frames,
        "copy_gbytes": 2 * source.nbytes,
    }
    with torch.no_grad():
        seconds = compare(functions, rounds, title="peaks")
    return {name: work[name] / min(times) / 1e9 for name, times in seconds.items()}


def work(function: Callable[[], object]) -> dict[str, float]:
    """GFLOP of one call, by the peak they are to be measured by; element-wise work and the scan are not counted.

    Backward passes must end in `.grad`: torch's counter does not take `autograd.grad`.
    """
    with counting() as counter:
        function()
    flops = counter.get_flop_counts()["Global"]
    convolutions = sum(count for op, count in flops.items() if "convolution" in str(op))
    found = {"conv3x3_gflops": convolutions / 1e9, "matmul_gflops": (sum(flops.values()) - convolutions) / 1e9}
    return {peak: amount for peak, amount in found.items() if amount}


def resident_mib() -> float | None:
    """Memory that this process holds; where the system only tells the most it ever held, that; None if neither."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / MIB
    except (OSError, ValueError, IndexError):
        pass
    try:
        import resource
    except ImportError:
        return None
    unit = 1 if platform.system() == "Darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / MIB
