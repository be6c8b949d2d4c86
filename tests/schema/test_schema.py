"""The JSON Schema of robot files, as an editor's validator reads it."""

import json
import pathlib
import tomllib
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
MALFORMED = ROOT / "crates/file/tests/malformed"

Validator = jsonschema.Draft7Validator

PAN: dict[str, Any] = {
    "bus": {"main": {"link": "emulated"}},
    "servo": [{"name": "pan", "bus": "main", "id": 1}],
}


@pytest.fixture
def validator(run_khz: Callable[..., Any]) -> Validator:
    schema = json.loads(run_khz("check", "--schema").stdout)
    Validator.check_schema(schema)
    return Validator(schema)


def read(file: pathlib.Path) -> dict[str, Any]:
    return tomllib.loads(file.read_text(encoding="utf-8"))


def test_every_shipped_robot_is_valid(validator: Validator) -> None:
    files = sorted((ROOT / "robots").glob("*.toml"))
    assert len(files) >= 3
    for file in files:
        errors = [f"{file.name}: {error.message}" for error in validator.iter_errors(read(file))]
        assert errors == []


def test_what_a_robot_file_means_is_valid(run_khz: Callable[..., Any], validator: Validator) -> None:
    for file in sorted((ROOT / "robots").glob("*.toml")):
        values = json.loads(run_khz("check", "--json", str(file)).stdout)["values"]
        assert [error.message for error in validator.iter_errors(values)] == [], file.name


def test_the_smallest_robot_is_valid(validator: Validator) -> None:
    validator.validate(PAN)


@pytest.mark.parametrize(
    "wrong",
    [
        {"lop": {}},
        {"loop": {"rate_hz": "fast"}},
        {"loop": {"rate_hz": 0}},
        {"loop": {"priority": 99}},
        {"loop": {"wake": "hybird"}},
        {"loop": {"lock_memory": 1}},
        {"robot": {"name": ""}},
        {"bus": {"main": {}}},
        {"bus": {"main": {"link": "socketcan"}}},
        {"bus": {"main": {"link": "emulated", "interface": "can0"}}},
        {"bus": {"main": {"link": "emulated", "faults": {"loss": 1.5}}}},
        {"bus": {"main": {"link": "emulated", "faults": {"events": [{"for_s": 1}]}}}},
        {"servo": [{"name": "pan", "bus": "main"}]},
        {"servo": [{"name": "pan", "bus": "main", "id": 254}]},
        {"servo": [{"name": "pan", "bus": "main", "id": 1, "limits": {"position": [1.0]}}]},
        {"servo_defaults": {"id": 1}},
        {"controller": {"name": "hold", "from_hz": 1}},
        {"supervisor": {"reactions": {"operator": "warn"}}},
    ],
    ids=str,
)
def test_a_planted_mistake_is_found(validator: Validator, wrong: dict[str, Any]) -> None:
    assert not validator.is_valid(PAN | wrong)


def test_what_an_editor_can_see_in_malformed_files_is_found(validator: Validator) -> None:
    seen = {file.stem for file in MALFORMED.glob("*.toml") if is_refused(validator, file)}
    single_keys = {
        "bad_command_derated",
        "bool_as_text",
        "controller_of_another",
        "fault_without_time",
        "fraction_for_whole",
        "hat_channel_6",
        "id_missing",
        "imu_link_missing",
        "interface_missing",
        "key_of_another_link",
        "limits_one_value",
        "limits_unknown_key",
        "link_missing",
        "loop_is_no_table",
        "loss_as_percent",
        "name_shared",
        "no_servos",
        "priority_100",
        "rate_too_high",
        "servo_single_brackets",
        "two_imus",
        "unknown_controller",
        "unknown_key",
        "unknown_table",
        "unknown_wake",
        "word_as_number",
    }
    assert single_keys - seen == set()


def is_refused(validator: Validator, file: pathlib.Path) -> bool:
    try:
        return not validator.is_valid(read(file))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError):
        return True


def test_every_key_has_its_meaning(validator: Validator) -> None:
    loop = validator.schema["properties"]["loop"]["properties"]
    assert loop["rate_hz"]["description"] == "Ticks per second. (Hz)"
    assert loop["rate_hz"]["default"] == 1000.0
    assert loop["wake"]["default"] == "hybrid"
