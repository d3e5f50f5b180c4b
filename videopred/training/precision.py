"""Which precision a run computes in: `training.precision`, with "auto" made a fact of the machine."""

import torch

# How processors name their bfloat16 products: Intel and AMD, then Arm.
PRODUCTS = ("amx_bf16", "avx512_bf16", "bf16")


def autocasts(precision: str, device: torch.device) -> bool:
    """Whether a forward pass runs under bfloat16 autocast.

    "auto" does where the hardware multiplies bfloat16. Where it is only emulated it takes several times as long as
    float32. A torch too old to say what a CPU can do gives float32.
    """
    return precision == "bfloat16" or (precision == "auto" and multiplies_bfloat16(device))


def multiplies_bfloat16(device: torch.device) -> bool:
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    capabilities = getattr(torch.cpu, "get_capabilities", dict)()
    return device.type == "cpu" and any(capabilities.get(name) for name in PRODUCTS)
