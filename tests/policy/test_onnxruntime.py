"""Models by libonnxruntime, opened by Kilohertz, against the same library in Python."""

import os
import pathlib
import subprocess
from collections.abc import Callable

import numpy
import onnx
import onnxruntime
import pytest
from conftest import Judged
from onnx import TensorProto, helper, numpy_helper
from test_operators import floats, model

ROBOTS = pathlib.Path(__file__).parents[2] / "robots"
LIBRARY = pathlib.Path(onnxruntime.__file__).parent
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(autouse=True)
def our_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library of the tests' environment."""
    monkeypatch.setenv("KHZ_ONNXRUNTIME", str(LIBRARY))


def unknown() -> onnx.ModelProto:
    """With operators that Kilohertz does not know, and a second output."""
    nodes = [
        helper.make_node("Gemm", ["obs", "w"], ["h"], transB=1),
        helper.make_node("Softmax", ["h"], ["soft"]),
        helper.make_node("Split", ["soft"], ["actions", "rest"], axis=1, num_outputs=2),
    ]
    return model(nodes, {"obs": ["batch", 20]}, 18, w=floats(6, 20))


def saved(made: onnx.ModelProto, path: pathlib.Path) -> pathlib.Path:
    onnx.save(made, path)
    return path


@pytest.mark.parametrize(("name", "engine"), [("softmax", "auto"), ("softmax", "onnxruntime"), ("arm", "onnxruntime")])
def test_it_says_what_it_says_in_python(
    judged: Callable[[pathlib.Path], Judged], tmp_path: pathlib.Path, name: str, engine: str
) -> None:
    """To the last bit: it is the same library with the same settings on the same computer."""
    path = ROBOTS / "models/arm_policy.onnx" if name == "arm" else saved(unknown(), tmp_path / "model.onnx")
    both = judged(path)
    observations = [both.inputs(seed, 1.0) for seed in range(50)]
    expected = numpy.stack([both.expected(inputs) for inputs in observations])
    assert (both.found(observations, engine) == expected).all()


