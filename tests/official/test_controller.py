"""The unmodified Python `moteus.Controller` against emulated servos."""

import asyncio
import math

import moteus
import pytest
from conftest import Served

R = moteus.Register


def test_moves_a_servo_to_a_position(one: Served) -> None:
    async def main() -> None:
        servo = moteus.Controller(id=1, transport=one.transport())
        await servo.set_stop()
        result = await servo.set_position_wait_complete(
            position=0.25, velocity_limit=1.0, accel_limit=4.0, period_s=0.01, watchdog_timeout=math.nan
        )
        assert result.values[R.TRAJECTORY_COMPLETE] == 1
        assert result.values[R.MODE] == moteus.Mode.POSITION
        await asyncio.sleep(0.05)
        result = await servo.set_position(position=math.nan, watchdog_timeout=math.nan, query=True)
        assert result.values[R.POSITION] == pytest.approx(0.25, abs=0.02)
        assert result.values[R.FAULT] == 0
        await servo.set_stop()

    asyncio.run(main())


def test_a_silent_host_is_noticed(one: Served) -> None:
    async def main() -> None:
        servo = moteus.Controller(id=1, transport=one.transport())
        for _ in range(10):
            await servo.set_position(position=math.nan, watchdog_timeout=math.nan, query=True)
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)
        assert (await servo.query()).values[R.MODE] == moteus.Mode.POSITION
        # The 0.1 s it has from the factory.
        await servo.set_position(position=math.nan, query=True)
        await asyncio.sleep(0.2)
        assert (await servo.query()).values[R.MODE] == moteus.Mode.TIMEOUT
        await servo.set_position(position=math.nan, query=True)
        assert (await servo.query()).values[R.MODE] == moteus.Mode.TIMEOUT
        await servo.set_stop()
        assert (await servo.query()).values[R.MODE] == moteus.Mode.STOPPED

    asyncio.run(main())


def test_uuid_address(two: Served) -> None:
    async def main() -> None:
        transport = two.transport()
        address = moteus.DeviceAddress(uuid=bytes([2, 0]) + b"lo")
        servo = moteus.Controller(id=address, transport=transport)
        await servo.set_brake()
        await asyncio.sleep(0.05)
        result = await servo.set_brake(query=True)
        assert result.values[R.MODE] == moteus.Mode.BRAKE
        other = moteus.Controller(id=1, transport=transport)
        assert (await other.query()).values[R.MODE] == moteus.Mode.STOPPED

    asyncio.run(main())


def test_empty_replies_do_no_harm(one: Served) -> None:
    async def main() -> None:
        servo = moteus.Controller(id=1, transport=one.transport())
        await servo.set_output_exact(position=1.5)
        assert (await servo.query()).values[R.POSITION] == 1.5
        await servo.set_require_reindex(query=True)
        assert (await servo.query()).values[R.POSITION] == -0.5

    asyncio.run(main())


def test_a_burst_of_many_servos(serve) -> None:  # type: ignore[no-untyped-def]
    ids = list(range(1, 13))
    served = serve({"main": ids})

    async def main() -> None:
        transport = served.transport()
        servos = [moteus.Controller(id=id, transport=transport) for id in ids]
        for _ in range(20):
            commands = [servo.make_position(position=math.nan, query=True) for servo in servos]
            results = await transport.cycle(commands)
            assert sorted(result.id for result in results) == ids

    asyncio.run(main())


def test_integer_encodings(one: Served) -> None:
    async def main() -> None:
        resolution = moteus.QueryResolution()
        resolution.position = resolution.velocity = resolution.torque = moteus.INT16
        resolution.power = moteus.F32
        resolution.motor_temperature = moteus.INT8
        resolution.home_state = moteus.INT8
        servo = moteus.Controller(id=1, transport=one.transport(), query_resolution=resolution)
        values = (await servo.query()).values
        assert values[R.POSITION] == 0.0
        assert values[R.HOME_STATE] == 1
        assert values[R.VOLTAGE] == 24.0
        await servo.set_output_exact(position=3.0)
        assert (await servo.query()).values[R.POSITION] == pytest.approx(3.0)

    asyncio.run(main())


def test_diagnostic_stream(one: Served) -> None:
    async def main() -> None:
        servo = moteus.Controller(id=1, transport=one.transport())
        stream = moteus.Stream(servo)
        await stream.flush_read()
        assert await stream.command(b"conf get id.id", allow_any_response=True) == b"1"
        assert b"servo_stats" in await stream.command(b"tel list")
        # Without the watchdog of 0.1 s: how late this test looks must not matter.
        await stream.command(b"d pos nan 0 1 tnan")
        await asyncio.sleep(0.05)
        assert (await servo.query()).values[R.MODE] == moteus.Mode.POSITION
        with pytest.raises(moteus.CommandError):
            await stream.command(b"conf set no.such 1")
        await stream.command(b"d stop")

    asyncio.run(main())
