"""The unmodified `moteus_tool` against emulated servos."""

import asyncio
import json
import pathlib

import moteus
from conftest import Served


def uuid(bus: int, id: int) -> str:
    """The UUID the emulator gives a servo, as the tool writes it."""
    text = (bytes([id, bus]) + b"lohertz-emu\0\0\0").hex()
    return "-".join([text[:8], text[8:12], text[12:16], text[16:20], text[20:]])


def infos(printed: str) -> list[dict[str, object]]:
    """The JSON objects that --info prints, one per servo."""
    decoder, found, at = json.JSONDecoder(), [], printed.find("{")
    while at >= 0:
        info, end = decoder.raw_decode(printed, at)
        found.append(info)
        at = printed.find("{", end)
    return found


def test_discovery_finds_every_servo(two: Served) -> None:
    printed = two.tool("--info")
    assert [info["uuid"] for info in infos(printed)] == [uuid(0, 1), uuid(0, 2)]


def test_info(one: Served) -> None:
    (info,) = infos(one.tool("-t", "1", "--info"))
    assert bytes.fromhex(str(info["git_hash"])).startswith(b"kilohertz emulator")
    assert len(str(info["serial_number"])) == 16
    assert info["model"] == "0"


def test_dump_config(one: Served) -> None:
    lines = one.tool("-t", "1", "--dump-config").splitlines()
    config = dict(line.split(" ", 1) for line in lines if " " in line)
    assert len(config) > 100
    assert config["id.id"] == "1"
    assert config["servo.default_timeout_s"] == "0.1"
    assert config["servo.timeout_mode"] == "12"
    assert config["servo.pid_position.sign"] == "-1"
    assert config["servopos.position_min"] == "nan"


def test_read_servo_stats(one: Served) -> None:
    stats = json.loads(one.tool("-t", "1", "--read", "servo_stats"))
    assert stats["mode"] == 0
    assert stats["bus_V"] == 24.0
    assert stats["control_velocity"] is None
    assert stats["trajectory_done"] is False
    assert len(stats) == 54


def test_every_channel_can_be_read(one: Served) -> None:
    for channel in ["system_info", "firmware", "motor_position", "servo_cmd", "servo_control", "git"]:
        assert json.loads(one.tool("-t", "1", "--read", channel))


def test_stop(two: Served) -> None:
    two.tool("-s")


def test_stop_beside_the_stream_of_an_earlier_client_works_with_tel_stop(one: Served) -> None:
    async def leave_a_stream() -> None:
        console = moteus.Stream(moteus.Controller(id=1, transport=one.transport()))
        await console.command(b"tel rate servo_stats 20")

    asyncio.run(leave_a_stream())
    # As in docs/emulator.md: without it the tool may wait for ever, or not, as the lines happen to come.
    one.tool("-t", "1", "--tel-stop", "-s")


def test_written_configuration_is_there(one: Served, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "new.cfg"
    file.write_text("conf set servo.max_current_A 12.5\nconf set servo.pid_position.kp 6\n")
    one.tool("-t", "1", "--write-config", str(file))
    printed = one.tool("-t", "1", "--dump-config")
    assert "servo.max_current_A 12.5" in printed
    assert "servo.pid_position.kp 6" in printed


def test_a_dump_can_be_restored(one: Served, tmp_path: pathlib.Path) -> None:
    dump = one.tool("-t", "1", "--dump-config")
    file = tmp_path / "backup.cfg"
    file.write_text(dump.replace("servo.default_timeout_s 0.1", "servo.default_timeout_s 0.25"))
    one.tool("-t", "1", "--restore-config", str(file))
    restored = one.tool("-t", "1", "--dump-config")
    assert restored == dump.replace("servo.default_timeout_s 0.1", "servo.default_timeout_s 0.25")


def test_uuid_target(two: Served) -> None:
    (info,) = infos(two.tool("-t", uuid(0, 2), "--info"))
    assert info["uuid"] == uuid(0, 2)
    (info,) = infos(two.tool("-t", uuid(0, 1)[:8], "--info"))
    assert info["uuid"] == uuid(0, 1)


def test_two_servos_with_one_id_are_distinguished_by_uuid(two: Served, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "same.cfg"
    file.write_text("conf set id.id 1\n")
    # Not by its id, which the tool would go on using.
    two.tool("-t", uuid(0, 2), "--write-config", str(file))
    printed = two.tool("--info")
    assert sorted(str(info["uuid"]) for info in infos(printed)) == [uuid(0, 1), uuid(0, 2)]
    two.tool("-s")


def test_a_servo_is_found_on_the_right_one_of_two_buses(serve) -> None:  # type: ignore[no-untyped-def]
    served = serve({"left": [1], "right": [2]})
    (info,) = infos(served.tool("-t", "2", "--info"))
    assert info["uuid"] == uuid(1, 2)
    found = infos(served.tool("--info"))
    assert [info["uuid"] for info in found] == [uuid(0, 1), uuid(1, 2)]
