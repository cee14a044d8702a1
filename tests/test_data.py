"""The data module: formats, checksums, order of sources, refusals. Nothing leaves this machine."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import http.server
import importlib.util
import io
import os
import re
import struct
import subprocess
import sys
import tarfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lpm import data
from lpm.data import DataError, ImageSet, download, sets
from lpm.storage.files import write_atomic
from lpm.utils.versions import pip_install


def sha256(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


def idx(array: np.ndarray) -> bytes:
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()


def switched_off(*_: object) -> str:
    raise download.Unreachable("switched off")


@pytest.fixture(autouse=True)
def isolated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Empty folders, no memory of earlier calls, and every way out of the machine closed."""
    monkeypatch.delenv("LPM_DATA", raising=False)
    monkeypatch.setenv("LPM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sets, "_announced", set())
    monkeypatch.setattr(sets, "download", switched_off)
    monkeypatch.setattr(sets, "CIFAR10", dataclasses.replace(sets.CIFAR10, stand_in=lambda: None))
    sets._load.cache_clear()
    yield
    sets._load.cache_clear()


@pytest.fixture
def tiny_mnist(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """idx content of 20 train and 10 test digits, whose checksums the module accepts."""
    rng = np.random.default_rng(0)
    content: dict[str, bytes] = {}
    for n, names in zip((20, 10), sets.MNIST.files.values(), strict=True):
        content[names[0]] = idx(rng.integers(0, 256, (n, 28, 28), np.uint8))
        content[names[1]] = idx(np.arange(n, dtype=np.uint8) % 10)
    for name, raw in content.items():
        monkeypatch.setitem(sets.MNIST.sha256, name, sha256(raw))
    return content


def fill(folder: Path, content: dict[str, bytes], packed: bool = False) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, raw in content.items():
        (folder / (name + ".gz" if packed else name)).write_bytes(gzip.compress(raw) if packed else raw)
    return folder


def test_the_page(
    tiny_mnist: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """docs/data.md, with small sets in place of the real ones."""
    monkeypatch.setenv("LPM_DATA", str(fill(tmp_path / "data", tiny_mnist)))
    monkeypatch.setattr(data, "cifar10", data.mnist)
    page = (Path(__file__).parents[1] / "docs" / "data.md").read_text(encoding="utf-8")
    for code in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(code, {})
    assert "(20, 28, 28)" in capsys.readouterr().out


# --- files ---


@pytest.mark.parametrize("damage", [lambda raw: raw[:-9], lambda raw: b"not gzip", lambda raw: raw[:20] + raw[25:]])
def test_damaged_gzip(damage: Callable[[bytes], bytes], tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(damage(gzip.compress(np.random.default_rng(0).bytes(500))))
    with pytest.raises(DataError, match="damaged gzip"):
        download.read_verified(path, "0" * 64)


def test_gzip_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "MAX_BYTES", 1000)
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(bytes(1001)))
    with pytest.raises(DataError, match="more than 1000 bytes"):
        download.read_verified(path, "0" * 64)


def test_failed_write_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "new" / "file"
    write_atomic(path, b"old")

    def fail(_: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        write_atomic(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(path.parent.iterdir()) == [path]


# --- ImageSet ---


def test_image_set_is_read_only_but_leaves_the_callers_array_alone() -> None:
    own = np.zeros((2, 3, 3), np.uint8)
    made = ImageSet(own, np.arange(2), "here", complete=False)
    with pytest.raises(ValueError, match="read-only"):
        made.images[0, 0, 0] = 1
    own[0, 0, 0] = 1
    assert len(made) == 2


@given(n=st.integers(0, 60))
def test_stand_in_splits_are_disjoint_and_whole(n: int) -> None:
    labels = np.arange(n, dtype=np.uint8)
    pictures = np.zeros((n, 2, 2), np.uint8)
    train, test = sets.part(pictures, labels, "train")[1], sets.part(pictures, labels, "test")[1]
    assert sorted([*train, *test]) == list(range(n))
    assert len(test) == n // 5


# --- MNIST ---


@pytest.mark.parametrize("packed", [False, True])
def test_mnist_from_folder(
    packed: bool,
    tiny_mnist: dict[str, bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("LPM_DATA", str(fill(tmp_path / "mine", tiny_mnist, packed)))
    train, test = data.mnist("train"), data.mnist("test")
    assert train.images.shape == (20, 28, 28)
    assert test.images.shape == (10, 28, 28)
    np.testing.assert_array_equal(train.labels, np.arange(20) % 10)
    assert train.images.tobytes() == tiny_mnist["train-images-idx3-ubyte"][16:]
    assert train.complete
    assert train.source == test.source == "MNIST complete, LPM_DATA folder"
    assert data.mnist("train") is train
    assert capsys.readouterr().err == "lpm: MNIST complete, LPM_DATA folder\n"  # said once


def test_folder_comes_before_cache(
    tiny_mnist: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path / "cache" / "mnist", tiny_mnist)
    assert data.mnist("test").source == "MNIST complete, user cache"
    monkeypatch.setenv("LPM_DATA", str(fill(tmp_path / "mine", tiny_mnist)))
    assert data.mnist("test").source == "MNIST complete, LPM_DATA folder"
    (tmp_path / "other").mkdir()  # a folder without MNIST does not hide the cache
    monkeypatch.setenv("LPM_DATA", str(tmp_path / "other"))
    assert data.mnist("test").source == "MNIST complete, user cache"


@pytest.mark.parametrize("place", ["mine", "cache/mnist"])
def test_corrupt_file_names_path_checksums_and_remedy(
    place: str, tiny_mnist: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = fill(tmp_path / place, tiny_mnist)
    if place == "mine":
        monkeypatch.setenv("LPM_DATA", str(folder))
    name = "t10k-images-idx3-ubyte"
    raw = bytearray(tiny_mnist[name])
    raw[100] ^= 1
    (folder / name).write_bytes(raw)
    with pytest.raises(DataError) as caught:
        data.mnist("test")
    text = str(caught.value)
    for part in (str(folder / name), sets.MNIST.sha256[name], sha256(bytes(raw)), "delete"):
        assert part in text
    assert data.mnist("train").complete  # the other split is untouched


def test_half_a_split_and_a_missing_folder(
    tiny_mnist: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = fill(tmp_path / "mine", tiny_mnist)
    (folder / "train-labels-idx1-ubyte").unlink()
    monkeypatch.setenv("LPM_DATA", str(folder))
    with pytest.raises(DataError, match="Add train-labels-idx1-ubyte"):
        data.mnist("train")
    monkeypatch.setenv("LPM_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(DataError, match="nowhere"):
        data.mnist("train")


@pytest.mark.parametrize("load", [data.mnist, data.cifar10])
def test_unknown_split(load: Callable[[str], ImageSet]) -> None:
    with pytest.raises(ValueError, match="got 'validation'"):
        load("validation")


def test_download_fills_the_cache(
    tiny_mnist: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def download(_: object, checksums: dict[str, str], folder: Path) -> str:
        assert set(checksums) == {f"{name}.gz" for name in tiny_mnist}
        fill(folder, tiny_mnist, packed=True)
        return "example.org"

    monkeypatch.setattr(sets, "download", download)
    assert data.mnist("train").source == "MNIST complete, downloaded from example.org"
    assert data.mnist("test").source == "MNIST complete, user cache"


@pytest.mark.parametrize("load", [data.mnist, data.cifar10])
def test_no_source_at_all_says_what_to_download_and_where_to_put_it(load: Callable[[], ImageSet]) -> None:
    with pytest.raises(DataError, match=r"switched off.*download .*gz from https://.*LPM_DATA") as caught:
        load()
    assert "\n" not in str(caught.value)


# --- CIFAR-10 ---


def to_records(pictures: np.ndarray, labels: np.ndarray) -> bytes:
    planes = pictures.transpose(0, 3, 1, 2).reshape(len(pictures), 3072)
    return np.concatenate([labels[:, None].astype(np.uint8), planes], axis=1).tobytes()


@pytest.fixture
def tiny_cifar(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    rng = np.random.default_rng(2)
    content = {}
    for name in sets.CIFAR10.sha256:
        pictures = rng.integers(0, 256, (4, 32, 32, 3), np.uint8)
        content[name] = to_records(pictures, rng.integers(0, 10, 4))
        monkeypatch.setitem(sets.CIFAR10.sha256, name, sha256(content[name]))
    return content


def test_cifar_record_layout() -> None:
    raw = bytearray(3073)
    place = 1 + 32 * 1 + 2
    raw[0], raw[place], raw[place + 1024], raw[place + 2048] = 7, 10, 20, 30
    pictures, labels = sets.from_records([bytes(raw)])
    assert pictures[0, 1, 2].tolist() == [10, 20, 30]
    assert pictures.sum() == 60
    assert labels.tolist() == [7]


def test_cifar_from_folder_and_corrupt(
    tiny_cifar: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = fill(tmp_path / "mine", tiny_cifar)
    monkeypatch.setenv("LPM_DATA", str(folder))
    train, test = data.cifar10("train"), data.cifar10("test")
    assert train.images.shape == (20, 32, 32, 3)
    assert test.images.shape == (4, 32, 32, 3)
    assert train.complete
    np.testing.assert_array_equal(test.images, sets.from_records([tiny_cifar["test_batch.bin"]])[0])
    (folder / "test_batch.bin").write_bytes(b"broken")
    sets._load.cache_clear()
    with pytest.raises(DataError, match=r"test_batch\.bin: wrong checksum"):
        data.cifar10("test")
    (folder / "data_batch_3.bin").unlink()
    with pytest.raises(DataError, match=r"Add data_batch_3\.bin"):
        data.cifar10("train")


def test_cifar_archive_keeps_only_the_expected_members(
    tiny_cifar: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = tar({f"cifar-10-batches-bin/{name}": content for name, content in tiny_cifar.items()} | {"../evil": b"x"})

    def download(_: object, checksums: dict[str, str], folder: Path) -> str:
        folder.mkdir(parents=True)
        (folder / next(iter(checksums))).write_bytes(raw)
        return "example.org"

    monkeypatch.setattr(sets, "download", download)
    assert data.cifar10("train").source == "CIFAR-10 complete, downloaded from example.org"
    assert {path.name for path in tmp_path.rglob("*") if path.is_file()} == set(tiny_cifar)


def test_cifar_subset_npz_never_unpickles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LPM_DATA", str(tmp_path))
    path = tmp_path / sets.SUBSET
    pictures = np.random.default_rng(0).integers(0, 256, (10, 32, 32, 3), np.uint8)
    np.savez(path, images=pictures, labels=np.arange(10, dtype=np.uint8))
    with pytest.raises(DataError, match="wrong checksum"):
        data.cifar10("test")
    monkeypatch.setattr(sets, "SUBSET_SHA256", sha256(path.read_bytes()))
    test = data.cifar10("test")
    np.testing.assert_array_equal(test.images, pictures[[4, 9]])
    assert not test.complete
    np.savez(path, images=np.array([{"a": 1}], dtype=object), labels=np.arange(1, dtype=np.uint8))
    monkeypatch.setattr(sets, "SUBSET_SHA256", sha256(path.read_bytes()))
    with pytest.raises(ValueError, match="allow_pickle=False"):
        data.cifar10("train")


def png(pixels: np.ndarray) -> bytes:
    image = pytest.importorskip("PIL.Image")
    stream = io.BytesIO()
    image.fromarray(pixels).save(stream, "PNG")
    return stream.getvalue()


def test_photographs_of_an_installed_package_stand_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    for name in sets.PHOTOGRAPHS:
        raw = png(rng.integers(0, 256, (140, 150, 3), np.uint8))
        write_atomic(tmp_path / "sklearn" / "datasets" / "images" / name, raw)
        monkeypatch.setitem(sets.PHOTOGRAPHS, name, sha256(raw))
    monkeypatch.setattr(sets, "CROPS", 50)
    package = importlib.util.spec_from_file_location("sklearn", tmp_path / "sklearn" / "__init__.py")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: package)
    monkeypatch.setattr(sets, "CIFAR10", dataclasses.replace(sets.CIFAR10, stand_in=sets._crops_of_photographs))
    train, test = data.cifar10("train"), data.cifar10("test")
    assert train.images.shape == (40, 32, 32, 3)
    assert test.images.shape == (10, 32, 32, 3)
    assert train.source.startswith("not CIFAR-10: 50 random crops of the photographs china.jpg, flower.jpg")
    assert not train.complete
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "CIFAR-10 is out of reach (switched off)" in said
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert sets._crops_of_photographs() is None


def test_crops_are_windows_of_the_photographs() -> None:
    tall = np.broadcast_to(np.arange(128, dtype=np.uint8)[:, None, None], (128, 129, 3))
    flat = np.full((130, 128, 3), 200, np.uint8)
    made, labels = sets.crops([tall, flat], 200)
    assert set(labels) == {0, 1}
    assert (made[labels == 1] == 200).all()
    steps = np.diff(made[labels == 0].astype(int), axis=1)
    assert (steps == steps[:, :1]).all(axis=(1, 2, 3)).mean() > 0.6  # rows rise by the scale (rounding apart)
    assert {1, 2, 4} <= set(np.unique(steps))


# --- fetching ---


def tar(content: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, raw in content.items():
            member = tarfile.TarInfo(name)
            member.size = len(raw)
            archive.addfile(member, io.BytesIO(raw))
    return stream.getvalue()


def test_archive_links_are_not_followed(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar.gz", mode="w:gz") as archive:
        link = tarfile.TarInfo("wanted")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/hostname"
        archive.addfile(link)
    sets._unpack(tmp_path / "a.tar.gz", {"wanted"})
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, dict[str, list[bytes | int]]]]:
    """A loopback web server: each path has a list of answers (a body or a status); the last one repeats."""
    pytest.importorskip("pooch")
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # pooch waits between two tries
    answers: dict[str, list[bytes | int]] = {}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            queue = answers.get(self.path, [404])
            answer = queue.pop(0) if len(queue) > 1 else queue[0]
            body = answer if isinstance(answer, bytes) else b""
            self.send_response(answer if isinstance(answer, int) else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as web:
        thread = threading.Thread(target=web.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{web.server_port}", answers
        web.shutdown()
        thread.join()


def test_download_retries_and_changes_mirror(server: tuple[str, dict[str, list[bytes | int]]], tmp_path: Path) -> None:
    base, answers = server
    answers["/bad/a"] = [b"damaged"]
    answers["/good/a"] = [503, b"right"]
    bases = (f"{base}/dead/", f"{base}/bad/", f"{base}/good/")
    assert download.download(bases, {"a": sha256(b"right")}, tmp_path / "to") == base.removeprefix("http://")
    assert [path.name for path in (tmp_path / "to").iterdir()] == ["a"]
    assert (tmp_path / "to" / "a").read_bytes() == b"right"


def test_download_gives_up_and_leaves_nothing(server: tuple[str, dict[str, list[bytes | int]]], tmp_path: Path) -> None:
    base, answers = server
    answers["/bad/a"] = [b"damaged"]
    host = base.removeprefix("http://")
    with pytest.raises(download.Unreachable, match=rf"{host}: ValueError; {host}: HTTPError"):
        download.download((f"{base}/bad/", f"{base}/absent/"), {"a": sha256(b"right")}, tmp_path / "to")
    assert list((tmp_path / "to").iterdir()) == []


def test_missing_extra_names_the_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pooch", None)
    monkeypatch.delenv("LPM_CACHE")
    with pytest.raises(ImportError, match=re.escape(pip_install("data"))):
        data.mnist("train")
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ImportError, match=rf"'pillow'.*{re.escape(pip_install('data'))}"):
        sets.decode(b"")


def test_import_is_light() -> None:
    code = "import sys, lpm.data; print({'pooch', 'requests', 'PIL', 'torch', 'gymnasium'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
