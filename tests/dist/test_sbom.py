"""The list of packages: whole, and of one piece. (`docs/releasing.md` describes how to validate it against CycloneDX's schema.)"""

import json
import pathlib
import re
import zipfile

from release import ROOT, Find, run

# How the sources of a crate are named in a program: in the places of panics.
CRATE = re.compile(rb"/registry/src/[^/]+/([A-Za-z0-9_-]+?)-([0-9]+\.[0-9]+\.[0-9]+[^/\x00]*)/")


def test_every_crate_whose_sources_the_programs_name_is_listed(made: Find, tmp_path: pathlib.Path) -> None:
    bom = json.loads(made("khz-[0-9]*.cdx.json").read_text())
    listed = {(each["name"], each["version"]) for each in bom["components"]}
    run("tar", "--extract", "--file", made("khz-*-x86_64-linux.tar.gz"), cwd=tmp_path)
    programs = [path.read_bytes() for path in [*tmp_path.rglob("bin/khz"), *tmp_path.rglob("libkhz.so")]]
    with zipfile.ZipFile(made("kilohertz-*x86_64*.whl")) as wheel:
        programs += [wheel.read(name) for name in wheel.namelist() if name.endswith(".so")]
    assert len(programs) >= 3
    for program in programs:
        named = {(name.decode(), version.decode()) for name, version in CRATE.findall(program)}
        assert len(named) > 5 and named - listed == set()


def test_the_c_library_of_the_static_command_is_listed(made: Find) -> None:
    bom = json.loads(made("khz-[0-9]*.cdx.json").read_text())
    musl = next(each for each in bom["components"] if each["name"] == "musl")
    assert re.fullmatch(r"\d+\.\d+\.\d+", musl["version"]) and musl["licenses"] == [{"expression": "MIT"}]


def test_it_is_of_one_piece_and_names_no_machine(made: Find) -> None:
    text = made("khz-[0-9]*.cdx.json").read_text()
    bom = json.loads(text)
    references = [each["bom-ref"] for each in bom["components"]]
    assert len(references) == len(set(references)) and bom["bomFormat"] == "CycloneDX"
    depended = {to for each in bom["dependencies"] for to in each["dependsOn"]}
    # Everything is there because something needs it, and needs only what is there.
    assert depended == set(references)
    for each in bom["components"]:
        assert each["licenses"][0]["expression"]
        assert ("hashes" in each) == ("purl" in each) == each["bom-ref"].startswith("pkg:cargo/")
    assert str(ROOT) not in text and str(pathlib.Path.home()) not in text
