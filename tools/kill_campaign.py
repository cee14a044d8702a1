"""Kill training runs and sweeps at random moments, resume them, and compare with runs that were never killed.

    python tools/kill_campaign.py --work /tmp/kills                   # goes on where it was stopped
    python tools/kill_campaign.py --work /tmp/kills --minutes 3       # stop after a while; give it again to go on
    python tools/kill_campaign.py --work /tmp/kills --kills 4 --sweeps none --report report.json

PPO and A2C with six bonuses, on vectors and on images: 24 tiny runs with a checkpoint after every update. A kill is
`kill -9` at a random time, in the middle of a write, at a flush to the disk, at a rename, at the removal of an old
checkpoint, on a disk that becomes full or read-only, or after a jump of the clock. Every third victim is killed again
while it resumes. In the end the whole last state (parameters, optimisers, memories, statistics, random numbers), the
metrics and the names of the files must equal those of the run that was never killed; the resume must begin at the
newest checkpoint; nothing half-written may be left.

Faults are put into the child alone, after a fork of this process, which has torch loaded already. Sweeps run as
programs of their own: their workers and drivers are killed, and with Ray its workers and a node.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import hashlib
import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"

import torch
from rich.console import Console

import lpm
import lpm.envs
from lpm.agents import A2CConfig, NetworkConfig, PPOConfig
from lpm.core.registry import configure
from lpm.runs import CheckpointError, RunConfig, TrainOptions, load_checkpoint, train
from lpm.runs import train as train_function
from lpm.runs.build import build
from lpm.runs.checkpoint import checkpoints
from lpm.runs.machine import run_versions
from lpm.storage.files import UNFINISHED, write_atomic
from lpm.storage.state_file import to_bytes
from lpm.sweeps import Job, Result, Tick, run_jobs

ALGORITHMS = ("ppo", "a2c")
BONUSES = ("lgn", "lpm", "lpm_slow", "rnd", "ngu", "icm")
KINDS = ("vector", "image")
CYCLES = 6
SMALL: dict[str, dict[str, Any]] = {
    "lgn": {"memory_size": 64},
    "lpm": {"dynamics_steps": 2, "error_steps": 2, "buffer_size": 128},
    "lpm_slow": {"buffer_size": 128},
    "ngu": {"memory_size": 64},
}
ALWAYS = TrainOptions(checkpoint_seconds=0.0, tensorboard=False)
FAILED = 3
"""Exit status of a child whose disk failed and that said so."""

PLACES = ("write", "fsync", "rename", "unlink")
"""Calls that a child may die in, counted in the run that is never killed."""
FAULTS = ("any moment", *PLACES, "full disk", "read-only disk", "clock jump")


@dataclass(frozen=True)
class Case:
    """One of the runs."""

    algo: str
    bonus: str
    kind: str

    @property
    def name(self) -> str:
        """For folders and the report."""
        return f"{self.algo}-{self.bonus}-{self.kind}"

    @property
    def config(self) -> RunConfig:
        """A run of a few tenths of a second."""
        vector = self.kind == "vector"
        shared: dict[str, Any] = {
            "num_envs": 3 if vector else 2,
            "rollout_steps": 16 if vector else 8,
            "network": NetworkConfig(features=16),
        }
        agent = PPOConfig(epochs=2, minibatches=2, **shared) if self.algo == "ppo" else A2CConfig(**shared)
        env: dict[str, Any] = {"noise": True, "max_episode_steps": 23}
        if not vector:
            env = {"noise": "state", "width": 40, "height": 36, "max_steps": 9, "threads": 1}
        return RunConfig(
            "lpm/MountainCar-v0" if vector else "lpm/NMaze-v0",
            env=env,
            algo=self.algo,  # type: ignore[arg-type]
            bonus=self.bonus,
            agent=agent,
            bonus_settings=configure(self.bonus, **SMALL.get(self.bonus, {})),
            steps=CYCLES * shared["num_envs"] * shared["rollout_steps"],
            device="cpu",
        )


CASES = tuple(Case(algo, bonus, kind) for kind in KINDS for bonus in BONUSES for algo in ALGORITHMS)


# ---- in the child: a run with a fault ---------------------------------------------------------------------------
@dataclass(frozen=True)
class Fault:
    """How and where a child fails."""

    kind: str
    at: int = 0
    """The call of that kind in which it happens, from 1 on; 0: never."""
    after: bool = False
    """Whether the call is done before the process dies."""


class Disk:
    """Stands between a child and the system's calls: counts them, and fails in one of them."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        self.counts: Counter[str] = Counter()
        self.open, self.fsync, self.replace, self.unlink = io.open, os.fsync, os.replace, os.unlink
        self.os_open, self.mkdir = os.open, os.mkdir

    def install(self) -> None:
        """For this process."""
        io.open = self._open  # type: ignore[assignment]
        os.open, os.mkdir = self._os_open, self._changing(self.mkdir)
        os.fsync = lambda handle: self._call("fsync", self.fsync, handle)
        os.replace = lambda *paths, **more: self._call("rename", self.replace, *paths, **more)
        os.unlink = lambda *paths, **more: self._call("unlink", self.unlink, *paths, **more)

    def broken(self) -> int:
        """The error of a disk that has failed by now; 0: it works."""
        if self.fault.at and self.counts["write"] >= self.fault.at:
            return {"full disk": errno.ENOSPC, "read-only disk": errno.EROFS}.get(self.fault.kind, 0)
        return 0

    def _call(self, kind: str, function: Callable[..., Any], *arguments: Any, **more: Any) -> Any:
        self.counts[kind] += 1
        if kind in ("rename", "unlink") and self.broken() == errno.EROFS:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        now = self.fault.kind == kind and self.counts[kind] == self.fault.at
        if now and not self.fault.after:
            die()
        result = function(*arguments, **more)
        if now:
            die()
        return result

    def _changing(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **more: Any) -> Any:
            if self.broken():
                raise OSError(self.broken(), os.strerror(self.broken()))
            return function(*arguments, **more)

        return call

    def _os_open(self, path: Any, flags: int, *arguments: Any, **more: Any) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) and self.broken() == errno.EROFS:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return self.os_open(path, flags, *arguments, **more)

    def _open(self, file: Any, mode: str = "r", *arguments: Any, **more: Any) -> Any:
        changes = any(letter in mode for letter in "wax+")
        if changes and not isinstance(file, int) and self.broken() == errno.EROFS:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        stream = self.open(file, mode, *arguments, **more)
        return Stream(stream, self) if changes and "b" in mode else stream


