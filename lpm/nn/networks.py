"""MLPs, and the paper's encoders and decoders, chosen by the shape of the observation."""

import math
from collections.abc import Sequence
from itertools import pairwise
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

_ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "leaky_relu": nn.LeakyReLU, "elu": nn.ELU, "tanh": nn.Tanh}

Convs = tuple[tuple[int, int, int, int], ...]
"""Width, kernel, stride and padding of each convolution."""
PAPER_CONVS: Convs = ((32, 8, 4, 0), (64, 4, 2, 0), (64, 3, 1, 0))
SMALLEST_IMAGE = 36  # the paper's convolutions need 36 pixels on a side
GRID_CONVS: Convs = ((32, 3, 1, 1), (64, 3, 1, 1))  # keep the size, for observations too small for the paper's
ICM_SIZE = (42, 42)  # frames of A3C and ICM, with convolutions of their own: the paper's would leave one place of 64
ICM_CONVS: Convs = ((32, 3, 2, 1),) * 4  # Pathak et al. 2017; 3 × 3 places at the end


def activation(name: Activation, *, inplace: bool = False) -> nn.Module:
    """A fresh activation layer; `inplace` overwrites its input, where what came before does not need it."""
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


def conv_layers(channels: int, act: Activation, convs: Convs = PAPER_CONVS) -> nn.Sequential:
    """Convolutions, each with an activation; the paper's if left out."""
    layers: list[nn.Module] = []
    for width, kernel, stride, padding in convs:
        layers += [nn.Conv2d(channels, width, kernel, stride, padding), activation(act, inplace=True)]
        channels = width
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
            if (height, width) == ICM_SIZE:
                convs, flat = ICM_CONVS, 32 * 3 * 3
            elif min(height, width) < SMALLEST_IMAGE:
                convs, flat = GRID_CONVS, 64 * height * width
            else:
                convs, flat = PAPER_CONVS, 64 * math.prod(conv_sizes(height, width)[-1])
            self.body = conv_layers(channels, act, convs)
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

    def __init__(self, features: int, output_shape: tuple[int, ...], *, squash: bool = True) -> None:
        super().__init__()
        self.squash = squash
        channels, *size = output_shape
        self.size = (size[0], size[1])
        self.small = min(self.size) < SMALLEST_IMAGE
        up = nn.ConvTranspose2d
        if self.small:
            self.start: tuple[int, ...] = (64, *self.size)
            layers: list[nn.Module] = [nn.Conv2d(64, 32, 3, 1, 1), nn.Conv2d(32, channels, 3, 1, 1)]
        elif self.size == ICM_SIZE:
            self.start = (32, 3, 3)
            layers = [up(32, 32, 3, 2, 1, 1), up(32, 32, 3, 2, 1), up(32, 32, 3, 2, 1), up(32, channels, 3, 2, 1, 1)]
        else:
            self.start = (64, *conv_sizes(*self.size)[-1])
            layers = [up(64, 32, 3, 1), up(32, 16, 4, 2), SpaceToDepthConvTranspose2d(16, channels, 8, 4)]
        self.project = nn.Sequential(nn.Linear(features, math.prod(self.start)), nn.ReLU())
        self.body = nn.Sequential(layers[0])
        for layer in layers[1:]:
            self.body.extend((nn.ReLU(inplace=True), layer))

    def forward(self, features: Tensor) -> Tensor:
        """(B, features) to (B, C, H, W), in (0, 1) if squashed."""
        image = self._sized(self.body(self._started(features)))
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
            return self._sized(last(image)), target
        return self._sized(self.body(image)), target

    def _sized(self, image: Tensor) -> Tensor:
        if image.shape[-2:] == self.size:
            return image
        return functional.interpolate(image, self.size, mode="bilinear", align_corners=False)

    def _started(self, features: Tensor) -> Tensor:
        image = self.project(features).unflatten(1, self.start)
        if self.small or image.device.type != "cpu":
            return image  # type: ignore[no-any-return]
        return image.contiguous(memory_format=torch.channels_last)  # type: ignore[no-any-return]


# ---- several networks of one shape: one batched matrix product instead of a loop --------------------------------
class StackedLinear(nn.Module):
    """Linear layers of K independent networks, each initialised like `nn.Linear`."""

    def __init__(self, members: int, inputs: int, outputs: int) -> None:
        super().__init__()
        bound = 1 / math.sqrt(inputs) if inputs else 0.0
        self.weight = nn.Parameter(torch.empty(members, inputs, outputs).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(members, 1, outputs).uniform_(-bound, bound))

    def forward(self, x: Tensor) -> Tensor:
        """(B, inputs), the same for every member, or (K, B, inputs) to (K, B, outputs)."""
        if len(self.weight) == 1:  # a plain matrix product has less overhead than a batch of one
            return torch.addmm(self.bias[0], x.reshape(-1, x.shape[-1]), self.weight[0]).unsqueeze(0)
        if x.ndim == 2:
            x = x.expand(len(self.weight), *x.shape)
        return torch.baddbmm(self.bias, x, self.weight)


class StackedForward(nn.Module):
    """K models that predict the next features from features and an encoded action.

    Hidden layers, then residual blocks of two layers, then a linear output; the action is shown to every layer.
    """

    def __init__(
        self, features: int, actions: int, *, hidden: Sequence[int] = (512,), blocks: int = 0, members: int = 1
    ) -> None:
        super().__init__()
        if blocks and not hidden:
            raise ValueError(f"hidden: expected a layer for the {blocks} residual blocks to keep the width of, got ()")
        expect_widths(hidden)
        self.act = nn.LeakyReLU(inplace=True)
        widths = [features, *hidden]

        def layer(inputs: int, outputs: int) -> StackedLinear:
            return StackedLinear(members, inputs + actions, outputs)

        self.hidden = nn.ModuleList(layer(a, b) for a, b in pairwise(widths))
        self.blocks = nn.ModuleList(layer(widths[-1], widths[-1]) for _ in range(2 * blocks))
        self.out = layer(widths[-1], features)

    def forward(self, phi: Tensor, action: Tensor) -> Tensor:
        """(B, features) and (B, action width) to the predicted next features of every member, (K, B, features)."""

        def seen(h: Tensor) -> Tensor:
            code = action if h.ndim == 2 else action.expand(h.shape[0], *action.shape)
            return torch.cat([h, code], dim=-1)

        h = phi
        for layer in self.hidden:
            h = self.act(layer(seen(h)))
        for first, second in zip(self.blocks[::2], self.blocks[1::2], strict=True):
            h = h + second(seen(self.act(first(seen(h)))))
        return self.out(seen(h))  # type: ignore[no-any-return]

    def errors(self, phi: Tensor, action: Tensor, target: Tensor) -> Tensor:
        """Mean squared error of each member's prediction of the features `target` (B, F), (K, B)."""
        return (self(phi, action) - target).square().mean(2)  # type: ignore[no-any-return]


# ---- parameters ------------------------------------------------------------------------------------------------
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
