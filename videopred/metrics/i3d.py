"""I3D, the network behind FVD: a two-dimensional Inception blown up in time, trained on Kinetics-400.

Carreira and Zisserman, "Quo Vadis, Action Recognition?" (CVPR 2017). FVD uses its 400 logits before the softmax,
averaged over time. Names of parameters are those of the weight file `i3d_pretrained_400.pt`, a conversion of TensorFlow
Hub's i3d-kinetics-400; its padding is TensorFlow's too ("SAME": as much as the size needs, the odd one at the end).

Two things change numbers. The graph of TensorFlow Hub adds 1e-3 to the variance in its batch norms, and papers used
that; PyTorch ports load the same file and add 1e-5. And a long clip goes through whole: averaging the logits of its
pieces is something else. The first layers, where frames are large, are therefore computed piece by piece with the
overlap they need, which gives the same numbers in bounded memory.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# What is added to the variance: TensorFlow's own number, and that of PyTorch ports with the same weights.
BatchNorm = Literal["tensorflow", "pytorch"]
EPSILON: dict[str, float] = {"tensorflow": 1e-3, "pytorch": 1e-5}

SIDE = 224  # pixels, of the frames that the network takes
INPUT = f"{SIDE} x {SIDE}, bilinear, half-pixel centres, no antialiasing, [-1, 1]"  # what `prepared` does
MIN_FRAMES = 9  # two time steps must be left after three halvings, for means over pairs of them
DIMENSIONS = 400
PIECE = 16  # frames of output at a time, in the first layers

# Channels in, and out of b0, b1a, b1b, b2a, b2b, b3b.
MIXED = {
    "Mixed_3b": (192, (64, 96, 128, 16, 32, 32)),
    "Mixed_3c": (256, (128, 128, 192, 32, 96, 64)),
    "Mixed_4b": (480, (192, 96, 208, 16, 48, 64)),
    "Mixed_4c": (512, (160, 112, 224, 24, 64, 64)),
    "Mixed_4d": (512, (128, 128, 256, 24, 64, 64)),
    "Mixed_4e": (512, (112, 144, 288, 32, 64, 64)),
    "Mixed_4f": (528, (256, 160, 320, 32, 128, 128)),
    "Mixed_5b": (832, (256, 160, 320, 32, 128, 128)),
    "Mixed_5c": (832, (384, 192, 384, 48, 128, 128)),
}
Size = tuple[int, int, int]  # time, height, width


class I3D(nn.Module):
    """Frames (b, 3, t, 224, 224) in [-1, 1], t >= 9 -> (b, 400) logits before the softmax, averaged over time."""

    def __init__(self, batch_norm: BatchNorm = "tensorflow"):
        super().__init__()
        epsilon = EPSILON[batch_norm]
        self.Conv3d_1a_7x7 = Unit(3, 64, epsilon, 7, 2)
        self.MaxPool3d_2a_3x3 = Pool((1, 3, 3), (1, 2, 2))
        self.Conv3d_2b_1x1 = Unit(64, 64, epsilon)
        self.Conv3d_2c_3x3 = Unit(64, 192, epsilon, 3)
        self.MaxPool3d_3a_3x3 = Pool((1, 3, 3), (1, 2, 2))
        mixed = {name: Mixed(width, widths, epsilon) for name, (width, widths) in MIXED.items()}
        self.MaxPool3d_4a_3x3 = Pool((3, 3, 3), (2, 2, 2))
        self.MaxPool3d_5a_2x2 = Pool((2, 2, 2), (2, 2, 2))
        for name, block in mixed.items():
            self.add_module(name, block)
        self.logits = Logits(1024)
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        require_frames(x.shape[2])
        x = self.Conv3d_1a_7x7.in_pieces(x, lambda y: self.Conv3d_2b_1x1(self.MaxPool3d_2a_3x3(y)))
        x = self.Conv3d_2c_3x3.in_pieces(x, self.MaxPool3d_3a_3x3)
        for name in MIXED:
            if name == "Mixed_4b":
                x = self.MaxPool3d_4a_3x3(x)
            if name == "Mixed_5b":
                x = self.MaxPool3d_5a_2x2(x)
            x = self.get_submodule(name)(x)
        return self.logits(x)

    def load_state_dict(self, state_dict: Mapping[str, Tensor], strict: bool = True, assign: bool = False):
        """As always, but the batch norms' counters may be missing, as they are in `i3d_pretrained_400.pt`."""
        return super().load_state_dict(OrderedDict(state_dict), strict, assign)  # a copy loses the version that asks