class Stream:
    """A stream whose writes the disk counts."""

    def __init__(self, stream: Any, disk: Disk) -> None:
        self.stream, self.disk = stream, disk

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stream.close()

    def write(self, data: Any) -> int:
        """Write, or half of it."""
        self.disk.counts["write"] += 1
        if self.disk.broken():
            self.stream.write(data[: len(data) // 2])
            self.stream.flush()
            raise OSError(self.disk.broken(), os.strerror(self.disk.broken()))
        if self.disk.fault.kind == "write" and self.disk.counts["write"] == self.disk.fault.at:
            self.stream.write(data[: len(data) // 2])
            self.stream.flush()
            die()
        return int(self.stream.write(data))


def die() -> None:
    """As `kill -9` from outside."""
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)


def jumping_clock(rng: random.Random) -> Callable[[], float]:
    """A clock that is sometimes set forward by up to a year."""
    offset = 0.0

    def now() -> float:
        nonlocal offset
        if rng.random() < 0.2:
            offset += rng.choice((1.0, 3600.0, 3e7))
        return time.monotonic() + offset

    return now


def child(case: Case, out: Path, fault: Fault, notes: Path, seed: int) -> None:
    """Train or resume in this process, which then ends; what it learnt is in `notes`."""
    status = 1
    try:
        torch.set_num_threads(1)
        said: list[str] = []
        disk = Disk(fault)
        if fault.kind == "clock jump":
            module: Any = sys.modules["lpm.runs.train"]
            module.monotonic = jumping_clock(random.Random(seed))
            begun, wall = time.time(), random.Random(seed)
            time.time = lambda: begun + wall.uniform(-1e9, 1e9)
        progress = (notes.with_suffix(".steps")).open("ab", buffering=0)
        save: Any = sys.modules["lpm.runs.train"].save_checkpoint  # type: ignore[attr-defined]

        def saved(folder: Path, steps: int, state: dict[str, Any]) -> Path:
            path: Path = save(folder, steps, state)
            os.write(progress.fileno(), b"%d\n" % steps)
            return path

        sys.modules["lpm.runs.train"].save_checkpoint = saved  # type: ignore[attr-defined]
        disk.install()
        resume = (out / "config.toml").exists()
        try:
            train_function(case.config, out, ALWAYS, resume=resume, log=said.append)
            status = 0
        except (CheckpointError, OSError) as problem:
            said.append(f"{type(problem).__name__}: {problem}")
            status = FAILED
        disk.fault = Fault("none")
        notes.write_text(json.dumps({"said": said, "counts": disk.counts}))
    except BaseException as problem:
        with contextlib.suppress(Exception):
            notes.write_text(json.dumps({"said": [f"{type(problem).__name__}: {problem}"], "counts": {}}))
    finally:
        os._exit(status)


# ---- in the parent ------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Ended:
    """How a child ended."""

    status: int
    """Exit status; negative: the signal that killed it."""
    seconds: float
    said: list[str]
    counts: dict[str, int]
    saved: int
    """Steps of the last checkpoint that it finished, here or before; 0: none."""


def run_child(case: Case, out: Path, fault: Fault, seed: int, kill_after: float | None = None) -> Ended:
    """Fork, wait, kill if so asked."""
    notes = out.with_name(out.name + ".notes")
    notes.parent.mkdir(parents=True, exist_ok=True)
    notes.unlink(missing_ok=True)
    begun = time.monotonic()
    pid = os.fork()
    if pid == 0:
        child(case, out, fault, notes, seed)
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(pid, signal.SIGKILL)  # not waited for yet, so the number is still its own
    _, raw = os.waitpid(pid, 0)
    told = json.loads(notes.read_text()) if notes.exists() else {"said": [], "counts": {}}
    steps = notes.with_suffix(".steps")
    saved = [int(line) for line in steps.read_bytes().split()] if steps.exists() else []
    status = os.waitstatus_to_exitcode(raw)
    return Ended(status, time.monotonic() - begun, told["said"], told["counts"], saved[-1] if saved else 0)


def fingerprint(out: Path) -> dict[str, Any]:
    """What must be equal: the last state without its clocks, the metrics, how it ended, and the names of the files."""
    loaded = load_checkpoint(out / "checkpoints")
    assert loaded is not None
    state = loaded.state
    del state["seconds"], state["agent"]["seconds"]
    result = json.loads((out / "result.json").read_text())
    return {
        "state": hashlib.sha256(to_bytes(state, "campaign")).hexdigest(),
        "metrics": hashlib.sha256((out / "metrics.jsonl").read_bytes()).hexdigest(),
        "result": [result["status"], result["steps"], result["metrics"]],
        "files": sorted(path.name.split("-")[0] for path in out.rglob("*")),
    }


def reference(case: Case, work: Path) -> dict[str, Any]:
    """The run that is never killed: made once."""
    stored = work / "references" / f"{case.name}.json"
    if not stored.exists():
        out = work / "references" / case.name
        shutil.rmtree(out, ignore_errors=True)
        ended = run_child(case, out, Fault("none"), 0)
        if ended.status:
            raise RuntimeError(f"{case.name}: the run that is not killed failed: {ended.said}")
        whole = {**fingerprint(out), "counts": ended.counts, "seconds": ended.seconds}
        write_atomic(stored, json.dumps(whole).encode())
    found: dict[str, Any] = json.loads(stored.read_text())
    return found


def attack(case: Case, out: Path, kind: str, whole: dict[str, Any], rng: random.Random) -> tuple[Ended, Fault]:
    """Start or resume with a fault of this kind."""
    seed = rng.randrange(2**31)
    if kind in ("any moment", "clock jump"):
        fault = Fault(kind)
        return run_child(case, out, fault, seed, rng.uniform(0.0, whole["seconds"])), fault
    place = kind if kind in PLACES else "write"
    fault = Fault(kind, rng.randint(1, whole["counts"][place]), rng.random() < 0.5)
    return run_child(case, out, fault, seed), fault


def one_kill(number: int, seed: int, work: Path) -> dict[str, Any]:
    """One victim: how it died (once or twice), and what is wrong with it after its last resume."""
    rng = random.Random(f"{seed} {number}")
    case, kind = CASES[number % len(CASES)], FAULTS[(number // len(CASES) + number) % len(FAULTS)]
    whole, out = reference(case, work), work / "victims" / f"{number}-{case.name}"
    deaths: list[dict[str, Any]] = []
    problems: list[str] = []
    wanted = 2 if number % 3 == 2 else 1
    for attempt in range(12):
        if attempt == 0 or not deaths:  # the fault came after the end: nothing was hit, so begin again
            for path in out.parent.glob(f"{out.name}*"):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        ended, fault = attack(case, out, kind if not deaths else rng.choice(FAULTS), whole, rng)
        if ended.status == 0:
            if deaths:
                break  # the second fault came too late: the run has ended
            continue
        if ended.status not in (-signal.SIGKILL, FAILED):
            problems.append(f"ended with {ended.status}: {ended.said[-1:]}")
        if ended.status == FAILED and list(out.rglob(f"*{UNFINISHED}")) and fault.kind == "full disk":
            problems.append("a full disk left a half-written file")
        deaths.append({"fault": fault.kind, "at": fault.at, "after": fault.after, "saved": ended.saved})
        if len(deaths) == wanted:
            break
    newest = checkpoints(out / "checkpoints")
    at = int(newest[0].name.split("-")[1]) if newest else 0
    final = run_child(case, out, Fault("none"), 0)
    begun = [int(line.split()[3].replace(",", "")) for line in final.said if line.startswith("Resuming at step")]
    if final.status:
        problems.append(f"the resume ended with {final.status}: {final.said[-1:]}")
    elif (begun[0] if begun else 0) != at or at < (deaths[-1]["saved"] if deaths else 0):
        problems.append(f"resumed at {begun}, the newest checkpoint was {at}, the last one finished {deaths[-1:]}")
    else:
        mine = fingerprint(out)
        problems += [f"{name} differs" for name in mine if mine[name] != whole[name]]
        problems += [f"left behind: {path.name}" for path in out.rglob(f"*{UNFINISHED}*")]
    if not problems:
        for path in out.parent.glob(f"{out.name}*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    return {"number": number, "case": case.name, "deaths": deaths, "resumed": begun, "problems": problems}


# ---- sweeps -------------------------------------------------------------------------------------------------------
SEEDS = 3
VICTIMS = ("worker", "worker start", "driver")
RAY_VICTIMS = ("ray worker", "ray node", "ray driver")


def sweep_run(settings: dict[str, Any], tick: Tick, scratch: Path) -> Result:
    """One run of a sweep, which goes on from its scratch folder and notes that it has begun."""
    config = RunConfig.from_dict(settings["config"])
    with Path(settings["log"]).open("a") as log:
        log.write(f"{os.getpid()} {config.seed}\n")
    out = scratch / "run"
    resume = (out / "config.toml").exists()
    outcome = train(config, out, ALWAYS, resume=resume, log=lambda line: None, on_cycle=lambda *_: time.sleep(0.05))
    return {"rows": outcome.rows, "visits": outcome.visits.tolist()}


def sweep_jobs(out: Path) -> list[Job]:
    """Three seeds of one case."""
    config = Case("ppo", "rnd", "vector").config.to_dict()
    jobs = []
    for seed in range(SEEDS):
        tables = json.loads(json.dumps({**config, "run": {**config["run"], "seed": seed, "steps": 24 * 48}}))
        settings = {"config": tables, "log": str(out / "log.txt")}
        jobs.append(Job(f"seed {seed}", out / f"seed_{seed}.json", settings, 24 * 48))
    return jobs


def drive(out: Path, ray: str | None) -> None:
    """The program of a sweep."""
    out.mkdir(parents=True, exist_ok=True)
    _, failures = run_jobs(sweep_jobs(out), sweep_run, workers=2, console=Console(quiet=True), ray=ray)
    raise SystemExit(1 if failures else 0)


def start_sweep(out: Path, ray: str | None) -> subprocess.Popen[bytes]:
    """Start the program of a sweep; what it says is in a file beside its folder."""
    words = [sys.executable, __file__, "--drive", str(out), *(["--ray", ray] if ray else [])]
    environment = {**os.environ, "PYTHONPATH": str(Path(lpm.__file__).parents[1])}
    with out.with_name(f"{out.name}.log").open("ab") as log:
        return subprocess.Popen(words, env=environment, stdout=log, stderr=log)


def family(pid: int) -> dict[int, str]:
    """The processes below one, with their command lines."""
    parents, names = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError):
            parents[int(folder.name)] = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
            names[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    found = [pid]
    for one in found:
        found += [below for below, parent in parents.items() if parent == one]
    return {one: names.get(one, "") for one in found[1:]}


def kill(*pids: int) -> None:
    """Those that are still there."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def wait_until(condition: Callable[[], Any], seconds: float = 600.0) -> Any:
    """What the condition gives, or None after a while."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.02)
    return None


def results_of(out: Path) -> list[Any]:
    """Without settings, which name the folder."""
    return [
        {key: value for key, value in json.loads(path.read_text()).items() if key != "settings"}
        for path in sorted(out.glob("seed_*.json"))
    ]


def one_sweep(number: int, victim: str, seed: int, work: Path) -> dict[str, Any]:
    """A sweep with one of its processes killed, run again until it ends, compared with one left alone."""
    rng = random.Random(f"{seed} sweep {number}")
    alone, out = work / "references" / "sweep", work / "sweeps" / f"{number}-{victim.replace(' ', '-')}"
    ray = "local" if victim.startswith("ray") else None
    if len(results_of(alone)) < SEEDS:
        alone.parent.mkdir(parents=True, exist_ok=True)
        if start_sweep(alone, None).wait():
            raise RuntimeError("the sweep that is left alone failed")
    shutil.rmtree(out, ignore_errors=True)
    out.parent.mkdir(parents=True, exist_ok=True)
    sweep = start_sweep(out, ray)
    problems: list[str] = []
    log = out / "log.txt"
    if victim == "worker start":  # forked, not yet at work
        hit = wait_until(lambda: [pid for pid, name in family(sweep.pid).items() if "spawn_main" in name])
        time.sleep(rng.uniform(0.0, 0.5))
        target = [rng.choice(hit)] if hit else []
    else:
        wait_until(lambda: log.exists() and list(out.rglob("step-*.safetensors")))
        time.sleep(rng.uniform(0.0, 0.8))
        workers = [int(line.split()[0]) for line in log.read_text().splitlines()] if log.exists() else []
        below = family(sweep.pid)
        target = {
            "driver": [sweep.pid],
            "ray driver": [sweep.pid],
            "ray node": [pid for pid, name in below.items() if "raylet" in name.split(" ")[0]],
        }.get(victim, [pid for pid in workers if pid in below][:1])
    if not target or sweep.poll() is not None:
        problems.append("nothing was hit")
    everyone = list(family(sweep.pid))
    kill(*target)
    died = target[:1] != [sweep.pid] and victim != "ray node"
    code: int | None = None
    with contextlib.suppress(subprocess.TimeoutExpired):
        code = sweep.wait(timeout=900 if died else 60)
    if code is None:
        sweep.kill()
        sweep.wait()
    if died and code != 0:
        problems.append(f"the sweep did not go on by itself: {code}")
    kill(*[pid for pid in everyone if victim.startswith("ray") and pid in _alive(everyone)])
    starts = 1
    while code != 0 and starts < 4:  # on a busy machine Ray itself may fail to start, and says so; then give it again
        starts += 1
        code = start_sweep(out, ray).wait(timeout=900)
    if code != 0:
        problems.append(f"the last of {starts} starts failed: {code}")
    if results_of(out) != results_of(alone):
        problems.append("results differ")
    problems += [f"left behind: {path.name}" for path in out.rglob(".*")]
    return {"number": number, "case": "sweep", "deaths": [{"fault": victim, "starts": starts}], "problems": problems}


def _alive(pids: list[int]) -> set[int]:
    return {pid for pid in pids if Path(f"/proc/{pid}").exists()}


# ---- the campaign -------------------------------------------------------------------------------------------------
def warm_up() -> None:
    """What every child would otherwise do again: compile the maze, and the modules that torch's optimisers import."""
    for case in CASES:
        if case.algo == "ppo":
            agent = build(case.config)
            agent.collector.envs.close()
            parameter = torch.nn.Parameter(torch.zeros(2))
            parameter.grad = torch.zeros(2)
            torch.optim.Adam([parameter], fused=True).step()


def journal(path: Path) -> Iterator[dict[str, Any]]:
    """What is done already."""
    if path.exists():
        for line in path.read_text().splitlines():
            with contextlib.suppress(ValueError):
                yield json.loads(line)


def summary(rows: list[dict[str, Any]], seed: int) -> dict[str, Any]:
    """The report."""
    by_fault: dict[str, dict[str, int]] = {}
    for row in rows:
        for death in row["deaths"]:
            counts = by_fault.setdefault(death["fault"], {"kills": 0, "identical": 0})
            counts["kills"] += 1
            counts["identical"] += not row["problems"]
    return {
        "seed": seed,
        "versions": run_versions(),
        "kills": sum(counts["kills"] for counts in by_fault.values()),
        "identical": sum(counts["identical"] for counts in by_fault.values()),
        "victims": len(rows),
        "cases": len({row["case"] for row in rows}),
        "faults": dict(sorted(by_fault.items())),
        "cpu_seconds": round(sum(row["cpu_seconds"] for row in rows), 1),
        "problems": [row for row in rows if row["problems"]],
        "rows": [{key: row[key] for key in ("number", "case", "deaths", "problems")} for row in rows],
    }


def main(words: list[str] | None = None) -> int:
    """Go on with the campaign; 0 if everything so far was identical."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, help="folder of the campaign")
    parser.add_argument("--kills", type=int, default=100, help="kills of runs, at least")
    parser.add_argument(
        "--sweeps", choices=("none", "local", "ray"), default="ray", help="which sweeps to kill as well"
    )
    parser.add_argument("--minutes", type=float, default=1e9, help="stop after so long; the next call goes on")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--report", type=Path, help="write the report there when all is done")
    parser.add_argument("--drive", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--ray", help=argparse.SUPPRESS)
    options = parser.parse_args(words)
    if options.drive:
        drive(options.drive, options.ray)
    if options.work is None:
        parser.error("--work: say where the campaign may write")
    deadline = time.monotonic() + 60 * options.minutes
    work: Path = options.work
    work.mkdir(parents=True, exist_ok=True)
    warm_up()
    path = work / "journal.jsonl"
    rows = list(journal(path))

    def note(make: Callable[[], dict[str, Any]]) -> None:
        before = os.times()
        row = make()
        now = os.times()
        row["cpu_seconds"] = sum(now[:4]) - sum(before[:4])
        rows.append(row)
        with path.open("a") as stream:
            stream.write(json.dumps(row) + "\n")
        faults = ", ".join(f"{death['fault']} {death.get('at') or ''}".strip() for death in row["deaths"])
        print(f"{row['number']:>4} {row['case']}: {faults}: {'; '.join(row['problems']) or 'identical'}", flush=True)

    def deaths() -> int:
        return sum(len(row["deaths"]) for row in rows if row["case"] != "sweep")

    number = 1 + max((row["number"] for row in rows if row["case"] != "sweep"), default=-1)
    while deaths() < options.kills and time.monotonic() < deadline:
        note(lambda: one_kill(number, options.seed, work))  # noqa: B023
        number += 1
    victims = {"none": (), "local": VICTIMS, "ray": (*VICTIMS, *RAY_VICTIMS)}[options.sweeps]
    done = {row["number"] for row in rows if row["case"] == "sweep"}
    for index, victim in enumerate(victims):
        if index not in done and time.monotonic() < deadline and deaths() >= options.kills:
            note(lambda: one_sweep(index, victim, options.seed, work))  # noqa: B023
    finished = deaths() >= options.kills and sum(row["case"] == "sweep" for row in rows) >= len(victims)
    report = summary(rows, options.seed)
    print(f"{report['identical']} of {report['kills']} identical{'' if finished else '; not finished: give it again'}")
    if finished and options.report:
        write_atomic(options.report, (json.dumps(report, indent=1) + "\n").encode())
    return int(bool(report["problems"]))


if __name__ == "__main__":
    raise SystemExit(main())
