"""Fills in the samples of `vectors/servo.json` from the firmware's own control code: see README.md."""

import json
import pathlib
import subprocess
import sys

VECTORS = pathlib.Path(__file__).resolve().parents[2] / "vectors/servo.json"
#: The parts of a run that stand on one line each.
HEAD = ("name", "about")
SURROUNDINGS = ("settings", "firmware_settings", "joint", "supply_v", "tolerance", "not_compared")

Run = dict  # type: ignore[type-arg]


def script(run: Run) -> str:
    """What the program reads of a run; a sample at the time of a command comes before it."""
    settings = {**run["settings"], **run.get("firmware_settings", {}), **run["joint"]}
    settings["supply"] = run["supply_v"]
    events = [(sample["at_ms"], 0, "") for sample in run["samples"]]
    for command in run["commands"]:
        values = " ".join(f"{name}={value}" for name, value in command.items() if name != "at_ms")
        events.append((command["at_ms"], 1, values))
    lines = ["begin", *(f"set {name} {value}" for name, value in settings.items())]
    for at_ms, is_command, values in sorted(events, key=lambda event: event[:2]):
        lines.append(f"command {at_ms} {values}" if is_command else f"sample {at_ms}")
    return "\n".join([*lines, "run", ""])


def rounded(sample: dict[str, float | str]) -> dict[str, float | str]:
    """Five digits are more than the test compares."""
    return {
        name: float(f"{value:.5g}") + 0.0 if isinstance(value, float) else value
        for name, value in sample.items()
    }


def written(run: Run) -> str:
    """A run as it stands in the file."""
    head, surroundings = (
        ", ".join(f"{json.dumps(key)}: {json.dumps(run[key])}" for key in keys if key in run)
        for keys in (HEAD, SURROUNDINGS)
    )
    commands = ",\n   ".join(json.dumps(command) for command in run["commands"])
    samples = ",\n   ".join(json.dumps(sample) for sample in run["samples"])
    return f' {{{head},\n  {surroundings},\n  "commands": [{commands}],\n  "samples": [\n   {samples}]}}'


def main(program: str) -> None:
    """Runs all runs with `program`, what servo.cc was compiled to."""
    vectors = json.loads(VECTORS.read_text())
    for run in vectors["vectors"]:
        done = subprocess.run([program], input=script(run), capture_output=True, text=True, check=True)
        run["samples"] = [rounded(json.loads(line)) for line in done.stdout.splitlines()]
    runs = ",\n".join(written(run) for run in vectors["vectors"])
    VECTORS.write_text(f'{{\n"origin": {json.dumps(vectors["origin"])},\n"vectors": [\n{runs}\n]\n}}\n')


if __name__ == "__main__":
    main(*sys.argv[1:])
