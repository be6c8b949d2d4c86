"""Foxglove's client, its decoder and ROS 2's take what the live view sends; the bytes are those of an export."""

import base64
import io
import json
import pathlib
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from mcap.reader import make_reader
from mcap.writer import CompressionType, Writer
from mcap_ros2.decoder import DecoderFactory


Line = dict[str, Any]
Robot = Callable[..., tuple[str, "subprocess.Popen[bytes]"]]


def lines(file: pathlib.Path) -> list[Line]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def of(kind: str, all_lines: list[Line]) -> list[Line]:
    return [line for line in all_lines if line["kind"] == kind]


def exported(khz: str, log: pathlib.Path) -> dict[tuple[str, int], bytes]:
    """The messages of the log's export, by topic and time."""
    mcap = log.with_suffix(".mcap")
    subprocess.run([khz, "log", "export", log, "-o", mcap], check=True)
    with mcap.open("rb") as file:
        messages = make_reader(file).iter_messages()
        return {(channel.topic, message.log_time): message.data for _, channel, message in messages}


def decoded(channels: list[Line], messages: list[Line]) -> Iterator[tuple[str, Any]]:
    """The messages as ROS 2's own decoder for Python reads them."""
    file = io.BytesIO()
    writer = Writer(file, compression=CompressionType.NONE)
    writer.start("ros2")
    ids = {}
    for channel in channels:
        schema = writer.register_schema(channel["schemaName"], "ros2msg", channel["schema"].encode())
        ids[channel["topic"]] = writer.register_channel(channel["topic"], "cdr", schema)
    for message in messages:
        data, time = base64.b64decode(message["bytes"]), int(message["time"])
        writer.add_message(ids[message["topic"]], time, data, time)
    writer.finish()
    file.seek(0)
    reader = make_reader(file, decoder_factories=[DecoderFactory()])
    for _, channel, _, value in reader.iter_decoded_messages():
        yield channel.topic, value


@pytest.mark.parametrize("protocol", ["foxglove.sdk.v1", "foxglove.websocket.v1"])
def test_foxglove_sees_and_tunes_a_running_robot(
    khz: str,
    client: Callable[..., None],
    robot: Robot,
    tmp_path: pathlib.Path,
    protocol: str,
) -> None:
    link, _ = robot()
    client(link.replace("http", "ws"), protocol, 500, tmp_path / "received.json")
    received = lines(tmp_path / "received.json")
    assert of("error", received) == []

    channels, messages = of("channel", received), of("message", received)
    topics = {channel["topic"] for channel in channels}
    standard = {"/joint_states", "/imu/data", "/tf", "/diagnostics", "/events"}
    assert topics >= standard | {"/robot", "/tick", "/servo", "/command", "/imu", "/event", "/parameters", "/parameter"}

    # Refused with the reason, for this client alone; nothing else interrupts anybody.
    statuses = of("status", received)
    assert [(status["level"], "outside" in status["message"]) for status in statuses] == [(1, True)], statuses
    values = {line["id"]: line["parameters"] for line in of("parameters", received) if "id" in line}
    in_force = [{"name": "kp_scale", "type": "float64", "value": 0.5}]
    assert values == {"set": in_force, "refused": in_force}
    # JSON has one 0.5 only: what was subscribed to came, too.
    assert any("id" not in line and line["parameters"] == in_force for line in of("parameters", received))
    responses = of("response", received)
    assert [response["encoding"] for response in responses] == ["json", "cdr"]
    assert responses[0]["value"]["success"], responses

    joints = 0
    servo = {message["time"]: message["value"] for message in messages if message["topic"] == "/servo"}
    for message in messages:
        if message["topic"] == "/joint_states" and message["time"] in servo:
            joints += 1
            value = message["value"]
            expected = servo[message["time"]]
            assert value["name"] == list(expected)
            assert value["position"] == [joint["position"] for joint in expected.values()]
    assert joints > 100
    seen = {topic for topic, _ in decoded(channels, messages)}
    assert seen >= standard | {"/tick", "/servo"}


def test_what_is_sent_is_what_is_exported(
    khz: str, client: Callable[..., None], robot: Robot, tmp_path: pathlib.Path
) -> None:
    link, run = robot()
    client(link.replace("http", "ws"), "foxglove.sdk.v1", 500, tmp_path / "received.json")
    # The client has stopped the robot.
    run.communicate(timeout=60)
    assert run.returncode == 0
    log = exported(khz, tmp_path / "run.tlog")
    compared = 0
    for message in of("message", lines(tmp_path / "received.json")):
        bytes_in_log = log.get((message["topic"], int(message["time"])))
        if bytes_in_log is not None and message["topic"] not in ("/parameter", "/event"):
            compared += 1
            assert base64.b64decode(message["bytes"]) == bytes_in_log, message["topic"]
    assert compared > 1000
