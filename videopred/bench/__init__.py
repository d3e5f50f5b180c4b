"""Benches: what videopred costs on this machine, always as a ratio to something measured in the same minutes.

A bench is a module here with

    rows(quick: bool, checkpoint: str | None) -> Iterator[Row]      each row as soon as it is known

`quick` asks for fewer rounds or a shorter run, never for another question; `checkpoint` is for benches of a model. Rows
come from `rounds.compare`: what is compared runs in turn, and a ratio is the median over rounds of the ratio within a
round, for the speed of a machine drifts. A row's `shape` says on what, so that it can be read alone.

To add one: a module here, and its name below with what it measures, as the help says it.
"""

NAMES = {
    "scan": "the recurrence against naive loops, torch's associative_scan, and copying",
    "layer": "a ConvS5 layer as a share of the rate of its convolutions",
    "train": "a step of training on clips of 64, 256 and 1,024 frames, ConvS5 beside other memories",
    "time_chunk": "memory and gradients of training in chunks of time",
    "spatial": "spatial blocks at equal width, and the kernel of ssm2d against its recurrence",
    "data": "the generator and the loader: frames per second",
    "rollout": "time of a step and memory, early and late in a long rollout; what is spared; other memories",
    "drift": "a rollout in bfloat16 beside the same in float32",
    "gpu": "scan, training, compilation and rollout on a GPU",
}
OF_A_MODEL = ("rollout", "drift")  # those that take a checkpoint
