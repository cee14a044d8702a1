"""MNIST and CIFAR-10 as plain NumPy arrays, verified by checksum.

>>> from lpm import data
>>> digits = data.mnist("train")            # doctest: +SKIP
>>> digits.images.shape, digits.complete    # doctest: +SKIP
((60000, 28, 28), True)

Sources, in this order: the folder in the environment variable ``LPM_DATA``, the user cache (``LPM_CACHE``
overrides its place), the public addresses, and last a small stand-in from a Python package that is installed.
What was used is printed once to stderr and kept in ``ImageSet.source``. Nothing is fetched at import.
"""

from lpm.data.download import DataError
from lpm.data.sets import ImageSet, Split, cifar10, mnist, quiet

__all__ = ["DataError", "ImageSet", "Split", "cifar10", "mnist", "quiet"]
