"""Transposed convolutions whose stride divides their kernel, as ordinary ones followed by depth-to-space.

Blocks of stride × stride pixels laid out as channels (space-to-depth) make an ordinary convolution of many channels of
it. On a CPU that is faster at the end of an image network, where there are three or four channels. The numbers are
those of the ordinary layer up to rounding.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

PACKED_SIDE = 4  # numbers of 4 bytes that are moved as one of 16: a row of a block


def space_to_depth(image: Tensor, side: int) -> Tensor:
    """`pixel_unshuffle`, laid out channels last and several times faster: (B, C, side·h, side·w) to (B, C·side², h, w).

    >>> space_to_depth(torch.arange(8.0).view(1, 1, 2, 4), 2)[0, :, 0, :].tolist()
    [[0.0, 2.0], [1.0, 3.0], [4.0, 6.0], [5.0, 7.0]]
    """
    rows, channels, height, width = image.shape
    h, w = height // side, width // side
    if side == PACKED_SIDE and image.dtype == torch.float32 and image.is_contiguous() and rows:
        blocks = (
            image.flatten().view(torch.complex128).view(rows, channels, h, side, w).permute(0, 2, 4, 1, 3).contiguous()
        )
        packed = blocks.view(torch.float32)
    else:
        packed = image.reshape(rows, channels, h, side, w, side).permute(0, 2, 4, 1, 3, 5).contiguous()
    return packed.view(rows, h, w, channels * side**2).permute(0, 3, 1, 2)


class SpaceToDepthConvTranspose2d(nn.ConvTranspose2d):
    """An ordinary transposed convolution with the parameters of one, which also gives its output as blocks."""

    def forward(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:
        """(B, C, h, w) to (B, outputs, H, W)."""
        if input.device.type != "cpu" or output_size is not None:
            return super().forward(input, output_size)
        return functional.pixel_shuffle(self.blocks(input), self.stride[0])

    def blocks(self, x: Tensor) -> Tensor:
        """(B, C, h, w) to the output in blocks of stride × stride pixels, (B, outputs·stride², H/stride, W/stride)."""
        side, inputs, outputs = self.stride[0], *self.weight.shape[:2]
        n = self.kernel_size[0] // side
        weight = self.weight.view(inputs, outputs, n, side, n, side).flip(2, 4)
        weight = weight.permute(1, 3, 5, 0, 2, 4).reshape(-1, inputs, n, n)
        bias = None if self.bias is None else self.bias.repeat_interleave(side**2)
        return functional.conv2d(x, weight, bias, padding=n - 1)


class _PixelError(torch.autograd.Function):
    """Mean squared error of σ(z), or of z, in as few passes over the pixels as it takes; z is overwritten."""

    @staticmethod
    def forward(ctx: Any, z: Tensor, target: Tensor, squash: bool) -> tuple[Tensor, Tensor]:
        shown = z.sigmoid_() if squash else z
        difference = shown - target
        ctx.squash = squash
        ctx.save_for_backward(shown, difference)
        ctx.mark_dirty(z)
        flat = difference.permute(0, 2, 3, 1).reshape(-1)
        return torch.dot(flat, flat) / max(1, flat.numel()), z

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        shown, difference = ctx.saved_tensors
        gradient = difference * (2 * gradients[0] / max(1, difference.numel()))
        if ctx.squash:
            gradient = torch.ops.aten.sigmoid_backward.grad_input(gradient, shown, grad_input=gradient)
        return gradient, None, None


def pixel_error(z: Tensor, target: Tensor, *, squash: bool) -> Tensor:
    """Mean squared difference of σ(z), or without `squash` of z, to a target (B, C, H, W) that needs no gradient.

    z is overwritten.
    """
    error, _ = _PixelError.apply(z, target, squash)  # type: ignore[no-untyped-call]
    return error  # type: ignore[no-any-return]
