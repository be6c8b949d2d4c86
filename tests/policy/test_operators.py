"""Every operator that `khz-policy` evaluates, in models with random weights, against onnxruntime."""

import pathlib
import re
import subprocess
from collections.abc import Callable

import numpy
import onnx
import pytest
from conftest import Judged
from onnx import TensorProto, helper, numpy_helper

OBSERVATIONS = 20
RANDOM = numpy.random.default_rng(42)

Shape = list[int | str]


def floats(*shape: int) -> numpy.ndarray:
    """Random weights."""
    return RANDOM.standard_normal(shape).astype(numpy.float32)


def whole(*numbers: int) -> numpy.ndarray:
    """A shape, axes or indices."""
    return numpy.array(numbers, numpy.int64)


def model(
    nodes: list[onnx.NodeProto], inputs: dict[str, Shape], opset: int, **constants: numpy.ndarray
) -> onnx.ModelProto:
    """A model whose outputs are those of the last node."""
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in nodes[-1].output if name],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def one(
    operator: str,
    *constants: numpy.ndarray | None,
    shape: tuple[int | str, ...] = (1, 37),
    opset: int = 17,
    outputs: int = 1,
    **attributes: object,
) -> onnx.ModelProto:
    """A node of the model's input and of constants."""
    names = [f"c{number}" if constant is not None else "" for number, constant in enumerate(constants)]
    named = {name: constant for name, constant in zip(names, constants, strict=True) if constant is not None}
    node = helper.make_node(operator, ["x", *names], [f"y{n}" for n in range(outputs)], **attributes)
    return model([node], {"x": list(shape)}, opset, **named)


def chain(opset: int, x: Shape, *nodes: tuple[str, list[str], dict[str, object]], **constants: numpy.ndarray) -> onnx.ModelProto:
    """Nodes of which each is named `v0`, `v1` … by its output."""
    made = [helper.make_node(op, inputs, [f"v{n}"], **words) for n, (op, inputs, words) in enumerate(nodes)]
    return model(made, {"x": x}, opset, **constants)


def recurrent(operator: str, gates: int, steps: int, **attributes: object) -> onnx.ModelProto:
    """A layer whose states are inputs of the model."""
    size, width = 21, 19
    states = ["h", "c"] if operator == "LSTM" else ["h"]
    outputs = ["y", *[f"{state}_out" for state in states]]
    node = helper.make_node(
        operator, ["x", "w", "r", "b", "", *states], outputs, hidden_size=size, **attributes
    )
    inputs: dict[str, Shape] = {"x": [steps, 1, width], **{state: [1, 1, size] for state in states}}
    weights = {"w": floats(1, gates * size, width), "r": floats(1, gates * size, size) / 4, "b": floats(1, 2 * gates * size)}
    return model([node], inputs, 17, **weights)


def alone(operator: str, gates: int) -> onnx.ModelProto:
    """A layer without states or bias, of whose outputs the last states are taken."""
    size, width = 8, 5
    node = helper.make_node(operator, ["x", "w", "r"], ["", "h"], hidden_size=size)
    return model([node], {"x": [3, 1, width]}, 14, w=floats(1, gates * size, width), r=floats(1, gates * size, size) / 4)


