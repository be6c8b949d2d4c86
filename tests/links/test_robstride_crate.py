"""robstride, K-Scale's crate of crates.io, unmodified, drives an emulated RobStride servo over SocketCAN.

It is compiled for that, with 150 crates beside it, so this runs on demand (`KHZ_SLOW=1`): `cargo xtask nightly robstride`.
"""

import json
import os
import pathlib
import subprocess

import pytest
from emulated import served
from socketcan import arm, interface

pytestmark = [
    pytest.mark.skipif("KHZ_SLOW" not in os.environ, reason="compiles 150 crates of others: set KHZ_SLOW=1"),
    pytest.mark.timeout(1800),
]

MANIFEST = """
[package]
name = "judge"
edition = "2021"

[dependencies]
robstride = "=0.3.6"
tokio = { version = "1", features = ["full"] }
eyre = "0.6"

[workspace]
"""

# Its supervisor commands nothing before it has five states of the servo, for which it asks only while the servo is off. Enabled at once, it
# waits for them for ever.
PROGRAM = """
use robstride::{ActuatorConfiguration, ActuatorType, ControlConfig, SocketCanTransport, Supervisor, TransportType};
use std::time::{Duration, Instant};

async fn driven(supervisor: &mut Supervisor) -> eyre::Result<[f32; 2]> {
    let end = Instant::now() + Duration::from_secs(120);
    let mut feedback = [f32::NAN; 2];
    while Instant::now() < end && !((feedback[0] - 0.5).abs() < 0.02 && feedback[1].abs() < 0.05) {
        supervisor.command(1, 0.5, 0.0, 0.0).await?;
        tokio::time::sleep(Duration::from_millis(20)).await;
        feedback = supervisor.get_feedback(1).await?.map_or(feedback, |(state, _)| [state.angle, state.velocity]);
    }
    Ok(feedback)
}

#[tokio::main]
async fn main() -> eyre::Result<()> {
    let can = SocketCanTransport::new("can0".into()).await?;
    let mut supervisor = Supervisor::new(Duration::from_secs(60))?;
    supervisor.add_transport("can".into(), TransportType::SocketCAN(can)).await?;
    let configuration = ActuatorConfiguration { actuator_type: ActuatorType::RobStride02, ..Default::default() };
    let found = supervisor.scan_bus(0xfd, "can", &[(1, configuration)]).await?;
    let mut runner = supervisor.clone_controller();
    tokio::spawn(async move { runner.run(Duration::from_millis(10)).await });
    let gains = ControlConfig { kp: 20.0, kd: 1.0, max_torque: Some(10.0), max_velocity: None, max_current: None };
    supervisor.configure(1, gains).await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    supervisor.enable(1).await?;
    let [position, velocity] = driven(&mut supervisor).await?;
    supervisor.disable(1, false).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mode = supervisor.get_feedback(1).await?.map(|(state, _)| format!("{:?}", state.mode)).unwrap_or_default();
    println!("{{\\"found\\": {found:?}, \\"driven\\": [{position}, {velocity}], \\"off\\": \\"{mode}\\"}}");
    Ok(())
}
"""


def test_it_finds_configures_drives_and_switches_off(khz: str, tmp_path: pathlib.Path) -> None:
    package = tmp_path / "judge"
    (package / "src").mkdir(parents=True)
    (package / "Cargo.toml").write_text(MANIFEST)
    (package / "src/main.rs").write_text(PROGRAM)
    # It is not linted as our own crates are.
    plain = {name: value for name, value in os.environ.items() if name != "RUSTC_WORKSPACE_WRAPPER"}
    subprocess.run(["cargo", "build", "--quiet", "--target-dir", "target"], cwd=package, env=plain, check=True)
    robot = arm("robstride", 'model = "RS02", kp = 20, kd = 1')
    with served(khz, tmp_path, robot) as terminal, interface(tmp_path, terminal) as environment:
        command = [package / "target/debug/judge"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout.splitlines()[-1])
    assert printed.pop("driven") == pytest.approx([0.5, 0], abs=0.05), printed
    assert printed == {"found": [1], "off": "Reset"}
