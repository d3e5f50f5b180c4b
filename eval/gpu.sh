#!/usr/bin/env bash
# What needs a GPU, in under ten minutes on one: the scan's tests on the device, then all that `videopred bench gpu`
# measures. Without a GPU it runs on the CPU, small, to see that it works. Options go to the bench; the result is written
# to eval/results/bench-gpu.json unless --json says otherwise.
set -eu
cd "$(dirname "$0")/.."
export VIDEOPRED_TEST_DEVICE=$(python -c 'import torch; print("cuda" if torch.cuda.is_available() else "cpu")')
python -m pytest tests/nn/test_scan.py -q
python -m videopred bench gpu --json eval/results/bench-gpu.json "$@"
