"""`videopred data check`: reads every clip of a recipe, a folder or a file, and says what they are like.

sources    what is read, and what a bare path holds
tally      counts of what was read, as lines of text
check      reads it all, prints it, and draws a contact sheet
"""

from videopred.checking.check import check
from videopred.checking.tally import describe

__all__ = ["check", "describe"]
