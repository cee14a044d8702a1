"""Worker processes: results on disk, continuing, failures that do not stop the others."""

import json
import os
import platform
import random
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from processes import alive, wait_for
from rich.console import Console
from toy import climb, expected, toy_jobs

from lpm.sweeps import BusyError, Job, Result, Tick, load_result
from lpm.sweeps import run_jobs as run_sweep

TOY = Path(__file__).parent / "toy.py"


def run_jobs(*args: Any, **options: Any) -> tuple[list[Result], list[str]]:
    results, failures = run_sweep(*args, **options)
    return list(results.values()), failures


def double(settings: dict[str, Any], tick: Tick, scratch: Path) -> dict[str, Any]:
    tick(1)
    if settings["x"] < 0:
        raise ValueError("negative")
    return {"y": 2 * settings["x"], "when": time.time()}


def crash(settings: dict[str, Any], tick: Tick, scratch: Path) -> dict[str, Any]:
    """Killed as often as it is told to, then well."""
    count = scratch / "deaths"
    deaths = int(count.read_text()) if count.exists() else 0
    if deaths < settings["x"]:
        count.write_text(str(deaths + 1))
        os.kill(os.getpid(), signal.SIGKILL)
    return {"deaths": deaths}


def threads(settings: dict[str, Any], tick: Tick, scratch: Path) -> dict[str, Any]:
    import torch

    return {"threads": torch.get_num_threads()}


def fresh_pages(settings: dict[str, Any], tick: Tick, scratch: Path) -> dict[str, Any]:
    import torch

    pages = 0
    for _ in range(2):  # the first time there is nothing to use again
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(10):
            torch.ones(2**23)
        pages = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    return {"pages": pages}


def memory_between_runs(settings: dict[str, Any], tick: Tick, scratch: Path) -> dict[str, Any]:
    import torch

    held = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() // 2**20
    above: list[Any] = [(torch.ones(2**22), torch.ones(1)) for _ in range(8)]  # 16 MB each, something small behind
    globals()["KEPT"] = [small for _, small in above]  # so that the heap cannot shrink at its end
    above.append(above)  # as an agent does: only the collector frees it
    return {"mib": held}


def not_json(settings: dict[str, Any], tick: Tick, scratch: Path) -> dict[str, Any]:
    return {"value": float("nan") if settings["x"] else {1, 2}}


def jobs(folder: Path, values: tuple[int, ...]) -> list[Job]:
    return [Job(f"x={x}", folder / f"{i}.json", {"x": x}, 1) for i, x in enumerate(values)]


def quiet() -> Console:
    return Console(quiet=True)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_results_are_kept_and_not_run_again(tmp_path: Path) -> None:
    first, _ = run_jobs(jobs(tmp_path, (1, 2)), double, workers=1, console=quiet())
    again, failures = run_jobs(jobs(tmp_path, (1, 2, 3)), double, workers=1, console=quiet())
    assert [r["y"] for r in again] == [2, 4, 6]
    assert again[:2] == first
    assert failures == []
    assert names(tmp_path) == ["0.json", "1.json", "2.json"]
    assert first[0]["format"] == 1
    assert first[0]["settings"] == {"x": 1}


def test_a_failure_is_reported_once_and_does_not_stop_the_others(tmp_path: Path) -> None:
    results, failures = run_jobs(jobs(tmp_path, (-1, 5)), double, workers=1, console=quiet())
    assert [r["y"] for r in results] == [10]
    assert failures == ["x=-1: ValueError: negative"]
    assert not (tmp_path / "0.json").exists()


def test_a_killed_worker_is_replaced_and_its_job_tried_again(tmp_path: Path) -> None:
    results, failures = run_jobs(jobs(tmp_path, (2, 0, 1)), crash, workers=2, console=quiet(), retries=2)
    assert [r["deaths"] for r in results] == [2, 0, 1]
    assert failures == []


def test_a_job_that_keeps_dying_fails_alone_and_keeps_its_scratch(tmp_path: Path) -> None:
    results, failures = run_jobs(jobs(tmp_path, (9, 0)), crash, workers=1, console=quiet(), retries=1)
    assert [r["deaths"] for r in results] == [0]
    assert failures == ["x=9: its process died (signal SIGKILL), 2 times"]
    assert (tmp_path / ".0" / "deaths").read_text() == "2"


