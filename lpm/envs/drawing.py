"""A few pixels of drawing for the environments' pictures: RGB arrays, coordinates as x (right) and y (down)."""

import numpy as np
from numpy.typing import NDArray

Picture = NDArray[np.uint8]
Colour = tuple[int, int, int]


def blank(height: int, width: int, colour: Colour) -> Picture:
    """A picture of one colour."""
    return np.full((height, width, 3), colour, dtype=np.uint8)


def rectangle(picture: Picture, x0: float, y0: float, x1: float, y1: float, colour: Colour) -> None:
    """Fill a rectangle, cut at the edges of the picture."""
    picture[max(round(y0), 0) : max(round(y1), 0), max(round(x0), 0) : max(round(x1), 0)] = colour


def line(picture: Picture, x0: float, y0: float, x1: float, y1: float, colour: Colour) -> None:
    """A line one pixel wide, cut at the edges of the picture."""
    count = int(max(abs(x1 - x0), abs(y1 - y0))) + 2
    xs = np.rint(np.linspace(x0, x1, count)).astype(np.int64)
    ys = np.rint(np.linspace(y0, y1, count)).astype(np.int64)
    inside = (xs >= 0) & (xs < picture.shape[1]) & (ys >= 0) & (ys < picture.shape[0])
    picture[ys[inside], xs[inside]] = colour


def disc(picture: Picture, x: float, y: float, radius: float, colour: Colour) -> None:
    """A filled disc, cut at the edges of the picture."""
    ys, xs = np.ogrid[: picture.shape[0], : picture.shape[1]]
    picture[(xs - x) ** 2 + (ys - y) ** 2 <= radius**2] = colour


def triangle(picture: Picture, corners: NDArray[np.float64], colour: Colour) -> None:
    """A filled triangle; `corners` holds three (x, y) pairs in either order around it."""
    ys, xs = np.mgrid[: picture.shape[0], : picture.shape[1]]
    sides = []
    for index in range(3):
        (ax, ay), (bx, by) = corners[index], corners[(index + 1) % 3]
        sides.append((bx - ax) * (ys - ay) - (by - ay) * (xs - ax))
    inside = np.all([side >= 0 for side in sides], axis=0) | np.all([side <= 0 for side in sides], axis=0)
    picture[inside] = colour
