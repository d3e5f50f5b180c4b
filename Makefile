# make demo    see the shipped model predict, be evaluated, and a tiny one train
# make test    everything continuous integration checks
# make test-videos    fetches packages with real video files (120 MB), which `make test` then reads too
# make test-report    looks at a report in Debian's Chromium, if it is there; leaves screenshots in tests/.report
# make families       scores one set of rollouts under three families of protocols (eval/README.md)
# make fvd-memory     measures the memory of FVD's network for clips of up to 1,300 frames
#
# Both work in .venv, which is made on first use. On Linux, pip takes torch's CUDA build (5.5 GB on disk). PIP_ARGS hands
# pip other options, for example the index of torch's CPU builds that torch's own install page names:
#     make demo PIP_ARGS="--extra-index-url INDEX"

PYTHON ?= python3
PIP_ARGS ?=
BIN := .venv/bin

.PHONY: demo test test-videos test-report families fvd-memory format clean

demo: .venv/installed
	$(BIN)/videopred rollout moving-mnist-small --out demo/rollout.mp4 --count 2 --horizon 100 --scale 4
	$(BIN)/videopred eval moving-mnist-small moving-mnist-small --clips 8 --out demo/evaluation.json
	$(BIN)/videopred train debug --out demo/debug
	@echo
	@echo "demo/rollout.mp4         two clips, 100 predicted frames each: truth beside prediction"
	@echo "demo/evaluation.json     the table above in full: per frame, per clip"
	@echo "demo/debug/              the run: its config, metrics.jsonl, strips and checkpoints"

test: .venv/installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/pytest

# Real videos for the reader's tests; without a network they are skipped.
test-videos: .venv/installed-test
	$(BIN)/python tests/data/fetch_videos.py

test-report: .venv/installed-test
	$(BIN)/python tests/evaluation/look_at_report.py

# Each family has its own way to uint8, so the model is rolled out anew for each: it is deterministic, the clips are the same.
families: .venv/installed-test
	for family in convssm styleganv openstl; do $(BIN)/videopred eval moving-mnist-small families-$$family \
		--batch-size 4 --out eval/results/families-$$family.json --format json > /dev/null || exit 1; done
	$(BIN)/videopred table eval/results/families-*.json --across-protocols

fvd-memory: .venv/installed
	$(BIN)/python tests/metrics/fvd_memory.py --out eval/results/fvd-memory.json

format: .venv/installed-test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv demo tests/.videos tests/.report

.venv/installed: EXTRAS =
.venv/installed-test: EXTRAS = [test]
# engines that not every Python has wheels of: without them their tests are skipped, visibly
.venv/installed-test: ALSO = $(BIN)/pip install $(PIP_ARGS) --editable ".[doom-maze]" || echo "doom-maze: not installed"
.venv/installed .venv/installed-test: pyproject.toml | $(BIN)/python
	$(BIN)/pip install $(PIP_ARGS) --editable ".$(EXTRAS)"
	$(ALSO)
	@touch $@

$(BIN)/python:
	$(PYTHON) -m venv .venv
