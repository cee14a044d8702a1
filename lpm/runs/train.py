"""Training one run to its end, through interruptions."""

import math
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from types import FrameType
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from lpm.agents import Agent, NonFiniteError
from lpm.core.group import SINGLE_PROCESS, ProcessGroup, WorkerLost
from lpm.core.settings import enough_memory
from lpm.runs.build import build
from lpm.runs.checkpoint import CheckpointError, check_progress, checkpoints, load_checkpoint, save_checkpoint
from lpm.runs.config import RunConfig
from lpm.runs.distributed import expect_same
from lpm.runs.folder import RunFolder
from lpm.runs.metrics import Averages, Logger, MetricsFile, Service, kept_metrics, numbers, open_loggers
from lpm.storage.state_file import differing_versions
from lpm.storage.state_tree import check_like

Status = Literal["finished", "interrupted"]
MODELS_BEFORE_FAILURE = "models-before-failure.safetensors"


@dataclass(frozen=True)
class TrainOptions:
    """What does not change the numbers of a run."""

    checkpoint_seconds: float = 60.0
    """Time between two checkpoints; 0: after every update."""
    log: Service = "none"
    """Also send metrics to Weights & Biases or MLflow."""
    tensorboard: bool = True
    """Also write TensorBoard's events, if it is installed."""
    extend: bool = False
    """Whether a resumed run may have more steps than before; its schedules go on as shares of the new total."""


@dataclass(frozen=True)
class Outcome:
    """How a run ended and what came out of it, its parts before an interruption included."""

    status: Status
    steps: int
    seconds: float
    rows: list[dict[str, float]]
    """The lines of `metrics.jsonl`, each with its "step"."""
    visits: NDArray[np.int64]
    """How often each cell was visited; empty where the environment counts none."""
    time_shares: dict[str, float]
    """Part of the training loop to its share of the time."""

    @property
    def metrics(self) -> dict[str, float]:
        """The last line; empty before there is one."""
        return self.rows[-1] if self.rows else {}


OnCycle = Callable[[Agent, dict[str, float]], None]


def train(
    config: RunConfig,
    out: Path,
    options: TrainOptions | None = None,
    *,
    resume: bool = False,
    log: Callable[[str], None] = print,
    on_cycle: OnCycle | None = None,
    group: ProcessGroup = SINGLE_PROCESS,
) -> Outcome:
    """Train and write the run folder; with `resume`, go on from its last whole checkpoint.

    SIGINT and SIGTERM end the run after the update in progress, with a checkpoint. Raises `NonFiniteError` if a number
    stops being finite and `CheckpointError` if the run's files cannot be written; these, and whatever else ends the
    training, are recorded in `result.json` first. `BusyError` if another process trains in the folder.

    The processes of a `group` all call this with the same arguments. Only rank 0 touches the folder, calls `log` and
    calls `on_cycle`; a signal to any of them ends all. `WorkerLost` is raised if one of them is gone.
    """
    options = options or TrainOptions()
    expect_same(group, {**config.flat(), "out": str(out), "resume": resume})
    if group.rank:
        return _train_as_worker(config, resume, group)
    folder = RunFolder.open(out, config, extend=options.extend) if resume else RunFolder.unused(out)
    with _threads(config.threads):
        with enough_memory():
            agent = build(config, group)
        try:
            # only now: a config that cannot be built leaves no folder behind, and processes of environments, which
            # outlive a killed one for a moment, do not inherit the lock
            with folder.locked():
                if not resume:
                    RunFolder.unused(out).write_config(config)  # asked again: another process may have been faster
                run = _Run(config, folder, options, agent, log)
                if resume:
                    run.restore()
                    if (saved := folder.config) != config:
                        folder.write_config(config)
                        if config.steps > saved.steps:
                            steps = f"from {saved.steps:,} to {config.steps:,} steps"
                            log(f"Extended {steps}; schedules go on as shares of the new total.")
                return run.go(on_cycle)
        finally:
            agent.collector.envs.close()


