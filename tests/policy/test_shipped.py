"""The model of `robots/arm_policy.toml` is what this file makes; `UPDATE=1` writes it."""

import hashlib
import os
import pathlib
import tomllib

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

ROBOTS = pathlib.Path(__file__).parents[2] / "robots"
MODEL = ROBOTS / "models/arm_policy.onnx"


def policy() -> bytes:
    """Two layers with weights of a seed: it waves, and has learned nothing."""
    random = numpy.random.RandomState(42)  # noqa: NPY002: the same numbers in every version

    def weights(name: str, *shape: int) -> onnx.TensorProto:
        values = random.standard_normal(shape) / numpy.sqrt(shape[-1])
        return numpy_helper.from_array(values.astype(numpy.float32), name)

    graph = helper.make_graph(
        [
            helper.make_node("Gemm", ["obs", "w0", "b0"], ["h0"], name="/actor/0", transB=1),
            helper.make_node("Elu", ["h0"], ["a0"], name="/actor/1"),
            helper.make_node("Gemm", ["a0", "w1", "b1"], ["h1"], name="/actor/2", transB=1),
            helper.make_node("Tanh", ["h1"], ["actions"], name="/actor/3"),
        ],
        "policy",
        [helper.make_tensor_value_info("obs", TensorProto.FLOAT, [1, 20])],
        [helper.make_tensor_value_info("actions", TensorProto.FLOAT, [1, 3])],
        [weights("w0", 16, 20), weights("b0", 16), weights("w1", 3, 16), weights("b1", 3)],
    )
    opsets = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8, producer_name="tests/policy")
    return model.SerializeToString(deterministic=True)


def test_the_model_is_made_here() -> None:
    """And the robot file names its hash."""
    made = policy()
    if os.environ.get("UPDATE"):
        MODEL.write_bytes(made)
    assert MODEL.read_bytes() == made
    controller = tomllib.loads((ROBOTS / "arm_policy.toml").read_text())["controller"]
    assert controller["sha256"] == hashlib.sha256(made).hexdigest()