CASES: dict[str, onnx.ModelProto] = {
    "abs": one("Abs"),
    "add row": one("Add", floats(1, 37)),
    "add column": one("Add", floats(5, 1)),
    "add three": one("Add", floats(2, 3, 1), shape=(1, 7)),
    "cast": one("Cast", to=TensorProto.FLOAT),
    "clip": one("Clip", numpy.float32(-0.5), numpy.float32(0.7)),
    "clip below": one("Clip", numpy.float32(-0.5)),
    "clip above": one("Clip", None, numpy.float32(0.7)),
    "clip attributes": one("Clip", opset=9, min=-0.5, max=0.7),
    "concat": one("Concat", floats(1, 5), floats(1, 1), axis=1),
    "concat rows": one("Concat", floats(3, 37), axis=0),
    "concat inner": one("Concat", floats(2, 3, 4), shape=(2, 2, 4), axis=-2),
    "constants": chain(
        17, [1, 4],
        ("Constant", [], {"value_float": 2.5}), ("Mul", ["x", "v0"], {}),
        ("Constant", [], {"value_floats": [1.0, 2.0, 3.0, 4.0]}), ("Add", ["v1", "v2"], {}),
        ("Constant", [], {"value_ints": [2, 2]}), ("Reshape", ["v3", "v4"], {}),
        ("Constant", [], {"value_int": 1}), ("Gather", ["v5", "v6"], {"axis": 0}),
    ),
    "div": one("Div", floats(37)),
    "dropout": one("Dropout", numpy.float32(0.3)),
    "elu": one("Elu"),
    "elu alpha": one("Elu", alpha=0.3),
    "exp": one("Exp"),
    "expand": one("Expand", whole(3, 1), shape=(1, 5)),
    "flatten": one("Flatten", shape=(2, 3, 4)),
    "flatten all": one("Flatten", shape=(2, 3, 4), axis=0),
    "flatten none": one("Flatten", shape=(2, 3), axis=2),
    "gather": one("Gather", whole(3, -1, 0), axis=1),
    "gather inner": one("Gather", numpy.array([[2, 0], [1, 1]]), shape=(2, 3, 4), axis=1),
    "gemm": one("Gemm", floats(29, 37), floats(29), transB=1),
    "gemm plain": one("Gemm", floats(37, 29), floats(1, 29)),
    "gemm factors": one("Gemm", floats(37, 29), floats(29), alpha=0.7, beta=-1.3),
    "gemm no bias": one("Gemm", floats(37, 29)),
    "gemm one bias": one("Gemm", floats(37, 29), floats(1)),
    "gemm turned": one("Gemm", floats(5, 3), floats(4, 1), shape=(5, 4), transA=1),
    "gru": recurrent("GRU", 3, 1, linear_before_reset=1),
    "gru steps": recurrent("GRU", 3, 4),
    "gru alone": alone("GRU", 3),
    "identity": chain(17, [1, 5], ("Identity", ["x"], {}), ("Neg", ["v0"], {})),
    "layer normalization": one("LayerNormalization", floats(37), floats(37)),
    "layer normalization of two": one("LayerNormalization", floats(3, 4), shape=(2, 3, 4), axis=1, epsilon=0.1),
    "leaky relu": one("LeakyRelu", alpha=0.2),
    "lstm": recurrent("LSTM", 4, 1),
    "lstm steps": recurrent("LSTM", 4, 5),
    "lstm alone": alone("LSTM", 4),
    "matmul": one("MatMul", floats(37, 12)),
    "matmul rows": one("MatMul", floats(7, 12), shape=(2, 3, 7)),
    "matmul vector": one("MatMul", floats(7, 12), shape=(7,)),
    "max": one("Max", floats(37), numpy.float32(0.1)),
    "min": one("Min", floats(37)),
    "mish": chain(17, [1, 33], ("Softplus", ["x"], {}), ("Tanh", ["v0"], {}), ("Mul", ["x", "v1"], {})),
    "mul": one("Mul", floats(37)),
    "pow 2": one("Pow", numpy.float32(2)),
    "pow 3": one("Pow", whole(3)),
    "pow root": chain(17, [1, 9], ("Abs", ["x"], {}), ("Pow", ["v0", "half"], {}), half=numpy.float32(0.5)),
    "pow -1": one("Pow", numpy.float32(-1)),
    "reciprocal": one("Reciprocal"),
    "reduce sum": one("ReduceSum", whole(-1), keepdims=0),
    "reduce sum all": one("ReduceSum", shape=(3, 4)),
    "reduce mean": one("ReduceMean", shape=(2, 3, 40), axes=[0, 2]),
    "reduce max": one("ReduceMax", shape=(4, 5), axes=[0], keepdims=0),
    "reduce min": one("ReduceMin", shape=(4, 5), axes=[1]),
    "relu": one("Relu"),
    "reshape": one("Reshape", whole(0, 2, -1), shape=(1, 36)),
    "selu": one("Selu"),
    "shapes": chain(
        17, ["batch", 4],
        ("Shape", ["x"], {}), ("Gather", ["v0", "zero"], {}), ("Unsqueeze", ["v1", "axis"], {}),
        ("Concat", ["v2", "rest"], {"axis": 0}), ("Reshape", ["x", "v3"], {}),
        ("Shape", ["v4"], {"start": 1}), ("Mul", ["v5", "v5"], {}), ("Slice", ["v6", "axis", "end"], {}),
        ("ConstantOfShape", ["v7"], {}), ("Add", ["v8", "x"], {}),
        zero=numpy.array(0), axis=whole(0), rest=whole(2, 2), end=whole(1),
    ),
    "sigmoid": one("Sigmoid"),
    "slice": one("Slice", whole(3), whole(9), whole(1)),
    "slice back": one("Slice", whole(-1, 0), whole(-2**63, 2), whole(1, 0), whole(-2, 1), shape=(3, 8)),
    "slice attributes": one("Slice", opset=9, starts=[1, 2], ends=[3, 1000], shape=(4, 5)),
    "softplus": one("Softplus"),
    "split": one("Split", whole(7, 30), axis=1, outputs=2),
    "split attribute": one("Split", opset=11, split=[1, 3], axis=0, outputs=2, shape=(4, 5)),
    "split equally": one("Split", opset=11, axis=-1, outputs=3, shape=(1, 9)),
    "split unequally": one("Split", opset=18, axis=-1, outputs=3, num_outputs=3, shape=(1, 8)),
    "sqrt": chain(17, [1, 9], ("Abs", ["x"], {}), ("Sqrt", ["v0"], {})),
    "squeeze": one("Squeeze", whole(0), shape=(1, 3, 1)),
    "squeeze all": one("Squeeze", shape=(1, 3, 1), opset=11),
    "sub": one("Sub", floats(37)),
    "swish": chain(17, [1, 33], ("Sigmoid", ["x"], {}), ("Mul", ["x", "v0"], {})),
    "tanh": one("Tanh"),
    "transpose": one("Transpose", shape=(2, 3, 4), perm=[1, 2, 0]),
    "transpose all": one("Transpose", shape=(2, 3)),
    "unsqueeze": one("Unsqueeze", whole(0, -1), shape=(2, 3)),
    "unsqueeze attribute": one("Unsqueeze", shape=(2, 3), axes=[1], opset=11),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_onnxruntime_says_the_same(
    judged: Callable[[pathlib.Path], Judged], case: str, tmp_path: pathlib.Path
) -> None:
    """Also where functions end: at large and small numbers."""
    path = tmp_path / "model.onnx"
    onnx.save(CASES[case], path)
    both = judged(path)
    observations = [both.inputs(seed, 10.0 ** (seed % 4 - 2)) for seed in range(OBSERVATIONS)]
    expected = numpy.stack([both.expected(inputs) for inputs in observations])
    numpy.testing.assert_allclose(both.found(observations), expected, rtol=2e-5, atol=2e-6)


def test_a_carried_state_stays_with_onnxruntime(
    judged: Callable[[pathlib.Path], Judged], tmp_path: pathlib.Path
) -> None:
    """1000 steps, each with the states of the step before, as a policy is used."""
    for operator, gates in [("LSTM", 4), ("GRU", 3)]:
        path = tmp_path / f"{operator}.onnx"
        onnx.save(recurrent(operator, gates, 1), path)
        both = judged(path)
        inputs, steps, expected = both.inputs(1, 1.0), [], []
        for seed in range(1000):
            inputs = {**inputs, "x": both.inputs(seed, 1.0)["x"]}
            steps.append(inputs)
            expected.append(both.expected(inputs))
            parts = expected[-1].reshape(-1, 1, 1, 21)
            inputs = {**inputs, "h": parts[1], **({"c": parts[2]} if operator == "LSTM" else {})}
        assert numpy.abs(both.found(steps) - numpy.stack(expected)).max() < 1e-5


def test_every_operator_has_a_case(example: Callable[[str], pathlib.Path], tmp_path: pathlib.Path) -> None:
    """The list is taken from the message about an operator that is not in it."""
    path = tmp_path / "model.onnx"
    onnx.save(one("Sin"), path)
    message = subprocess.run([example("evaluate"), path], input=b"", capture_output=True, check=False).stderr.decode()
    listed = re.search(r"known are ([\w, ]+)", message)
    assert listed, message
    tried = {node.op_type for case in CASES.values() for node in case.graph.node}
    assert set(listed[1].split(", ")) == tried
