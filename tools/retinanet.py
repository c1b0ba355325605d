"""FLOP of RetinaNet counted from its layers: facts of the catalogue's network and training benchmark come from here."""

from tonnage.physics.network import scaled_to


def retinanet_flop(*, resolution: float, classes: int, backbone_flop: float) -> float:
    """
    FLOP of RetinaNet on a square image: backbone, feature pyramid, and two heads at five scales.

    Backbone at 224 px scaled by pixels; pyramid of 256 channels over strides 8 to 32 (1x1 laterals of 512, 1,024 and
    2,048 channels, 3x3 outputs) and two 3x3 of stride 2; each head four 3x3 convolutions of 256 channels and one 3x3
    to 9 anchors x classes or x 4.

    Parameters
    ----------
    resolution : number
        Side of the image. [px]
    classes : int
        Classes of the box classifier. [-]
    backbone_flop : number
        FLOP of the backbone at 224 px. [FLOP]

    Returns
    -------
    number
        FLOP of one image. [FLOP]

    Valid
    -----
    Backbones with 512, 1,024 and 2,048 channels at strides 8, 16 and 32 (ResNet-50 and relatives).

    Source
    ------
    arXiv 1708.02002; torchvision models/detection/retinanet.py.

    Examples
    --------
    >>> round(retinanet_flop(resolution=800, classes=264, backbone_flop=8.54e9) / 1e9)
    404
    """
    width, kernel = 256.0, 9.0
    pixels = [(resolution / stride) ** 2 for stride in (8.0, 16.0, 32.0, 64.0, 128.0)]
    laterals = sum(size * channels * width for size, channels in zip(pixels, (512.0, 1024.0, 2048.0), strict=False))
    outputs = sum(pixels[:3]) * kernel * width**2
    coarse = kernel * width * (pixels[3] * 2048.0 + pixels[4] * width)
    heads = sum(pixels) * kernel * width * (8.0 * width + 9.0 * classes + 9.0 * 4.0)
    backbone = scaled_to(total=backbone_flop, input_px=224.0, resolution=resolution)
    return backbone + 2.0 * (laterals + outputs + coarse + heads)
