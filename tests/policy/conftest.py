"""Evaluates models by Kilohertz, and by onnxruntime."""

import pathlib
import subprocess
from collections.abc import Callable

import numpy
import onnxruntime
import pytest

Tensors = dict[str, numpy.ndarray]


class Judged:
    """One model in both."""

    def __init__(self, program: pathlib.Path, model: pathlib.Path) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self.program, self.model = program, model
        self.session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    def inputs(self, seed: int, scale: float) -> Tensors:
        """Random numbers for each input; a dimension without a number is 1."""
        random = numpy.random.default_rng(seed)
        shapes = {
            port.name: [size if isinstance(size, int) else 1 for size in port.shape]
            for port in self.session.get_inputs()
        }
        return {
            name: (random.standard_normal(shape) * scale).astype(numpy.float32) for name, shape in shapes.items()
        }

    def expected(self, inputs: Tensors) -> numpy.ndarray:
        """All outputs of onnxruntime, one behind the other."""
        return numpy.concatenate([output.ravel() for output in self.session.run(None, inputs)])

    def found(self, observations: list[Tensors], engine: str = "own") -> numpy.ndarray:
        """All outputs of ours, or of another engine that we open, a row for each observation."""
        order = [port.name for port in self.session.get_inputs()]
        given = b"".join(inputs[name].tobytes() for inputs in observations for name in order)
        done = subprocess.run([self.program, self.model, engine], input=given, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()
        return numpy.frombuffer(done.stdout, numpy.float32).reshape(len(observations), -1)


@pytest.fixture(scope="session")
def judged(example: Callable[[str], pathlib.Path]) -> Callable[[pathlib.Path], Judged]:
    """Loads a model in both."""
    program = example("evaluate")
    return lambda model: Judged(program, model)