@pytest.mark.parametrize(
    ("library", "why"),
    [
        ("none", "KHZ_ONNXRUNTIME is none, where there is no libonnxruntime.so"),
        (__file__, "is no onnxruntime that can be used, which 1.17 and newer are"),
        ("cut", "the file is cut off"),
        ("libc", "OrtGetApiBase"),
    ],
)
def test_without_it_the_node_and_the_cure_are_named(
    khz: str, tmp_path: pathlib.Path, library: str, why: str
) -> None:
    path = saved(unknown(), tmp_path / "model.onnx")
    if library == "cut":
        whole = next(LIBRARY.rglob("libonnxruntime.so*")).read_bytes()
        (tmp_path / "libonnxruntime.so").write_bytes(whole[:-4096])
        library = str(tmp_path / "libonnxruntime.so")
    if library == "libc":
        maps = pathlib.Path("/proc/self/maps").read_text().split()
        library = next(word for word in maps if word.endswith("/libc.so.6"))
    environment = os.environ | {"KHZ_ONNXRUNTIME": library}
    done = subprocess.run([khz, "policy", "show", path], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "node 1 (`Softmax`, named ``): this operator is not evaluated here" in done.stderr and why in done.stderr, done.stderr


@pytest.mark.parametrize("opset", [8, 22])
def test_a_version_of_operators_that_is_not_known_is_evaluated_by_it_or_refused(
    khz: str, judged: Callable[[pathlib.Path], Judged], tmp_path: pathlib.Path, opset: int
) -> None:
    """With the version, the first node and the cure; `khz policy show` names what evaluates it."""
    path = saved(model([helper.make_node("Elu", ["x"], ["y"])], {"x": [1, 4]}, opset), tmp_path / "model.onnx")
    both = judged(path)
    inputs = both.inputs(1, 1.0)
    assert (both.found([inputs], "auto")[0] == both.expected(inputs)).all()
    why = f"node 0 (`Elu`, named ``) is of opset {opset}"
    done = subprocess.run([khz, "policy", "show", path], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and f"evaluated by onnxruntime {onnxruntime.__version__}; {why}" in done.stdout, done.stdout
    environment = os.environ | {"KHZ_ONNXRUNTIME": "none"}
    done = subprocess.run([khz, "policy", "show", path], env=environment, capture_output=True, text=True, check=False)
    cure = (
        "9 to 21 are known: export the model with `opset_version=17`; whether onnxruntime evaluates it is not known: KHZ_ONNXRUNTIME is none"
    )
    assert done.returncode == 2 and why in done.stderr and cure in done.stderr, done.stderr


def test_the_section_of_what_it_evaluates_is_written(khz: str, tmp_path: pathlib.Path) -> None:
    """From the metadata, which only files that Kilohertz evaluates were asked for."""
    made = unknown()
    helper.set_model_props(made, {"joint_names": "hip,knee,ankle", "default_joint_pos": "0.1,0.2,0.3"})
    check = subprocess.run(
        [khz, "policy", "toml", saved(made, tmp_path / "model.onnx")], capture_output=True, text=True, check=False
    )
    assert check.returncode == 1 and "see the lines with `# not known`" in check.stderr, check.stderr
    assert 'joints = ["hip", "knee", "ankle"]\ndefault = [0.1, 0.2, 0.3]' in check.stdout, check.stdout


def test_what_it_refuses_is_reported(khz: str, tmp_path: pathlib.Path) -> None:
    """Its words; and what would be in another file, or is no float32, is not even asked of it."""
    nonsense = helper.make_node("Nonsense", ["x"], ["y"])
    elsewhere = unknown()
    onnx.external_data_helper.convert_model_to_external_data(elsewhere, location="weights", size_threshold=0)
    double = unknown()
    double.graph.input[0].type.tensor_type.elem_type = TensorProto.DOUBLE
    for number, (made, why) in enumerate(
        [(model([nonsense], {"x": [1, 2]}, 17), "onnxruntime says: "), (elsewhere, "file"), (double, "float32")]
    ):
        path = saved(made, tmp_path / f"{number}.onnx")
        done = subprocess.run([khz, "policy", "show", path], capture_output=True, text=True, check=False)
        assert done.returncode == 2 and why in done.stderr, done.stderr


def test_onnxruntime_is_no_cure_for_what_it_does_not_evaluate(khz: str, tmp_path: pathlib.Path) -> None:
    """An operator of nobody's, and shapes that do not fit: it is not even looked for."""
    own = helper.make_node("Own", ["x"], ["y"], domain="mine")
    unfit = helper.make_node("Add", ["x", "w"], ["y"])
    environment = os.environ | {"KHZ_ONNXRUNTIME": "none"}
    for number, (made, why) in enumerate(
        [
            (model([own], {"x": [1, 4]}, 17), "export the model with ONNX's operators alone"),
            (model([unfit], {"x": [1, 4]}, 17, w=floats(3, 2)), "do not fit each other"),
        ]
    ):
        path = saved(made, tmp_path / f"{number}.onnx")
        done = subprocess.run([khz, "policy", "show", path], env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 2 and why in done.stderr and "KHZ_ONNXRUNTIME" not in done.stderr, done.stderr


def endless() -> list[onnx.NodeProto]:
    """A loop that only its condition could end, which is always true."""
    inside = [
        helper.make_tensor_value_info("number", TensorProto.INT64, []),
        helper.make_tensor_value_info("goes_on", TensorProto.BOOL, []),
        helper.make_tensor_value_info("before", TensorProto.FLOAT, [1, 3]),
    ]
    outside = [
        helper.make_tensor_value_info("still", TensorProto.BOOL, []),
        helper.make_tensor_value_info("after", TensorProto.FLOAT, [1, 3]),
    ]
    same = [helper.make_node("Identity", ["goes_on"], ["still"]), helper.make_node("Identity", ["before"], ["after"])]
    body = helper.make_graph(same, "body", inside, outside)
    loop = helper.make_node("Loop", ["", "true", "h"], ["never"], body=body)
    return [loop, helper.make_node("Reshape", ["never", "shape"], ["actions"])]


def large() -> list[onnx.NodeProto]:
    """A tensor of 1 GB, from an input, so that it is not computed before the first evaluation."""
    return [
        helper.make_node("ReduceMax", ["h"], ["most"], keepdims=1),
        helper.make_node("Expand", ["most", "many"], ["wide"]),
        helper.make_node("ReduceSum", ["wide"], ["sum"], keepdims=0),
        helper.make_node("Sin", ["sum"], ["sine"]),
        helper.make_node("Add", ["h", "sine"], ["actions"]),
    ]


@pytest.mark.parametrize(
    ("nodes", "why"),
    [
        (endless(), "took longer than 5 s and was ended: export it without loops"),
        (large(), "its tensors need more than the 512 MiB that onnxruntime gets here: export it without such large ones"),
    ],
)
def test_what_a_model_may_take_is_bounded(run_khz: Run, tmp_path: pathlib.Path, nodes: list[onnx.NodeProto], why: str) -> None:
    """An endless loop kept `khz check` from ever ending, and a tensor got whatever it asked for."""
    layer = helper.make_node("Gemm", ["obs", "w"], ["h"], transB=1)
    constants = {
        "w": floats(3, 20),
        "true": numpy.array(True),
        "shape": numpy.array([1, 3], numpy.int64),
        "many": numpy.array([1, 268_435_456], numpy.int64),
    }
    onnx.save(model([layer, *nodes], {"obs": [1, 20]}, 17, **constants), tmp_path / "greedy.onnx")
    text = (ROBOTS / "arm_policy.toml").read_text().replace("models/arm_policy.onnx", "greedy.onnx")
    (tmp_path / "arm.toml").write_text("\n".join(line for line in text.splitlines() if not line.startswith("sha256")))
    done = run_khz("check", "arm.toml")
    said = done.stdout + done.stderr
    assert done.returncode == 2 and why in said and "greedy.onnx`: tried with observation 0 of " in said, said


def test_a_robot_runs_by_it_and_its_log_says_so(run_khz: Run, tmp_path: pathlib.Path) -> None:
    """The same computer and library decide the same again."""
    weights = numpy_helper.to_array(onnx.load(ROBOTS / "models/arm_policy.onnx").graph.initializer[0])
    nodes = [
        helper.make_node("Gemm", ["obs", "w"], ["h"], transB=1),
        helper.make_node("Sin", ["h"], ["actions"]),
    ]
    onnx.save(model(nodes, {"obs": [1, 20]}, 17, w=weights[:3].copy()), tmp_path / "waves.onnx")
    text = (ROBOTS / "arm_policy.toml").read_text().replace("models/arm_policy.onnx", "waves.onnx")
    lines = [line for line in text.splitlines() if not line.startswith("sha256")]
    (tmp_path / "arm.toml").write_text("\n".join(lines))
    ran = run_khz("run", "arm.toml", "--virtual", "--duration", "3s", "--log", "arm.tlog", "--no-report")
    assert ran.returncode == 0, ran.stderr
    again = run_khz("replay", "arm.tlog", "--robot", "arm.toml")
    assert again.returncode == 0 and "decisions made again, equal to the last bit" in again.stdout, again.stdout + again.stderr
    checked = run_khz("check", "arm.toml").stdout
    assert f"the policy is evaluated by onnxruntime {onnxruntime.__version__}" in checked, checked
    assert "node 1 (`Sin`, named ``): this operator is not evaluated here" in checked, checked
    assert f"these and those of the log are by onnxruntime {onnxruntime.__version__} on " in again.stdout, again.stdout
    policy = run_khz("log", "cat", "arm.tlog", "-r", "policy")
    assert f"onnxruntime {onnxruntime.__version__}" in policy.stdout, policy.stdout + policy.stderr


def test_a_model_that_draws_random_numbers_is_refused(run_khz: Run, tmp_path: pathlib.Path) -> None:
    """Its replay would decide something else."""
    weights = numpy_helper.to_array(onnx.load(ROBOTS / "models/arm_policy.onnx").graph.initializer[0])
    nodes = [
        helper.make_node("Gemm", ["obs", "w"], ["h"], transB=1),
        helper.make_node("RandomNormalLike", ["h"], ["noise"], scale=0.01),
        helper.make_node("Add", ["h", "noise"], ["actions"]),
    ]
    onnx.save(model(nodes, {"obs": [1, 20]}, 17, w=weights[:3].copy()), tmp_path / "noisy.onnx")
    text = (ROBOTS / "arm_policy.toml").read_text().replace("models/arm_policy.onnx", "noisy.onnx")
    (tmp_path / "arm.toml").write_text("\n".join(line for line in text.splitlines() if not line.startswith("sha256")))
    done = run_khz("check", "arm.toml")
    assert done.returncode != 0 and "export it without what draws random numbers" in done.stdout + done.stderr, done.stdout + done.stderr


def test_a_replay_by_another_engine_is_as_near_as_it_says(run_khz: Run, tmp_path: pathlib.Path) -> None:
    """The shipped arm by Kilohertz, replayed by onnxruntime; nothing nearer than 1e-4 is claimed."""
    text = (ROBOTS / "arm_policy.toml").read_text().replace("models/arm_policy.onnx", str(ROBOTS / "models/arm_policy.onnx"))
    (tmp_path / "own.toml").write_text(text)
    (tmp_path / "library.toml").write_text(text.replace("[controller]", '[controller]\nengine = "onnxruntime"', 1))
    ran = run_khz("run", "own.toml", "--virtual", "--duration", "3s", "--log", "arm.tlog", "--no-report")
    assert ran.returncode == 0, ran.stderr
    again = run_khz("replay", "arm.tlog", "--robot", "library.toml")
    text = again.stdout
    assert again.returncode == 0 and "decisions made again, within 1e-4 of the largest number of each" in text, text + again.stderr
    assert f"these are by onnxruntime {onnxruntime.__version__} on " in text and ", those of the log by Kilohertz " in text, text
    assert "same: every command is within 1e-4 of the recorded one" in text, text
