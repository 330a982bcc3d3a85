"""Which plan is best for an accuracy, or for a time: a race of the plans that can be kept.

All run with few particles first; the better half goes on with four times as many, and so on while there is
time. From its trials each plan has a forecast: seconds grow linearly with the particles, errors fall with
their square root. What the reference leans on, the best, and those whose forecasts are close to it run again
while there is time. The plan with the best forecast gets as many particles as the demand asks for, is
measured there, and is compared with runs of itself with four times as many.

There is no truth to compare with. All plans aim at the same posterior, so the reference is the mean of the
runs that can be trusted (see `trials`), in which the steadier plans count more, and an error is the distance
from it in posterior standard deviations (see `distance`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Literal, cast

import numpy as np

from siren import api
from siren.distance import numbers, outputs
from siren.errors import SirenError, TooLargeError
from siren.options import METHODS, Method, Plan
from siren.plans import judge
from siren.result import Result
from siren.syntax import ast
from siren.syntax.traverse import everything
from siren.trials import EXACT, FIRST, GROWTH, Demand, Forecast, Key, Trial, forecast, joined, measured, met

_FEWEST_RUNS, _MOST_RUNS = 2, 8
# In so many steps whatever repeats is met often enough to be compiled.
_FIRST_STEPS: Final = 8
# The race is laid out for so many rounds.
_ROUNDS: Final = 5
# A plan stays in the race while its forecast is within this factor of the best.
_CLOSE: Final = 1.5
_FINALS: Final = 4
# This share of the budget is left for measuring the plan that wins, and so many runs tell close ones apart.
_LAST: Final = 0.25
_ENOUGH: Final = 24
# Two runs are often near each other by chance; so many are not.
_TRUSTED: Final = 8
# Of so many particles few are lost, and a copy of each step of four times as many may not fit into memory.
_MOST_PARTICLES: Final = 100_000


@dataclass(frozen=True, slots=True)
class Tuned:
    """`best` meets what was asked if `reached`; otherwise it comes nearest of all trials."""

    best: Trial
    reached: bool
    trials: tuple[Trial, ...]


class _TooLong(Exception):
    """Of a run: it is given up."""


class _Enough(Exception):
    """Of the first steps of a run: they were all that was wanted."""


def tune(
    program: ast.Program,
    *,
    seconds: float | None = None,
    error: float | None = None,
    methods: Sequence[str] = METHODS,
    data: Mapping[str, Any] | None = None,
    budget: float = 30.0,
    progress: Callable[[int, int | None], None] | None = None,
) -> Tuned:
    """The plan with the least error in runs of so many seconds, or with the quickest runs of such an error.

    All seconds are of the processor: what else the machine does is no property of a plan. `budget` bounds
    those spent on trials; every plan that can be kept is tried once at least.
    """
    if (seconds is None) == (error is None):
        raise SirenError("tune for a time or for an error, not for both")
    demand = Demand(seconds, error)
    race = _Race(program, data, demand, budget, progress)
    for judged in judge(program, methods, data):
        for method in methods:
            if judged.verdicts[method].satisfiable:
                race.enter(method, judged.number, judged.plan)
    race.run()
    race.settle()
    return race.finish()


class _Race:
    def __init__(
        self,
        program: ast.Program,
        data: Mapping[str, Any] | None,
        demand: Demand,
        budget: float,
        progress: Callable[[int, int | None], None] | None,
    ) -> None:
        self.program, self.data, self.demand, self.budget = program, data, demand, budget
        self.deadline = time.process_time() + budget
        self.progress = progress
        self.plans: dict[Key, Plan] = {}
        self.trials: list[Trial] = []
        self.done = 0
        self.seed = 0

    def enter(self, method: str, number: int, plan: Plan) -> None:
        self.plans[method, number] = plan

    def run(self) -> None:
        """Round after round with more particles, while there is time and something to learn."""
        running = dict.fromkeys(self.plans, FIRST)
        patience = max(1.0, self.budget / max(1, len(running)))
        while running:
            share = self.budget / (_ROUNDS * len(running))
            for key, particles in running.items():
                self._try(key, particles, share, patience)
            if not self.trials:
                raise SirenError(f"no plan finishes within {patience:.3g} s", hint="give a larger --budget")
            if time.process_time() > self.deadline - 0.2 * self.budget:
                return
            running = self._next(list(running))

    def settle(self) -> None:
        """While there is time, those that most depends on run again: few runs say little of errors."""
        while time.process_time() < self.deadline - _LAST * self.budget:
            doubtful = self._doubtful()
            if doubtful is None or not self._try(*doubtful, 0.0, np.inf):
                return

    def finish(self) -> Tuned:
        """Measure the plan with the best forecast where the demand wants it; mend what does not fit."""
        key, _ = self._best()
        for _ in range(_FINALS):
            forecast = self.forecasts()[key]
            particles = forecast.particles(self.demand)
            if self.demand.error is not None:  # a time bounds its runs, an error does not
                left = self.deadline - time.process_time()
                particles = min(particles, max(forecast.tried, forecast.within(left / (_FEWEST_RUNS + 1))))
            particles = max(1, round(particles))
            if not self._runs(key, particles):
                self._try(key, particles, 0.1 * self.budget, np.inf)
            self._compare(key, particles)
            best, is_close = self._best(key)
            latest = [t for t in self.trials if t.key == key and t.particles == particles]
            if is_close and latest and self.demand.is_met(latest[0]):
                break
            if time.process_time() > self.deadline:
                break
            key = key if is_close else best
        tuned = self._chosen(key)
        while self._is_doubtful(tuned.best) and time.process_time() < self.deadline:
            self._try(tuned.best.key, tuned.best.particles, 0.0, np.inf)
            tuned = self._chosen(key)
        return tuned

    def forecasts(self) -> dict[Key, Forecast]:
        by_plan: dict[Key, list[Trial]] = {}
        for trial in self.trials:
            by_plan.setdefault(trial.key, []).append(trial)
        return {key: forecast(trials) for key, trials in by_plan.items()}

    def _best(self, than: Key | None = None) -> tuple[Key, bool]:
        """The plan with the best forecast, and whether another one's is close to it."""
        scores = {key: forecast.score(self.demand) for key, forecast in self.forecasts().items()}
        best = min(scores, key=lambda key: scores[key])
        return best, scores[than or best] <= _CLOSE * scores[best]

    def _doubtful(self) -> tuple[Key, int] | None:
        """A plan and a number of particles that want more runs."""
        forecasts = self.forecasts()
        best, _ = self._best()
        leaned_on = max(self.trials, key=lambda t: t.share)
        largest = max((t for t in self.trials if t.key == best), key=lambda t: t.particles)
        for trial in (leaned_on, largest):
            if self._is_doubtful(trial):
                return trial.key, trial.particles
            if trial.is_torn and self._is_affordable(trial):
                return trial.key, GROWTH * trial.particles
        close = [key for key in forecasts if self._best(key)[1] and forecasts[key].scale > EXACT]
        runs = {key: self._runs(key, forecasts[key].tried) for key in close}
        least = min(close, key=lambda key: runs[key], default=None)
        if least is None or len(close) < 2 or runs[least] >= _ENOUGH:
            return None
        return least, forecasts[least].tried

    def _is_doubtful(self, trial: Trial) -> bool:
        return trial.drew and len(trial.means) < _TRUSTED

    def _compare(self, key: Key, particles: int) -> None:
        """Let runs of more particles bear witness to those of a choice, if there is time for them."""
        more = GROWTH * particles
        for chosen in self._of(key):
            is_new = chosen.particles == particles and self.forecasts()[key].tried < more
            if is_new and chosen.drew and self._is_affordable(chosen):
                self._try(key, more, 0.0, self.deadline - time.process_time())

    def _is_affordable(self, trial: Trial) -> bool:
        """Whether there is time and memory for some runs of it with more particles."""
        left = self.deadline - time.process_time()
        return GROWTH * trial.particles <= _MOST_PARTICLES and _FEWEST_RUNS * GROWTH * trial.seconds < left

    def _next(self, running: list[Key]) -> dict[Key, int]:
        """Those that stay in the race, each with its number of particles."""
        forecasts = {key: f for key, f in self.forecasts().items() if key in running}
        order = sorted(forecasts, key=lambda key: forecasts[key].score(self.demand))
        best = forecasts[order[0]].score(self.demand)
        half = max(1, (len(order) + 1) // 2)
        stay = order[:half] + [k for k in order[half:] if forecasts[k].score(self.demand) <= _CLOSE * best]
        if len(stay) == len(running) and len(stay) > 2:
            stay = stay[:-1]
        following = {}
        for key in stay:
            tried, wanted = forecasts[key].tried, forecasts[key].particles(self.demand)
            # Half again as many tell nothing new; what is exact is known.
            if wanted > 1.5 * tried and forecasts[key].scale > EXACT:
                following[key] = round(min(GROWTH * tried, wanted))
        return following

    def _runs(self, key: Key, particles: int) -> int:
        return sum(len(t.means) for t in self.trials if t.key == key and t.particles == particles)

    def _try(self, key: Key, particles: int, share: float, patience: float) -> bool:
        """As many runs as fit into the share of time; none, and False, if they take too long, since what is
        symbolic may grow from step to step."""
        end = time.process_time() + patience

        def watch(done: int, total: int | None) -> None:
            if time.process_time() > end:
                raise _TooLong

        def begin(done: int, total: int | None) -> None:
            watch(done, total)
            if done >= _FIRST_STEPS:
                raise _Enough

        clock: list[float] = []
        results = []
        before = self._runs(key, particles)
        try:
            if not before:
                with suppress(_Enough):  # what repeats is compiled now, and not on the clock
                    self._run(key, particles, begin)
            started = time.process_time()
            while len(clock) < _FEWEST_RUNS or (
                len(clock) < _MOST_RUNS and time.process_time() - started < share - clock[-1]
            ):
                begun = time.process_time()
                result = self._run(key, particles, watch)
                results.append((result, *numbers(result)))
                clock.append(time.process_time() - begun)
        except (_TooLong, TooLargeError):
            pass
        self.done += 1
        if self.progress is not None:
            self.progress(self.done, None)
        if len(clock) < _FEWEST_RUNS:
            return False
        # How a run begins is compiled when it has happened twice: in the first of these.
        seconds = float(np.median(clock if before else clock[1:]))
        trial = Trial(
            *key, self.plans[key], particles, seconds,
            means=np.array([means for _, means, _ in results]),
            sds=np.array([sds for _, _, sds in results]),
            evidence=np.array([result.log_evidence for result, _, _ in results]),
            drew=any(how != "symbolic" for result, _, _ in results for how in result.plan.values()),
            outputs=outputs(result),
        )  # fmt: skip
        same = [t for t in self.trials if t.key == key and t.particles == particles]
        others = [t for t in self.trials if t not in same]
        self.trials = measured([*others, *(joined(t, trial) for t in same)] if same else [*others, trial])
        return True

    def _run(self, key: Key, particles: int, progress: Callable[[int, int | None], None]) -> Result:
        self.seed += 1  # runs that share draws would share their errors
        return api.run(
            self.program, data=self.data, particles=particles, method=cast(Method, key[0]), seed=self.seed,
            plan=self.plans[key], progress=progress,
        )  # fmt: skip

    def _chosen(self, key: Key) -> Tuned:
        good = met(self._of(key), self.demand)
        everyone = tuple(self.trials)
        if self.demand.seconds is not None:
            if good:  # as many particles as there is time for: fewer can only look better by chance
                return Tuned(max(good, key=lambda t: t.particles), True, everyone)
            quick = [trial for trial in self.trials if self.demand.is_met(trial)]
            if quick:
                return Tuned(min(quick, key=lambda t: t.typical), True, everyone)
            return Tuned(min(self.trials, key=lambda t: t.seconds), False, everyone)
        good = good or [trial for other in self.plans for trial in met(self._of(other), self.demand)]
        if good:
            return Tuned(min(good, key=lambda t: t.seconds), True, everyone)
        largest = [max(self._of(other), key=lambda t: t.particles) for other in self.forecasts()]
        return Tuned(min(largest, key=lambda t: t.typical), False, everyone)

    def _of(self, key: Key) -> list[Trial]:
        return [trial for trial in self.trials if trial.key == key]


def annotated(program: ast.Program, plan: Mapping[str, Literal["symbolic", "sample"]]) -> str:
    """The text of the program with the plan written into it; everything else stays as it is."""
    lines = program.source.text.splitlines(keepends=True)
    places = [node for node in everything(program) if isinstance(node, ast.Assume) and node.name in plan]
    for node in sorted(places, key=lambda n: n.name_span, reverse=True):
        row, column = node.name_span.line - 1, node.name_span.column - 1
        before, after = lines[row][:column], lines[row][column:]
        if node.annotation is not None:
            before = before[: before.rindex(node.annotation)]
        lines[row] = f"{before}{plan[node.name]} {after}"
    return "".join(lines)


__all__ = ["Trial", "Tuned", "annotated", "tune"]
