"""What errors of trials are measured against: runs that agree are not right for that."""

import numpy as np
import pytest

from siren.trials import Demand, Trial, measured, met


def trial(
    number: int, particles: int, means: list[float], evidence: float = -10.0, drew: bool = True
) -> Trial:
    runs = len(means)
    return Trial(
        "ssi", number, {}, particles, 0.01,
        means=np.array(means)[:, None], sds=np.ones((runs, 1)), evidence=np.full(runs, evidence), drew=drew,
        outputs=np.zeros(1, dtype=int),
    )  # fmt: skip


SCATTERED = [0.1, -0.2, 0.15, -0.1, 0.05, 0.0]


def test_runs_that_drew_and_agree_to_the_last_digit_are_no_reference() -> None:
    collapsed, other = measured([trial(1, 64, [3.0] * 6), trial(2, 64, SCATTERED)])
    assert collapsed.share == 0 and collapsed.typical == pytest.approx(3.0, rel=0.02)
    assert other.share == 1 and other.error < 0.3


def test_runs_that_drew_nothing_are_the_reference() -> None:
    exact, other = measured([trial(0, 64, [3.0, 3.0], drew=False), trial(2, 1024, SCATTERED)])
    assert exact.share == 1 and exact.error == 0 and other.typical == pytest.approx(3.0, rel=0.1)


def test_steady_runs_of_far_less_evidence_have_missed_the_mass() -> None:
    steady = [3.0, 3.0001, 2.9999, 3.0]
    lost, found = measured([trial(1, 1024, steady, evidence=-60.0), trial(2, 64, SCATTERED)])
    assert lost.share == 0 and lost.typical > 2.5 and found.typical < 0.3


def test_of_a_trial_the_runs_count_that_found_the_mass() -> None:
    torn, lost = trial(2, 64, [*SCATTERED, 3.0, 3.0]), trial(1, 64, [3.0, 3.0001], evidence=-60.0)
    torn.evidence[-2:] = -60.0
    found = measured([torn, lost])
    assert found[0].share == 1 and found[1].typical > 1.5


def test_of_a_plan_more_particles_speak() -> None:
    few, more = measured([trial(1, 64, [3.0, 3.001, 2.999]), trial(1, 256, SCATTERED)])
    assert few.share == 0 and few.typical > 2.5 and more.share == 1


def test_two_runs_that_are_near_by_chance_are_not_steadier_than_their_plan() -> None:
    lucky, other = trial(1, 256, [0.2, 0.2001]), trial(2, 256, [x / 2 for x in SCATTERED])
    alone = measured([lucky, other])
    beside = measured([trial(1, 64, [2 * x for x in SCATTERED]), lucky, other])
    assert alone[0].share == 1 and beside[1].share < 0.3


def test_runs_that_are_right_by_chance_do_not_make_up_for_the_others() -> None:
    exact = trial(0, 64, [0.0, 0.0], drew=False)
    _, half = measured([exact, trial(1, 64, [0.0, 0.8, 0.0, 0.8])])
    assert half.typical > 0.15


def test_runs_whose_evidence_differs_are_torn() -> None:
    one = trial(1, 64, [0.0, 0.0])
    one.evidence[:] = (-10.0, -25.0)
    assert one.is_torn and not trial(1, 64, [0.0, 0.0]).is_torn
    one.evidence[:] = (-np.inf, -25.0)
    assert one.is_torn and one.evidence_sd == np.inf


def test_what_the_reference_is_off_by_does_not_excuse_a_trial() -> None:
    """It was taken off the errors, which then were half of what they are where little is known."""
    few = trial(1, 64, [0.6, -0.6, 0.5, -0.5])
    found, _ = measured([few, trial(1, 256, [0.5, -0.5])])
    assert found.typical == pytest.approx(0.3**0.5, rel=0.15)


def test_runs_that_missed_the_mass_do_not_widen_the_posterior() -> None:
    """Errors are in its standard deviations, and with those of lost runs all looked small."""
    reference = trial(1, 256, [0.1, -0.1, 0.0, 90.0])
    reference.evidence[-1] = -1e6
    _, other = measured([reference, trial(1, 64, [2.0, 2.1, -2.0, -2.1])])
    assert other.typical == pytest.approx(2.0, rel=0.1)


def test_nearly_as_many_particles_speak_as_well() -> None:
    most, fewer, few = measured(
        [trial(1, 256, [0.3, 0.2]), trial(1, 128, SCATTERED), trial(1, 64, SCATTERED)]
    )  # fmt: skip
    assert most.share > 0 and fewer.share > 0 and few.share == 0


def test_an_error_is_not_met_by_runs_of_which_some_missed_the_mass() -> None:
    found = measured([trial(0, 64, [0.0, 0.0], drew=False), trial(1, 64, [0.1, -0.1])])[1]
    demand = Demand(None, 0.5)
    assert demand.is_met(found)
    found.evidence[0] = -60.0
    assert not demand.is_met(found) and Demand(1.0, None).is_met(found)


def test_an_error_that_more_particles_miss_is_met_by_chance() -> None:
    exact = trial(0, 64, [0.0, 0.0], drew=False)
    sizes = {64: [0.1, -0.1], 256: [0.4, -0.4], 512: [0.2, -0.2], 1024: [0.1, 0.1]}
    _, *of_plan = measured([exact, *(trial(1, size, means) for size, means in sizes.items())])
    assert sorted(t.particles for t in met(of_plan, Demand(None, 0.3))) == [512, 1024]
    assert len(met(of_plan, Demand(1.0, None))) == 4
