"""The paper's encoders, decoders and MLPs, chosen by the shape of the observation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

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


Activation = Literal["relu", "leaky_relu", "elu", "tanh"]

_ACTIVATIONS: dict[str, type[nn.Module]] = {
    "relu": nn.ReLU,
    "leaky_relu": nn.LeakyReLU,
    "elu": nn.ELU,
    "tanh": nn.Tanh,
}

SMALLEST_IMAGE = 36  # the three convolutions of the paper need 36 pixels on a side
ICM_SIZE = (42, 42)  # frames of A3C and ICM, with convolutions of their own: the paper's would leave one place of 64


def activation(name: Activation, *, inplace: bool = False) -> nn.Module:
    """A fresh activation layer; `inplace` overwrites its input, where what came before does not need it."""
    if name not in _ACTIVATIONS:
        raise ValueError(f"activation: expected one of {sorted(_ACTIVATIONS)}, got {name!r}")
    return _ACTIVATIONS[name](inplace=True) if inplace and name != "tanh" else _ACTIVATIONS[name]()


def expect_widths(hidden: Sequence[int]) -> None:
    """Refuse hidden layers without units."""
    if any(width < 1 for width in hidden):
        raise ValueError(f"hidden: expected widths of at least 1, got {tuple(hidden)}")


def mlp(inputs: int, hidden: Sequence[int], outputs: int | None = None, act: Activation = "relu") -> nn.Sequential:
    """Linear layers with an activation after each hidden one; `outputs=None` ends on the last hidden layer."""
    expect_widths(hidden)
    layers: list[nn.Module] = []
    for width in hidden:
        layers += [nn.Linear(inputs, width), activation(act)]
        inputs = width
    if outputs is not None:
        layers.append(nn.Linear(inputs, outputs))
    return nn.Sequential(*layers)


class SkipMLP(nn.Module):
    """An MLP whose last layer also sees the input (the paper's Noisy MNIST dynamics model)."""

    def __init__(self, inputs: int, hidden: Sequence[int], outputs: int, act: Activation = "relu") -> None:
        super().__init__()
        self.trunk = mlp(inputs, hidden, None, act)
        self.head = nn.Linear(inputs + hidden[-1] if hidden else inputs, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """(B, inputs) to (B, outputs)."""
        return self.head(torch.cat([x, self.trunk(x)], dim=1) if len(self.trunk) else x)  # type: ignore[no-any-return]


def conv_layers(channels: int, act: Activation) -> nn.Sequential:
    """The paper's three convolutions: 8/4-32, 4/2-64, 3/1-64."""
    return nn.Sequential(
        nn.Conv2d(channels, 32, 8, 4),
        activation(act, inplace=True),
        nn.Conv2d(32, 64, 4, 2),
        activation(act, inplace=True),
        nn.Conv2d(64, 64, 3, 1),
        activation(act, inplace=True),
    )


def grid_layers(channels: int, act: Activation) -> nn.Sequential:
    """3×3 convolutions that keep the size, for observations too small for the paper's."""
    return nn.Sequential(nn.Conv2d(channels, 32, 3, 1, 1), activation(act), nn.Conv2d(32, 64, 3, 1, 1), activation(act))


def icm_layers(channels: int, act: Activation) -> nn.Sequential:
    """The four convolutions of ICM (Pathak et al. 2017) for frames of 42 × 42: 3/2-32 each, 3 × 3 places at the end."""
    layers: list[nn.Module] = []
    for _ in range(4):
        layers += [nn.Conv2d(channels, 32, 3, 2, 1), activation(act)]
        channels = 32
    return nn.Sequential(*layers)


class Encoder(nn.Module):
    """Observation (B, *input_shape) to a feature vector (B, features).

    Images: convolutions, flattened, then a linear layer with activation if `features` is given. Vectors: an MLP of
    the `hidden` widths, then a linear layer of width `features`.
    """

    def __init__(
        self,
        input_shape: tuple[int, ...],
        features: int | None = 512,
        *,
        hidden: Sequence[int] = (256, 256),
        act: Activation = "relu",
        final_activation: bool = True,
    ) -> None:
        super().__init__()
        self.is_image = len(input_shape) == 3
        self.channels_last = self.is_image and min(input_shape[1:]) >= SMALLEST_IMAGE and input_shape[1:] != ICM_SIZE
        if self.is_image:
            channels, height, width = input_shape
            small = min(height, width) < SMALLEST_IMAGE
            if (height, width) == ICM_SIZE:
                self.body, flat = icm_layers(channels, act), 32 * 3 * 3
            else:
                self.body = grid_layers(channels, act) if small else conv_layers(channels, act)
                flat = 64 * math.prod((height, width) if small else conv_sizes(height, width)[-1])
        else:
            self.body = mlp(math.prod(input_shape), hidden, None, act)
            flat = hidden[-1] if hidden else math.prod(input_shape)
        self.features = flat if features is None else features
        self.head = nn.Sequential(nn.Flatten())
        if features is not None:
            self.head.append(nn.Linear(flat, features))
            if final_activation:
                self.head.append(activation(act))

    def forward(self, x: Tensor) -> Tensor:
        """(B, *input_shape) to (B, features)."""
        if self.channels_last and x.device.type == "cpu":
            x = x.contiguous(memory_format=torch.channels_last)
        return self.head(self.body(x))  # type: ignore[no-any-return]


class Decoder(nn.Module):
    """Feature vector to an image: a linear layer, transposed convolutions, resized to the exact shape, a sigmoid.

    Without `squash` there is no sigmoid, for outputs that are not pixels.
    """

    def __init__(self, features: int, output_shape: tuple[int, int, int], *, squash: bool = True) -> None:
        super().__init__()
        self.squash = squash
        channels, height, width = output_shape
        self.size = (height, width)
        self.small = min(self.size) < SMALLEST_IMAGE
        if self.small:
            self.start = (64, height, width)
            layers: list[nn.Module] = [
                nn.Conv2d(64, 32, 3, 1, 1), nn.ReLU(), nn.Conv2d(32, channels, 3, 1, 1)
            ]  # fmt: skip
        elif self.size == ICM_SIZE:
            self.start = (32, 3, 3)
            layers = [
                nn.ConvTranspose2d(32, 32, 3, 2, 1, 1),
                nn.ReLU(),
                nn.ConvTranspose2d(32, 32, 3, 2, 1),
                nn.ReLU(),
                nn.ConvTranspose2d(32, 32, 3, 2, 1),
                nn.ReLU(),
                nn.ConvTranspose2d(32, channels, 3, 2, 1, 1),
            ]
        else:
            self.start = (64, *conv_sizes(height, width)[-1])
            layers = [
                nn.ConvTranspose2d(64, 32, 3, 1),
                nn.ReLU(inplace=True),
                nn.ConvTranspose2d(32, 16, 4, 2),
                nn.ReLU(inplace=True),
                SpaceToDepthConvTranspose2d(16, channels, 8, 4),
            ]
        self.project = nn.Sequential(nn.Linear(features, math.prod(self.start)), nn.ReLU())
        self.body = nn.Sequential(*layers)

    def forward(self, features: Tensor) -> Tensor:
        """(B, features) to (B, C, H, W), in (0, 1) if squashed."""
        image = self.body(self._started(features))
        if image.shape[-2:] != self.size:
            image = nn.functional.interpolate(image, self.size, mode="bilinear", align_corners=False)
        return torch.sigmoid(image) if self.squash else image

    def beside(self, features: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """The output before the sigmoid and the target (B, C, H, W), both space-to-depth where that is faster.

        Either way, a mean over the pixels of what is compared is the same.
        """
        image, last = self._started(features), self.body[-1]
        if isinstance(last, SpaceToDepthConvTranspose2d) and image.device.type == "cpu":
            for layer in list(self.body)[:-1]:
                image = layer(image)
            height, width = ((size - 1) * last.stride[0] + last.kernel_size[0] for size in image.shape[-2:])
            if (height, width) == self.size:
                return last.blocks(image), space_to_depth(target, last.stride[0])
            image = last(image)
        else:
            image = self.body(image)
        if image.shape[-2:] != self.size:
            image = nn.functional.interpolate(image, self.size, mode="bilinear", align_corners=False)
        return image, target

    def _started(self, features: Tensor) -> Tensor:
        image = self.project(features).unflatten(1, self.start)
        if self.small or image.device.type != "cpu":
            return image  # type: ignore[no-any-return]
        return image.contiguous(memory_format=torch.channels_last)  # type: ignore[no-any-return]


@torch.no_grad()
def follow_(slow: nn.Module, fast: nn.Module, decay: float) -> None:
    """Each parameter of `slow` keeps the share `decay` of itself and takes the rest from `fast`."""
    for behind, ahead in zip(slow.parameters(), fast.parameters(), strict=True):
        behind.lerp_(ahead, 1 - decay)


def orthogonal_(module: nn.Module, gain: float = math.sqrt(2)) -> None:
    """Orthogonal weights and zero biases: random features keep the scale of their input, whatever the depth."""
    for layer in module.modules():
        if isinstance(layer, (nn.Linear, nn.Conv2d)):
            nn.init.orthogonal_(layer.weight, gain)
            assert layer.bias is not None
            nn.init.zeros_(layer.bias)


def conv_sizes(height: int, width: int) -> list[tuple[int, int]]:
    """Height and width after each of the paper's convolutions."""
    sizes = []
    for kernel, stride in ((8, 4), (4, 2), (3, 1)):
        height, width = (height - kernel) // stride + 1, (width - kernel) // stride + 1
        sizes.append((height, width))
    return sizes