def test_a_result_that_is_not_json_is_a_failure(tmp_path: Path) -> None:
    results, failures = run_jobs(jobs(tmp_path, (0, 1)), not_json, workers=1, console=quiet())
    assert results == []
    assert [f.split(": ")[1] for f in failures] == ["TypeError", "ValueError"]


def test_workers_have_one_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    results, _ = run_jobs(jobs(tmp_path, (0,)), threads, workers=1, console=quiet())
    assert results[0]["threads"] == 1


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="options of glibc's malloc")
def test_workers_use_freed_memory_again(tmp_path: Path) -> None:
    results, _ = run_jobs(jobs(tmp_path, (0,)), fresh_pages, workers=1, console=quiet())
    assert results[0]["pages"] < 1_000  # of 10 times 8,192


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="options of glibc's malloc")
def test_workers_give_back_memory_between_runs(tmp_path: Path) -> None:
    results, _ = run_jobs(jobs(tmp_path, (0, 1)), memory_between_runs, workers=1, console=quiet())
    assert results[1]["mib"] - results[0]["mib"] < 100  # of the 128 MiB that the first run had


def test_a_folder_that_cannot_be_made_is_refused_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file, not a folder")
    with pytest.raises(OSError, match="taken"):
        run_jobs(jobs(tmp_path / "taken", (1,)), double, workers=1, console=quiet())


def test_other_settings_are_never_mixed_in(tmp_path: Path) -> None:
    (tmp_path / "0.json").write_text(json.dumps({"format": 1, "settings": {"x": 7}, "y": 14}))
    with pytest.raises(ValueError, match=r"other settings \(x: 7 there, 1 now\); use another --out or delete it"):
        run_jobs(jobs(tmp_path, (1,)), double, workers=1, console=quiet())


@pytest.mark.parametrize("version", [{}, {"format": 2}])
def test_a_file_of_another_version_is_named(tmp_path: Path, version: dict[str, int]) -> None:
    (tmp_path / "0.json").write_text(json.dumps({**version, "settings": {"x": 1}, "y": 2}))
    with pytest.raises(ValueError, match=r"0\.json: expected a result file of format 1, got format (None|2)"):
        load_result(jobs(tmp_path, (1,))[0])


@pytest.mark.parametrize("text", ['{"settings": {"x"', "", "[]", '{"settings": 3}', "null", "\xff"])
def test_a_half_written_file_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "0.json").write_text(text, encoding="latin-1")
    with pytest.raises(ValueError, match=r"0\.json: expected a result file, but it cannot be read"):
        load_result(jobs(tmp_path, (1,))[0])


def test_settings_are_compared_as_they_are_stored(tmp_path: Path) -> None:
    job = Job("tuple", tmp_path / "a.json", {"x": (1, 2)}, 1)
    (tmp_path / "a.json").write_text(json.dumps({"format": 1, "settings": {"x": [1, 2]}}))
    assert load_result(job) is not None


def test_bad_arguments(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="workers: expected at least 1, got 0"):
        run_jobs(jobs(tmp_path, (1,)), double, workers=0, console=quiet())
    with pytest.raises(ValueError, match="retries: expected at least 0, got -1"):
        run_jobs(jobs(tmp_path, (1,)), double, workers=1, console=quiet(), retries=-1)
    with pytest.raises(ValueError, match=r"one result file per job, but .*0\.json belongs to several"):
        run_jobs(jobs(tmp_path, (1,)) * 2, double, workers=1, console=quiet())


def test_leftovers_of_a_finished_job_are_removed(tmp_path: Path) -> None:
    run_jobs(jobs(tmp_path, (1,)), double, workers=1, console=quiet())
    (tmp_path / ".0").mkdir()  # killed between writing the result and deleting the scratch folder
    (tmp_path / ".0" / "state").write_text("old")
    (tmp_path / ".0.json.abc").write_text("half")
    run_jobs(jobs(tmp_path, (1,)), double, workers=1, console=quiet())
    assert names(tmp_path) == ["0.json"]


def test_a_second_sweep_on_the_same_folder_is_refused(tmp_path: Path) -> None:
    sweep = _start(tmp_path, seeds=1, steps=2000)
    wait_for(lambda: "start" in _log(tmp_path))
    with pytest.raises(BusyError, match=rf"another sweep is writing there: .* process {sweep.pid} on .* --out"):
        run_jobs(toy_jobs(tmp_path, 1, 2000), climb, workers=1, console=quiet())
    _kill(sweep)
    assert (tmp_path / ".sweep.lock").exists()
    run_jobs(toy_jobs(tmp_path / "other", 1, 2), climb, workers=1, console=quiet())
    results, _ = run_jobs(toy_jobs(tmp_path, 2, 2000, 0.01)[1:], double_seed, workers=1, console=quiet())
    assert results[0]["y"] == 2  # the lock of a killed sweep does not count


