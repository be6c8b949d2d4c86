"""The vendor's own package and tools over our links, found by its plug-in mechanism."""

import asyncio
import math
import os
import pathlib
import subprocess
import sys

import moteus
import pytest

import kilohertz
from kilohertz.moteus import buses



def tool(*words: str) -> str:
    command = [sys.executable, "-m", "moteus.moteus_tool", "--kilohertz", "quadruped", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_moteus_tool_reports_on_an_emulated_servo() -> None:
    assert "kilohertz" in tool("--help")
    assert "01006c6f-6865-7274-7a2d-656d75000000" in tool("--target", "1", "--info")


def test_moteus_tool_reads_the_configuration() -> None:
    assert "servo.pid_position.kp" in tool("--target", "5", "--dump-config")


def test_a_controller_moves_a_servo() -> None:
    async def move() -> float:
        transport = moteus.Transport(buses(kilohertz.Robot.emulated(servos=2)))
        controller = moteus.Controller(id=2, transport=transport)
        await controller.set_stop()
        for _ in range(500):
            reply = await controller.set_position(position=0.1, query=True, watchdog_timeout=math.nan)
            if abs(reply.values[moteus.Register.POSITION] - 0.1) < 0.01:
                break
            await asyncio.sleep(0.005)
        await controller.set_stop()
        transport.close()
        return float(reply.values[moteus.Register.POSITION])

    assert asyncio.run(move()) == pytest.approx(0.1, abs=0.01)


def test_one_transport_has_all_buses() -> None:
    async def ask() -> list[int]:
        transport = moteus.Transport(buses(kilohertz.Robot.quadruped()))
        servos = {number: moteus.Controller(id=number, transport=transport) for number in (1, 2, 3)}
        for controller in servos.values():
            controller_reply = await asyncio.wait_for(controller.query(), 60.0)
            assert controller_reply.values[moteus.Register.FAULT] == 0
        found = await transport.discover()
        transport.close()
        return [each.address.can_id or 0 for each in found]

    assert len(asyncio.run(ask())) == 12


def test_a_script_that_names_no_transport_finds_it(tmp_path: pathlib.Path) -> None:
    script = tmp_path / "mine.py"
    script.write_text(
        "import asyncio, moteus\n"
        "async def main():\n"
        "    reply = await moteus.Controller(id=1).query()\n"
        "    print('mode', reply.values[moteus.Register.MODE])\n"
        "asyncio.run(main())\n"
    )
    environment = {**os.environ, "KILOHERTZ_ROBOT": "quadruped"}
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=300, env=environment)
    assert "mode 0" in done.stdout, done.stderr


def test_the_fixtures_need_no_import(emulated_robot, emulated_connection) -> None:
    assert emulated_robot(servos=3).servos == ["servo_1", "servo_2", "servo_3"]
    assert emulated_connection(servos=2).servo("servo_2").query().fault == 0
