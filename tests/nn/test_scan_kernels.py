"""The scan's GPU kernels without a GPU: the scan's own tests in Triton's interpreter, and the compiler's opinion."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="there is no Triton here")

# gradcheck and opcheck launch hundreds of times, and Dynamo has seen the operator already
SKIPPED = "not rules_of_torch and not compiles and not any_number and not 64-torch.float64 and not only_wanted"


def test_they_pass_the_tests_of_the_scan_in_the_interpreter():
    command = [sys.executable, str(Path(__file__).with_name("interpreted.py")), "-x", "-k", SKIPPED]
    done = subprocess.run(command, capture_output=True, text=True, timeout=290)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    launched = re.search(r"kernels launched: (\d+) forward, (\d+) backward", done.stdout)
    assert launched and int(launched[1]) >= 30 and int(launched[2]) >= 15


@pytest.mark.parametrize("varying", [False, True], ids=["shared", "varying"])
def test_they_compile_to_wide_accesses_without_a_detour_through_shared_memory(varying):
    """For an H100, from bfloat16. The interpreter takes what the compiler refuses; here nothing is run."""
    triton = pytest.importorskip("triton")
    from triton.backends.compiler import GPUTarget

    from videopred.nn import scan_kernels

    for kernel in (scan_kernels._forward, scan_kernels._backward):
        constants = {"VARYING": varying, "BLOCK": scan_kernels.BLOCK}
        counts, short = ("steps", "lanes", "states"), ("b", "grad_b")
        types = {name: "i32" if name in counts else "*bf16" if name in short else "*fp32" for name in kernel.arg_names}
        types |= dict.fromkeys(constants, "constexpr")
        aligned = {(i,): [["tt.divisibility", 16]] for i, name in enumerate(kernel.arg_names) if types[name][0] == "*"}
        source = triton.compiler.ASTSource(kernel, types, constexprs=constants, attrs=aligned)
        code = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 1}).asm["ptx"]
        assert len(re.findall(r"ld\.global\S*\.v2\.", code)) >= 4 * (1 + varying)
        assert "ld.shared" not in code and "shfl" not in code