def _train_as_worker(config: RunConfig, resume: bool, group: ProcessGroup) -> Outcome:
    """The same training in the worker processes: what `_Run` does, without files and messages."""
    with _threads(config.threads):
        agent = build(config, group)
        start = monotonic()
        try:
            if resume and group.any(False):
                agent.load_state_dict(group.broadcast(dict))
            status = _cycles(agent, config.steps, lambda _: None, lambda: False, lambda _: None)
            group.any(False)  # until rank 0 has written it
            return Outcome(status, agent.steps, monotonic() - start, [], agent.collector.visits.copy(), {})
        finally:
            agent.collector.envs.close()


def _cycles(
    agent: Agent,
    steps: int,
    after: Callable[[dict[str, float]], None],
    due: Callable[[], bool],
    save: Callable[[dict[str, Any]], None],
) -> Status:
    """Train until there are so many steps or a signal came: the same in every process of a group.

    `after` takes in the metrics of each cycle, `save` the agent's state whenever it is `due` in any process, and at the
    end.
    """
    saved, stopped = -1, False
    with _graceful() as stop:
        while agent.steps < steps and not stopped:
            after(agent.cycle())
            if agent.group.any(due()):
                save(agent.state_dict())
                saved = agent.steps
            stopped = agent.group.any(stop.is_set())
    if saved != agent.steps:
        save(agent.state_dict())
    return "finished" if agent.steps >= steps else "interrupted"