class Unit(nn.Module):
    """Convolution, batch norm, ReLU."""

    def __init__(self, width_in: int, width: int, epsilon: float, kernel_size: int = 1, stride: int = 1):
        super().__init__()
        self.conv3d = nn.Conv3d(width_in, width, kernel_size, stride, bias=False)
        self.bn = nn.BatchNorm3d(width, eps=epsilon)
        self.kernel_size, self.stride = kernel_size, stride

    def forward(self, x: Tensor) -> Tensor:
        kernel, stride = self.kernel_size, self.stride
        return self._padded(_pad(x, (kernel, kernel, kernel), (stride, stride, stride)))

    def in_pieces(self, x: Tensor, then: Callable[[Tensor], Tensor]) -> Tensor:
        """`then(self(x))`, PIECE frames at a time; `then` treats frames one by one."""
        kernel, stride = self.kernel_size, self.stride
        total = -(-x.shape[2] // stride)
        x = _pad(x, (kernel, 1, 1), (stride, 1, 1))
        pieces = []
        for start in range(0, total, PIECE):
            last = min(start + PIECE, total) - 1
            piece = x[:, :, start * stride : last * stride + kernel]
            pieces.append(then(self._padded(_pad(piece, (1, kernel, kernel), (1, stride, stride)))))
        return torch.cat(pieces, 2)

    def _padded(self, x: Tensor) -> Tensor:
        return F.relu_(self.bn(self.conv3d(x)))


class Pool(nn.Module):
    """Maximum; padded with 0, which is no change because what comes in is never negative."""

    def __init__(self, kernel_size: Size, stride: Size):
        super().__init__()
        self.kernel_size, self.stride = kernel_size, stride

    def forward(self, x: Tensor) -> Tensor:
        return F.max_pool3d(_pad(x, self.kernel_size, self.stride), self.kernel_size, self.stride)


class Mixed(nn.Module):
    """Four branches side by side: 1; 1, then 3; 1, then 3; pool, then 1."""

    def __init__(self, width_in: int, widths: tuple[int, ...], epsilon: float):
        super().__init__()
        b0, b1a, b1b, b2a, b2b, b3b = widths
        self.b0 = Unit(width_in, b0, epsilon)
        self.b1a = Unit(width_in, b1a, epsilon)
        self.b1b = Unit(b1a, b1b, epsilon, 3)
        self.b2a = Unit(width_in, b2a, epsilon)
        self.b2b = Unit(b2a, b2b, epsilon, 3)
        self.b3a = Pool((3, 3, 3), (1, 1, 1))
        self.b3b = Unit(width_in, b3b, epsilon)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.b0(x), self.b1b(self.b1a(x)), self.b2b(self.b2a(x)), self.b3b(self.b3a(x))], 1)


class Logits(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.conv3d = nn.Conv3d(width, DIMENSIONS, 1)

    def forward(self, x: Tensor) -> Tensor:
        """(b, width, t, 7, 7) -> (b, 400): means over pairs of time steps, the logits of each, their mean."""
        return self.conv3d(F.avg_pool3d(x, (2, 7, 7), stride=1)).mean((2, 3, 4))


def require_frames(count: int) -> None:
    if count < MIN_FRAMES:
        raise ValueError(f"I3D needs clips of at least {MIN_FRAMES} frames, its smallest window in time; got {count}")


def prepared(frames: Tensor) -> Tensor:
    """Frames (t, h, w, c), uint8 or in [0, 1], c 1 or 3 -> (1, 3, t, 224, 224) in [-1, 1], float32.

    Resized to 224 x 224 whatever the shape, bilinear with half-pixel centres and no antialiasing: TensorFlow's
    `tf.image.resize`. A gray channel is repeated.
    """
    require_frames(len(frames))
    if frames.shape[-1] not in (1, 3):
        raise ValueError(f"I3D takes frames of 1 or 3 channels, got {frames.shape[-1]}")
    x = frames.movedim(-1, 1)
    x = x.float() if frames.dtype == torch.uint8 else x.float() * 255
    x = F.interpolate(x, (SIDE, SIDE), mode="bilinear", align_corners=False, antialias=False)
    return x.mul_(2 / 255).sub_(1).movedim(1, 0).expand(3, -1, -1, -1)[None]


def _pad(x: Tensor, kernel_size: Size, stride: Size) -> Tensor:
    """Zeros so that ceil(size / stride) steps fit; if their number is odd, one more at the end than at the front."""
    widths = []
    for size, kernel, step in reversed(list(zip(x.shape[2:], kernel_size, stride, strict=True))):
        total = max(kernel - (size % step or step), 0)
        widths += [total // 2, total - total // 2]
    return F.pad(x, widths) if any(widths) else x
