"""Recipes: where clips come from. No model is known here.

A recipe is a frozen dataclass, written as a TOML file in datasets/, with
    kind, name         `name` is the file's stem
    format             -> clip.Format: channels, height, width, number of actions
    build(split, frames) -> dataset     split is "train" or "test"; NoClips (a ValueError) if there are none

A dataset has `__len__` and `__getitem__(i) -> Clip`: uint8 frames (t, h, w, c), t == frames, in the recipe's format;
an id that is unique in its split; IndexError outside 0..len-1. Clip i is always the same clip, in every process, and
with fewer frames the start of the same clip. `max_frames` is the most that can be asked for (None: there is no end);
where clips differ in length, those that are too short are left out, and an index then counts the others.
A dataset of recordings may also have `window(i, epoch)`: what `loader.batches` gives in place of clip i when it
shuffles, for each epoch from another place of the recording, always the same one for that recipe, i and epoch. With
`lengths` and `cut(i, start, frames)` it gives any part of recording i.

Members
    moving_mnist         made as it is read, from bundled or torchvision's digits
    moving_mnist_files   mnist_test_seq.npy, or the ConvS5 paper's tree of .npz files
    clips                a folder of .npz files, videos or pictures, with or without actions; TECO's trees as they are
    encoded              tokens that `videopred data encode` made of another recipe's frames, in their place

To add one: a module here with the config above its dataset, a line in `Recipe`, and one in tests/data/test_recipes.py;
or outside this package, named in the TOML as `kind = "package.module:Config"`. `loader.batches` makes batches of any.
"""

from videopred.data.clips import ClipsConfig
from videopred.data.encoded import EncodedConfig
from videopred.data.moving_mnist import MovingMNISTConfig
from videopred.data.moving_mnist_files import MovingMNISTFilesConfig

Recipe = MovingMNISTConfig | MovingMNISTFilesConfig | ClipsConfig | EncodedConfig

__all__ = ["ClipsConfig", "EncodedConfig", "MovingMNISTConfig", "MovingMNISTFilesConfig", "Recipe"]