class _Run:
    """One call of `train`, in rank 0 or the only process."""

    def __init__(
        self, config: RunConfig, folder: RunFolder, options: TrainOptions, agent: Agent, log: Callable[[str], None]
    ) -> None:
        self.config, self.folder, self.options, self.agent, self.log = config, folder, options, agent, log
        self.averages = Averages()
        self.metrics: dict[str, float] = {}
        self.metrics_size = 0
        self.log_every = config.log_every or max(config.steps // 1000, 1)
        self.next_line = self.log_every
        self.earlier_seconds = 0.0
        self.started = monotonic()
        folder.remove_unfinished()

    @property
    def seconds(self) -> float:
        return self.earlier_seconds + monotonic() - self.started

    def restore(self) -> None:
        loaded = load_checkpoint(self.folder.checkpoints)
        self.agent.group.any(loaded is not None)
        if loaded is None:
            self.log("No checkpoint yet: starting from the beginning.")
            return
        for problem in loaded.damaged:
            self.log(f"{problem}; using {loaded.path.name}.")
        if differing := differing_versions(loaded.versions):
            self.log(f"This run was written with {differing}: its numbers may differ from here on.")
        state = loaded.state
        try:
            check_like(self._state(0, {}), state, "run")
            check_progress(state)
            self.metrics = numbers(state["metrics"], "metrics")
            self.averages.load_state_dict(state["averages"])
            self.agent.load_state_dict(self.agent.group.broadcast(lambda: state["agent"]))
        except ValueError as problem:
            raise CheckpointError(f"{loaded.path} does not fit this run: {problem}") from problem
        self.metrics_size, self.next_line = state["metrics_size"], state["next_line"]
        kept_metrics(self.folder.metrics_file, self.metrics_size)  # before anything is written
        self.earlier_seconds = state["seconds"]
        self.log(f"Resuming at step {self.agent.steps:,} of {self.config.steps:,}.")
        if not self.agent.collector.exact:
            differs = "new episodes begin, so this run will differ from an uninterrupted one"
            self.log(f"{self.config.env_id} cannot save its state: {differs}.")

    def go(self, on_cycle: OnCycle | None) -> Outcome:
        folder, config, steps = self.folder, self.config, self.agent.steps
        folder.note_machine()
        with ExitStack() as open_files:
            lines = MetricsFile(folder.metrics_file, self.metrics_size)
            open_files.callback(lines.close)
            options = self.options
            loggers = open_loggers(options.log, folder.path, config.flat(), steps, self.log, options.tensorboard)
            for logger in loggers:
                open_files.callback(logger.close)
            try:
                return self._train(lines, loggers, on_cycle)
            except NonFiniteError as error:
                # the networks have not moved since their last finite update: worth keeping beside the last checkpoint
                bonus, policy = self.agent.bonus, self.agent.policy.state_dict()
                models = {"policy": policy, "bonus": None if bonus is None else bonus.state_dict()}
                self.folder.save_models(MODELS_BEFORE_FAILURE, models)
                self._result("failed", str(error))
                raise
            except CheckpointError as error:
                self._try_result("failed", str(error))
                raise
            except Exception as error:
                if not isinstance(error, WorkerLost):  # which `_recording_loss` has recorded, with more detail
                    self._try_result("failed", f"{type(error).__name__}: {error}")
                raise

    def _train(self, lines: MetricsFile, loggers: list[Logger], on_cycle: OnCycle | None) -> Outcome:
        agent = self.agent
        # of several processes one may die at any time: there is a checkpoint from the first update on
        saved = monotonic() if agent.group.is_single else -math.inf

        def after(metrics: dict[str, float]) -> None:
            self.averages.add(metrics)
            for message in agent.messages:  # what the monitor found, once each
                self.log(f"Step {agent.steps:,}: {message}.")
            agent.messages.clear()
            if agent.steps >= min(self.next_line, self.config.steps):
                self._line(lines, loggers)
            if on_cycle is not None:
                on_cycle(agent, self.metrics)

        def save(state: dict[str, Any]) -> None:
            nonlocal saved
            with _own_files():
                save_checkpoint(self.folder.checkpoints, agent.steps, self._state(lines.sync(), state))
            saved = monotonic()

        with self._recording_loss():
            seconds = self.options.checkpoint_seconds
            status = _cycles(agent, self.config.steps, after, lambda: monotonic() - saved >= seconds, save)
        with _own_files():
            self._result(status)
        agent.group.any(False)
        visits = agent.collector.visits.copy()
        return Outcome(status, agent.steps, self.seconds, lines.rows, visits, self._time_shares())

    def _line(self, lines: MetricsFile, loggers: list[Logger]) -> None:
        steps = self.agent.steps
        self.metrics = self.averages.take()
        with _own_files():
            lines.append({"step": steps, **self.metrics})
        for logger in loggers:
            logger.log(steps, self.metrics)
        self.next_line = (steps // self.log_every + 1) * self.log_every

    def _state(self, metrics_size: int, agent: dict[str, Any]) -> dict[str, Any]:
        lines = {"averages": self.averages.state_dict(), "metrics": self.metrics, "metrics_size": metrics_size}
        return {"agent": agent, **lines, "next_line": self.next_line, "seconds": self.seconds}

    @contextmanager
    def _recording_loss(self) -> Iterator[None]:
        """If another process is lost, say so and from where the run can go on, before a signal ends this one too."""
        try:
            yield
        except WorkerLost as error:
            kept = checkpoints(self.folder.checkpoints)
            rest = f"the last checkpoint is {kept[0].name}" if kept else "there is no checkpoint yet"
            self._try_result("failed", f"{error}; {rest}")
            self.log(f"Step {self.agent.steps:,}: {error}. The run ends here; {rest}.")
            raise

    def _try_result(self, status: str, error: str) -> None:
        try:
            self._result(status, error)
        except OSError as second:
            self.log(f"result.json cannot be written either: {second}")

    def _result(self, status: str, error: str | None = None) -> None:
        agent = self.agent
        self.folder.write_result(
            {
                "status": status,
                "error": error,
                "steps": agent.steps,
                "seconds": round(self.seconds, 3),
                "steps_per_second": round(agent.steps / max(self.seconds, 1e-9), 1),
                "time_shares": self._time_shares(),
                "exact_resume": agent.collector.exact,
                "metrics": self.metrics,
            }
        )

    def _time_shares(self) -> dict[str, float]:
        parts = {**self.agent.collector.seconds, **self.agent.seconds}
        spent = sum(parts.values())
        return {name: round(value / max(spent, 1e-9), 4) for name, value in parts.items()}


@contextmanager
def _own_files() -> Iterator[None]:
    """An OSError of the run's own files is a `CheckpointError`; that of anybody else, such as `on_cycle`, stays one."""
    try:
        yield
    except OSError as error:
        raise CheckpointError(str(error)) from error


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _graceful() -> Iterator[threading.Event]:
    """An event that the first SIGINT or SIGTERM sets; a second one ends the process as usual."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop  # only the main thread may set handlers
        return
    before: dict[int, Any] = {}

    def handle(number: int, frame: FrameType | None) -> None:
        stop.set()
        restore()

    def restore() -> None:
        while before:
            number, handler = before.popitem()
            signal.signal(number, handler)

    for number in (signal.SIGINT, signal.SIGTERM):
        before[number] = signal.signal(number, handle)
    try:
        yield stop
    finally:
        restore()
