"""Policies others have trained, evaluated here and by onnxruntime. They are not ours to pass on: $KHZ_POLICIES is a folder with them."""

import os
import pathlib
from collections.abc import Callable

import numpy
import pytest
from conftest import Judged

OBSERVATIONS = 1000


def policies() -> list[pathlib.Path]:
    """All models below the folder."""
    folder = os.environ.get("KHZ_POLICIES")
    return sorted(pathlib.Path(folder).rglob("*.onnx")) if folder else []


@pytest.mark.skipif(not policies(), reason="KHZ_POLICIES is no folder with policies of others (*.onnx)")
@pytest.mark.parametrize("path", policies(), ids=lambda path: path.stem)
def test_a_public_policy_says_what_onnxruntime_says(
    judged: Callable[[pathlib.Path], Judged], path: pathlib.Path
) -> None:
    """Within 1e-4 of the largest output; both are rounded, and onnxruntime is about twice as far from float64."""
    model = judged(path)
    observations = [model.inputs(seed, 10.0 ** -(seed % 2)) for seed in range(OBSERVATIONS)]
    expected = numpy.stack([model.expected(inputs) for inputs in observations])
    difference = numpy.abs(expected - model.found(observations))
    largest = numpy.abs(expected).max(axis=1, keepdims=True)
    print(f"{path.stem}: outputs to {largest.max():.3g}, difference {difference.max():.2e}")
    assert (difference <= 1e-4 * numpy.maximum(largest, 1.0)).all()