def double_seed(settings: dict[str, Any], tick: Tick, scratch: Path) -> dict[str, Any]:
    return {"y": 2 * settings["seed"]}


def test_ctrl_c_stops_soon_and_keeps_what_is_finished(tmp_path: Path) -> None:
    sweep = _start(tmp_path, seeds=4, steps=100, workers=1)
    wait_for(lambda: (tmp_path / "seed_0.json").exists())
    began = time.monotonic()
    sweep.send_signal(signal.SIGINT)
    sweep.wait(timeout=30)
    assert time.monotonic() - began < 6
    assert sweep.returncode != 0
    assert not any(alive(pid) for pid in _pids(tmp_path))
    results, failures = run_jobs(toy_jobs(tmp_path, 4, 100), climb, workers=2, console=quiet())
    _check_table(tmp_path, results, failures, seeds=4, steps=100)


def test_workers_of_a_killed_sweep_stop_and_write_nothing(tmp_path: Path) -> None:
    sweep = _start(tmp_path, seeds=2, steps=4000)
    wait_for(lambda: _log(tmp_path).count("start") == 2)
    _kill(sweep)
    wait_for(lambda: not any(alive(pid) for pid in _pids(tmp_path)))
    assert not list(tmp_path.glob("*.json"))


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_killed_at_random_moments_then_rerun_gives_the_same_table(tmp_path: Path, seed: int) -> None:
    """The sweep and single workers die by SIGKILL; nothing is lost, nothing is done twice."""
    rng = random.Random(seed)
    finished: dict[str, int] = {}
    for _ in range(3):
        before = _log(tmp_path).count("start")
        sweep = _start(tmp_path, seeds=6, steps=60)
        wait_for(lambda before=before: _log(tmp_path).count("start") > before)  # type: ignore[misc]
        for _ in range(rng.randrange(3)):
            time.sleep(rng.uniform(0.0, 0.5))
            if running := [pid for pid in sorted(_pids(tmp_path)) if alive(pid)]:
                os.kill(rng.choice(running), signal.SIGKILL)
        time.sleep(rng.uniform(0.0, 0.5))
        _kill(sweep)
        for path in tmp_path.glob("seed_*.json"):
            finished.setdefault(path.stem, _starts(tmp_path, path.stem))
    results, failures = run_jobs(toy_jobs(tmp_path, 6, 60), climb, workers=2, console=quiet())
    _check_table(tmp_path, results, failures, seeds=6, steps=60)
    assert finished == {stem: _starts(tmp_path, stem) for stem in finished}  # never run again
    steps = [int(line.split()[2]) for line in _log(tmp_path).splitlines() if line.startswith("start")]
    assert any(steps)  # and what was killed went on where it was


def _starts(out: Path, stem: str) -> int:
    return _log(out).count(f"start {stem.removeprefix('seed_')} ")


def _check_table(out: Path, results: list[dict[str, Any]], failures: list[str], seeds: int, steps: int) -> None:
    assert failures == []
    assert [r["value"] for r in results] == [expected(seed, steps) for seed in range(seeds)]
    assert names(out) == ["log.txt", *(f"seed_{seed}.json" for seed in range(seeds))]


def _start(out: Path, seeds: int, steps: int, workers: int = 2) -> subprocess.Popen[bytes]:
    values = [str(out), str(seeds), str(steps), "0.01", str(workers), "none"]
    return subprocess.Popen([sys.executable, str(TOY), *values], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _kill(sweep: subprocess.Popen[bytes]) -> None:
    sweep.kill()
    sweep.wait()


def _log(out: Path) -> str:
    path = out / "log.txt"
    return path.read_text() if path.exists() else ""


def _pids(out: Path) -> set[int]:
    return {int(line.split()[3]) for line in _log(out).splitlines() if len(line.split()) == 5}


def test_a_sweep_may_run_in_a_thread(tmp_path: Path) -> None:
    found: list[Any] = []
    thread = threading.Thread(
        target=lambda: found.extend(run_jobs(jobs(tmp_path, (4,)), double, workers=1, console=quiet())[0])
    )
    thread.start()
    thread.join()
    assert found[0]["y"] == 8
