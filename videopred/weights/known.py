"""The weight files that metrics can use."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Weights:
    """
    about     : what it is, for people
    megabytes : about, from the number of parameters
    prefix    : what the SHA-256 begins with, where the name of the file promises it, as torchvision's do
    holds     : name and shape of one tensor that tells this file from others; empty for TorchScript
    """

    about: str
    file: str
    url: str
    megabytes: int
    prefix: str = ""
    holds: tuple[str, tuple[int, ...]] | None = None


TORCHVISION = "https://download.pytorch.org/models/"
KNOWN = {
    "i3d_pretrained_400": Weights(
        "I3D, Kinetics-400, a state dict (fvd)",
        "i3d_pretrained_400.pt",
        "https://github.com/songweige/TATS/raw/main/tats/fvd/i3d_pretrained_400.pt",
        51,
        holds=("logits.conv3d.weight", (400, 1024, 1, 1, 1)),
    ),
    "i3d_torchscript": Weights(
        "I3D, Kinetics-400, TorchScript of StyleGAN-V (fvd)",
        "i3d_torchscript.pt",
        "https://www.dropbox.com/s/ge9e5ujwgetktms/i3d_torchscript.pt?dl=1",
        51,
    ),
    "alexnet": Weights(
        "AlexNet of torchvision (lpips)",
        "alexnet-owt-7be5be79.pth",
        TORCHVISION + "alexnet-owt-7be5be79.pth",
        244,
        "7be5be79",
        ("features.10.weight", (256, 256, 3, 3)),
    ),
    "vgg16": Weights(
        "VGG-16 of torchvision (lpips)",
        "vgg16-397923af.pth",
        TORCHVISION + "vgg16-397923af.pth",
        553,
        "397923af",
        ("features.28.weight", (512, 512, 3, 3)),
    ),
    "squeezenet1_1": Weights(
        "SqueezeNet 1.1 of torchvision (lpips)",
        "squeezenet1_1-b8a52dc0.pth",
        TORCHVISION + "squeezenet1_1-b8a52dc0.pth",
        5,
        "b8a52dc0",
        ("features.12.expand3x3.weight", (256, 64, 3, 3)),
    ),
}
