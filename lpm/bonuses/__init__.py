"""The bonuses, one module each. Importing this package registers them; `lpm.make` does so by itself.

A module here without a leading underscore is a bonus: adding one touches its file and its test.
"""

from importlib import import_module
from pkgutil import iter_modules

for _module in iter_modules(__path__):
    if not _module.name.startswith("_"):
        import_module(f"{__name__}.{_module.name}")
