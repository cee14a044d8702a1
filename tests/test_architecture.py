"""The page on architecture names files and functions: they exist."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
PLACE = re.compile(r"`((?:\w+/)+\w+\.py)(?:: ([\w.]+))?`")


def test_every_file_and_function_that_the_page_names_exists() -> None:
    places = PLACE.findall(TEXT)
    assert len(places) > 40
    for path, name in places:
        file = ROOT / (path if path.startswith(("lpm/", "lpm_paper/", "tools/")) else f"lpm/{path}")
        assert file.is_file(), path
        for part in filter(None, name.split(".")):
            assert re.search(rf"\b(def|class) {part}\b", file.read_text(encoding="utf-8")), f"{path}: {name}"


def test_every_package_is_on_the_page() -> None:
    packages = [folder.name for folder in (ROOT / "lpm").iterdir() if (folder / "__init__.py").exists()]
    assert [name for name in packages if f"`lpm/{name}`" not in TEXT] == []
