"""`videopred data make`: clips that an engine records, or copies of any recipe's, as files that are fast to read.

    <root>/{train,test}/<k>/NNNNNN.npz      clip NNNNNN of a split, k = NNNNNN // 1000: the layout of TECO's DMLab
        video    uint8 (t, h, w, c)
        actions  int32 (t,), the one that leads to each frame; where there are actions
        pose     float32 (t, d); where the recorder knows it
    <root>/maker.json                       what made them: its config, the number of clips, versions

Arrays are not compressed, so that any part of one is read from its place, and files bear no date: the same config
gives the same bytes, whatever the number of processes and however often the work was interrupted.
"""

from videopred.making.make import Made, Stopped, make
from videopred.making.plan import Copy, MakerConfig, Plan, plan_for

__all__ = ["Copy", "Made", "MakerConfig", "Plan", "Stopped", "make", "plan_for"]
