"""The Debian package: in a small Debian of its own, from installation to purge."""

import collections
import fcntl
import os
import pathlib
import re
import shutil
import subprocess

import pytest
from release import ROOT, Find, run, within

#: Where what comes over the network is kept.
CACHE = ROOT / os.environ.get("KHZ_CACHE", "target")

DEB = "khz_*_amd64.deb"
SOURCE = "khz_*.dsc"


@pytest.fixture(scope="session")
def debian(root: None, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A Debian as small as it comes; made once and copied, for packages come over the network."""
    kept = CACHE / "debian-minbase"
    kept.parent.mkdir(parents=True, exist_ok=True)
    # One of several processes that run these tests makes it.
    with kept.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        make_debian(kept)
    copied = tmp_path_factory.mktemp("debian") / "root"
    run("cp", "--archive", "--reflink=auto", kept, copied)
    return copied


def make_debian(kept: pathlib.Path) -> None:
    if not (kept / "finished").is_file():
        shutil.rmtree(kept, ignore_errors=True)
        sources = run("apt-get", "indextargets", "--format", "$(SITE) $(CODENAME) $(SUITE)")
        # Those that are no updates to another.
        site, codename = next(words[:2] for line in sources.splitlines() if "-" not in (words := line.split())[1])
        run("debootstrap", "--variant=minbase", codename, kept, site, timeout=600)
        (kept / "finished").touch()


def state(system: pathlib.Path) -> "set[str]":
    """Every path there, and every line of the list of groups."""
    # The package manager's own notes, and the backups of who edits the list of groups.
    noise = re.compile(r"var/(lib/dpkg|log|cache)/|var/lib/systemd|etc/(group|gshadow|passwd|shadow)-$|etc/\.pwd\.lock|run/")
    paths = {str(path.relative_to(system)) for path in system.rglob("*")}
    groups = (system / "etc/group").read_text() + (system / "etc/gshadow").read_text()
    return {path for path in paths if not noise.search(path)} | set(groups.splitlines())


@pytest.mark.timeout(900)
def test_from_installation_to_purge(made: Find, debian: pathlib.Path) -> None:
    before = state(debian)
    shutil.copy(made(DEB), debian / "khz.deb")
    inside = {"preexec_fn": within(debian), "env": {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}}
    run("dpkg", "-i", "/khz.deb", **inside)
    (debian / "khz.deb").unlink()

    run("khz", "run", "--virtual", "--duration", "1s", **{**inside, "preexec_fn": within(debian, "/tmp")})
    assert "<html" in (debian / "tmp/run.html").read_text()
    for file in (debian / "tmp").glob("run*"):
        file.unlink()
    run("khz", "check", "/usr/share/doc/khz/robots/pan_tilt.toml", **inside)
    run("dpkg", "--verify", "khz", **inside)
    assert "kilohertz:" in (debian / "etc/group").read_text()
    asked = run("dpkg-query", "--show", "--showformat", "${Conffiles}", "khz", **inside).split()
    conffiles = [word for word in asked if word.startswith("/")]
    assert conffiles == ["/etc/security/limits.d/kilohertz.conf", "/etc/sysctl.d/60-kilohertz.conf"]
    # The manual of every command that another page names.
    manual = debian / "usr/share/man/man1"
    assert {"khz.1.gz", "khz-run.1.gz"} <= {page.name for page in manual.iterdir()}

    # Removed, settings stay; upgraded, those that were changed do.
    changed = debian / conffiles[0][1:]
    changed.write_text("# mine\n")
    run("dpkg", "--remove", "khz", **inside)
    assert changed.read_text() == "# mine\n" and not (debian / "usr/bin/khz").exists()
    # As khz@.service leaves them, beside those of another package.
    (debian / "var/lib/private/kilohertz/arm").mkdir(parents=True)
    (debian / "var/lib/kilohertz").mkdir()
    (debian / "var/lib/kilohertz/arm").symlink_to("../private/kilohertz/arm")
    mine = debian / "var/lib/kilohertz/mine.tlog"
    mine.touch()
    run("dpkg", "--purge", "khz", **inside)
    (debian / "var/lib/private").rmdir()
    mine.unlink()
    mine.parent.rmdir()
    assert state(debian) ^ before == set()


def test_lintian_has_no_complaint(made: Find) -> None:
    output = run("lintian", "--allow-root", "--fail-on", "error,warning", "--show-overrides", made(DEB))
    # Each override has its reason.
    overrides = (ROOT / "packaging/deb/lintian-overrides").read_text().splitlines()
    for line, above in zip(overrides[1:], overrides, strict=False):
        assert line.startswith("#") or above.startswith("#"), f"no reason: {line}"
    assert "E:" not in output and "W:" not in output, output


@pytest.mark.skipif("KHZ_SLOW" not in os.environ, reason="CI makes no source package: set KHZ_SLOW=1")
def test_lintian_has_no_complaint_about_the_source(made: Find, tmp_path: pathlib.Path) -> None:
    run("lintian", "--allow-root", "--fail-on", "error,warning", made(SOURCE))
    # What the .deb installs, the source's rules do, too.
    run("dpkg-source", "--extract", made(SOURCE), tmp_path / "khz")
    rules = (tmp_path / "khz/debian/rules").read_text()
    listed = run("dpkg-deb", "--contents", made(DEB)).splitlines()
    ours = [words[-1][2:] for line in listed if (words := line.split()) and re.search(r"\.(service|rules|conf)$", words[-1])]
    assert len(ours) == 4 and all(f"debian/khz/{file}\n" in rules for file in ours), rules
    for script in ("postinst", "prerm", "postrm"):
        text = (tmp_path / f"khz/debian/khz.{script}").read_text()
        assert text == (ROOT / "packaging/deb" / script).read_text() + "#DEBHELPER#\n"


def test_the_service_and_the_rules_are_well_formed(made: Find, tmp_path: pathlib.Path) -> None:
    run("dpkg-deb", "-x", made(DEB), tmp_path)
    unit = tmp_path / "lib/systemd/system/khz@.service"
    # systemd looks for the program where it will be; here it is in the package's folder.
    unit.write_text(unit.read_text().replace("ExecStart=/usr/bin/khz", f"ExecStart={tmp_path}/usr/bin/khz"))
    environment = {**os.environ, "SYSTEMD_LOG_LEVEL": "warning"}
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True, env=environment, timeout=60
    )
    complaints = [line for line in done.stderr.splitlines() if "khz@" in line]
    assert done.returncode == 0 and not complaints, done.stderr

    rules = (tmp_path / "lib/udev/rules.d/70-kilohertz.rules").read_text()
    lines = [line for line in rules.splitlines() if line and not line.startswith("#")]
    word = r'[A-Z_]+(\{[\w]+\})?(==|!=|\+=|=)"[^"]*"'
    assert [line for line in lines if not re.fullmatch(rf"{word}(, {word})*", line)] == []
    # A rule may only jump forward to a label that is there.
    labels = collections.Counter(re.findall(r'LABEL="(\w+)"', rules))
    assert set(re.findall(r'GOTO="(\w+)"', rules)) == set(labels) and set(labels.values()) == {1}
    assert set(re.findall(r"GROUP=\"(\w+)\"", rules)) == {"kilohertz"}


def test_packages_are_the_same_whenever_they_are_made(made: Find) -> None:
    """Everything in it is root's and of the commit's time."""
    listed = run("dpkg-deb", "--contents", made(DEB), env={**os.environ, "TZ": "UTC"})
    dates = {tuple(line.split()[3:5]) for line in listed.splitlines()}
    owners = {line.split()[1] for line in listed.splitlines()}
    assert len(dates) == 1 and owners == {"root/root"}, listed
