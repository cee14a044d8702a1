"""Names of Atari games, and Montezuma's Revenge's place in its pyramid."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lpm.suggest import suggest

MONTEZUMA = "montezuma_revenge"
ROOMS = 24
NUM_CELLS = ROOMS * 256 * 256
_RAM_ROOM, _RAM_X, _RAM_Y = 3, 42, 43


def import_ale() -> Any:
    """The ale_py package, or an error that says how to get it."""
    try:
        import ale_py
    except ImportError as error:
        raise ImportError('Atari games need ale-py: pip install "lpm-exploration[atari]"') from error
    return ale_py


def rom_name(game: str) -> str:
    """The ALE's name of a game: "MsPacman", "Ms Pacman" and "ms_pacman" are one."""
    import_ale()
    from ale_py import roms

    known = roms.get_all_rom_ids()
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", game.strip().replace("'s", "").replace("-", " "))
    name = re.sub(r"[\s_]+", "_", name).lower()
    by_letters = {rom.replace("_", ""): rom for rom in known}
    found = by_letters.get(name.replace("_", ""))
    if found is None:
        raise ValueError(f"expected one of the {len(known)} games of the ALE, got {game!r}{suggest(name, known)}")
    return str(found)


def rom_path(game: str) -> Path:
    """Where the ROM of a game lies."""
    from ale_py import roms

    path = roms.get_rom_path(rom_name(game))
    if path is None or not Path(path).is_file():
        raise ValueError(
            f"the ROM of {game!r} is missing from the installed ale-py, whose wheels carry it: "
            'pip install --force-reinstall "lpm-exploration[atari]"'
        )
    return Path(path)


def place_in_pyramid(ram: NDArray[np.uint8]) -> tuple[int, int, int]:
    """Montezuma's x, y and room, from the bytes of the console's memory that hold them."""
    return int(ram[_RAM_X]), int(ram[_RAM_Y]), min(int(ram[_RAM_ROOM]), ROOMS - 1)


def cell_of(x: int, y: int, room: int) -> int:
    """The coverage cell of a place."""
    return (room * 256 + y) * 256 + x


def rooms_of(cells: NDArray[np.int64]) -> NDArray[np.int64]:
    """The rooms in which coverage cells lie."""
    return cells // (256 * 256)
