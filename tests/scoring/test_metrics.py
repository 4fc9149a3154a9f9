"""Metrics and intervals against slow and obvious implementations."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tempoloc_nb.clips.tasks import Interval
from tempoloc_nb.scoring.metrics import (
    Estimate,
    Sampled,
    breaks_order,
    draws,
    mean_by,
    mean_of,
    recipe_window,
    sample_mean,
    sample_quantile,
    sample_ratios,
    sign_flip_p,
    subtask_durations,
    tiou,
    worst_error,
)

seconds = st.floats(0, 10).map(lambda t: round(t, 2))
maybe = seconds | st.just(math.nan)


def test_durations_and_worst_error() -> None:
    truth = np.array([[1.0, 3.0, 3.5], [2.0, 4.0, np.nan]])
    assert np.array_equal(subtask_durations(truth), [[1, 2, 0.5], [2, 2, np.nan]], equal_nan=True)
    assert worst_error(np.array([1.0, 5.0, 9.0]), np.array([10.0] * 3)).tolist() == [9.0, 5.0, 9.0]


def test_window_is_the_recipes_expression() -> None:
    assert [recipe_window(f) for f in (4, 8, 12)] == [4.1 * (1 / f) / 2 for f in (4, 8, 12)]


@given(arrays(float, (4, 3), elements=maybe))
def test_order(boundaries: np.ndarray) -> None:
    wanted = [
        [any(not math.isnan(row[j]) and row[i] < row[j] for j in range(i)) for i in range(len(row))]
        for row in boundaries
    ]
    assert breaks_order(boundaries).tolist() == wanted


@given(seconds, seconds, seconds, seconds)
def test_tiou(a: float, b: float, c: float, d: float) -> None:
    one, other = Interval(*sorted((a, b))), Interval(*sorted((c, d)))
    found = tiou(*(np.array([x]) for x in (one.start, one.end, other.start, other.end)))
    assert math.isclose(found[0], one.tiou(other), abs_tol=1e-12)


def test_tiou_of_what_is_not_there() -> None:
    nan = math.nan
    found = tiou(np.array([nan, 1, 1]), np.array([2, nan, 2.0]), np.array([1, 1, nan]), np.array([2.0, 2, 3]))
    assert np.array_equal(found, [0, 0, nan], equal_nan=True)


@given(arrays(float, (6, 2), elements=maybe), arrays(np.int64, 6, elements=st.integers(0, 3)))
def test_mean_by(values: np.ndarray, group: np.ndarray) -> None:
    found = mean_by(values, group, 4)
    for g, column in itertools.product(range(4), range(2)):
        own = [v for v in values[group == g, column] if not math.isnan(v)]
        assert math.isclose(found[g, column], np.mean(own)) if own else math.isnan(found[g, column])


# --- intervals ---


def test_draws_are_multinomial_and_seeded() -> None:
    weights = draws(5, 4000, seed=3)
    assert set(weights.sum(axis=1)) == {5.0}
    assert np.allclose(weights.mean(axis=0), 1, atol=0.06)
    assert np.allclose(weights.var(axis=0), 0.8, atol=0.08)
    assert np.array_equal(weights, draws(5, 4000, seed=3))
    assert not np.array_equal(weights, draws(5, 4000, seed=4))


@given(arrays(float, (5, 3), elements=maybe))
def test_samples_are_means_over_drawn_demonstrations(values: np.ndarray) -> None:
    weights = draws(5, 20, seed=0)
    found = sample_mean(values, weights)
    columns = [[v for v in values[:, c] if not math.isnan(v)] for c in range(3)]
    means = [np.mean(c) for c in columns if c]
    assert math.isclose(found.value, np.mean(means)) if means else math.isnan(found.value)
    if not np.isnan(values).any():
        for w, sample in zip(weights.astype(int), found.samples, strict=True):
            assert math.isclose(sample, np.repeat(values, w, axis=0).mean())


def test_ratio_is_of_sums() -> None:
    upper, lower = np.array([[2.0], [0.0]]), np.array([[2.0], [6.0]])
    found = sample_ratios(upper, lower, np.array([[2.0, 0.0], [1.0, 1.0], [0.0, 2.0]]))
    assert found.value.tolist() == [0.25]
    assert found.samples.tolist() == [[1.0, 0.25, 0.0]]


@given(arrays(float, 12, elements=maybe), st.sampled_from([0.1, 0.5, 0.9]))
def test_quantile(values: np.ndarray, q: float) -> None:
    demos, weights = np.repeat(np.arange(4), 3), draws(4, 30, seed=1)
    found = sample_quantile(values, demos, q, weights)
    there = values[~np.isnan(values)]
    if not len(there):
        assert math.isnan(found.value)
        return
    assert found.value == np.quantile(there, q, method="inverted_cdf")
    for w, sample in zip(weights.astype(int), found.samples, strict=True):
        drawn = np.repeat(values.reshape(4, 3), w, axis=0).ravel()
        if not np.isnan(drawn).all() and np.isfinite(sample):
            assert sample == np.quantile(drawn[~np.isnan(drawn)], q, method="inverted_cdf")


def test_no_interval_without_a_second_demonstration() -> None:
    one = np.array([[1.0], [np.nan], [np.nan]])
    assert sample_mean(one, draws(3, 50, 0)).estimate(0.95) == Estimate(1.0)
    assert sample_quantile(one.ravel(), np.arange(3), 0.5, draws(3, 50, 0)).estimate(0.95) == Estimate(1.0)
    assert sample_mean(one * np.nan, draws(3, 50, 0)).estimate(0.95) == Estimate(None)


def test_mean_of_parts() -> None:
    nothing = np.full(2, np.nan)
    known, unknown = Sampled(np.array(1.0), np.array([0.0, 2.0])), Sampled(np.array(math.nan), nothing)
    both = mean_of([known, Sampled(np.array(3.0), np.array([3.0, 3.0])), unknown])
    assert both.value == 2.0
    assert both.samples.tolist() == [1.5, 2.5]
    without = mean_of([known, Sampled(np.array(3.0), nothing)])
    assert without.estimate(0.95) == Estimate(2.0)
    assert math.isnan(mean_of([unknown]).value)


def test_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(5)
    covered = 0
    for trial in range(200):
        demos = rng.normal(1.0, 0.5, (40, 1))
        found = sample_mean(demos, draws(40, 400, seed=trial)).estimate(0.9)
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= 1.0 <= found.high
    assert 165 <= covered <= 195  # 0.9 of 200 is 180; the percentile interval is a little short


@pytest.mark.parametrize("count", [4, 12])
def test_exact_sign_flips(count: int) -> None:
    rng = np.random.default_rng(count)
    d = rng.normal(0.3, 1, count)
    sums = [
        abs(sum(s * x for s, x in zip(signs, d, strict=True))) for signs in itertools.product((1, -1), repeat=count)
    ]
    assert sign_flip_p(d, 10, 0) == np.mean([s >= abs(d.sum()) - 1e-12 for s in sums])


def test_drawn_sign_flips_approach_the_exact_p() -> None:
    d = np.random.default_rng(1).normal(0.4, 1, 13)
    signs = np.array(list(itertools.product((1, -1), repeat=13)))
    exact = np.mean(np.abs(signs @ d) >= abs(d.sum()) - 1e-12)
    p = sign_flip_p(d, 20_000, seed=0)
    assert p is not None
    assert abs(p - exact) < 0.015
    assert sign_flip_p(np.array([]), 10, 0) is None
