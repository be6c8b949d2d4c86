"""The bits of `vectors/policy.json`, which our evaluator has on every machine, against onnxruntime."""

import json
import pathlib

import numpy
import onnxruntime
import pytest

FILE = pathlib.Path(__file__).parents[2] / "vectors/policy.json"


@pytest.mark.parametrize("vector", json.loads(FILE.read_text())["vectors"], ids=lambda vector: vector["name"])
def test_onnxruntime_says_the_same(vector: dict[str, str]) -> None:
    """Within a few bits of the largest."""
    session = onnxruntime.InferenceSession(bytes.fromhex(vector["bytes"]), providers=["CPUExecutionProvider"])
    for observation, output in zip(vector["observations"], vector["outputs"], strict=True):
        numbers = numpy.frombuffer(bytes.fromhex(observation), ">f4").astype(numpy.float32)
        inputs = {}
        for port in session.get_inputs():
            count = int(numpy.prod(port.shape))
            inputs[port.name], numbers = numbers[:count].reshape(port.shape), numbers[count:]
        expected = session.run(None, inputs)[0].ravel()
        found = numpy.frombuffer(bytes.fromhex(output), ">f4")
        numpy.testing.assert_allclose(found, expected, rtol=5e-6, atol=1e-6)
