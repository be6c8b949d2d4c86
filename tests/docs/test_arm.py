"""What `docs/so101.md` writes into the file of a real arm, put where the page says."""

import pathlib
import re
import subprocess
import tomllib


PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/so101.md"


def section(name: str) -> str:
    return rf"^\[{re.escape(name)}\]\n.*?(?=^\[|\Z)"


def test_the_file_of_a_real_arm_is_right_and_keeps_its_torque_limit(khz: str, tmp_path: pathlib.Path) -> None:
    link, limits, controller = re.findall(r"^```toml\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
    file = tmp_path / "arm.toml"
    subprocess.run([khz, "new", file, "--template", "so101"], check=True, timeout=60)
    template = file.read_text()
    text = template
    for what, part in [
        (section("bus.arm"), link),
        (section("emulation"), ""),
        (r"^joint = .*\n", ""),
        (r"^limits = .*\n", limits),
        (section("controller"), controller),
    ]:
        text, count = re.subn(what, lambda _, part=part: part, text, flags=re.M | re.S if what.endswith(r"\Z)") else re.M)
        assert count > 0, what
    file.write_text(text)
    subprocess.run([khz, "check", file], check=True, timeout=60)
    torque = [tomllib.loads(of)["servo_defaults"]["limits"]["torque"] for of in (template, text)]
    assert torque[0] == torque[1]
