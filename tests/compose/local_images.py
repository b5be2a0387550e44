"""The images of others that the project names, where the engine reaches no registry: `make compose-images`.

An image that is there stays as it is, unless it was built here. One that is missing is pulled; where that fails, it is
built from what this machine has: a Debian of its mirror, a CPython, and the makers' own programs from their Go modules.
Where there is a registry, nothing is built.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from llm_do_temporal.sandbox.programs import find_temporal
from tests.cluster.binaries import Module, build, wanted_modules
from tests.cluster.errors import ClusterError
from tests.compose.stack import ROOT, missing_engine

RECIPES = ROOT / "tests/compose/images"
LABEL = "llm-do-temporal.built-here"
"""The mark of an image that was built here; one that was pulled has none, and is never built over."""
BASE = "llm-do-temporal-base:trixie"
MIRROR = os.environ.get("DEBIAN_MIRROR", "http://deb.debian.org/debian")
_AUTHORITIES = Path("etc/ssl/certs/ca-certificates.crt")
_PYTHONS = (".pyenv/versions/{0}.*/bin/python{0}", ".local/share/uv/python/cpython-{0}.*/bin/python{0}")
"""Where pyenv and uv install them, below the home folder."""


class MissingError(Exception):
    """Something that an image is made of is not here."""


@dataclass(frozen=True)
class Image:
    """An image of others, as the files name it."""

    repository: str
    tag: str

    @property
    def name(self) -> str:
        """The name that the engine has for it."""
        return f"{self.repository}:{self.tag}"

    @property
    def target(self) -> str:
        """The recipe: the last part of the repository's name."""
        return self.repository.rpartition("/")[2]

    @property
    def version(self) -> str:
        """The tag without what says on which system it is built."""
        return self.tag.partition("-")[0]


def named_images(compose: str, dockerfile: str) -> list[Image]:
    """Return the images of others that the texts of both files name, each once, in their default versions."""
    pairs: list[tuple[str, str]] = re.findall(r"image: ([\w./-]+):\$\{\w+:-([\w.-]+)\}", compose)
    defaults: dict[str, str] = dict(re.findall(r"^ARG (\w+)=(\S+)", dockerfile, re.MULTILINE))
    for repository, tag in re.findall(r"^FROM ([\w./-]+):(\S+)", dockerfile, re.MULTILINE):
        pairs.append((repository, re.sub(r"\$\{(\w+)\}", lambda match: defaults[match[1]], tag)))
    return [Image(*pair) for pair in dict.fromkeys(pairs)]


def project_images() -> list[Image]:
    """Return the images of others that the project's own files name."""
    files = (ROOT / "docker-compose.yml", ROOT / "worker_service/Dockerfile")
    return named_images(*(file.read_text() for file in files))


def provide(image: Image) -> str:
    """Make sure that the engine has an image; return where it is from."""
    label = _docker("image", "inspect", "--format", f'{{{{index .Config.Labels "{LABEL}"}}}}', image.name)
    if label.returncode == 0 and not label.stdout.strip():
        return "is there"
    if label.returncode != 0 and _docker("pull", "--quiet", image.name).returncode == 0:
        return "pulled"
    _build(image)
    return "built here"


def _build(image: Image) -> None:
    _provide_base()
    contexts = [part for name, path in _ingredients(image) for part in ("--build-context", f"{name}={path}")]
    values = [part for pair in (f"BASE={BASE}", f"PYTHON={image.version}") for part in ("--build-arg", pair)]
    asked = ["--target", image.target, "--tag", image.name, "--label", f"{LABEL}=true", *contexts, *values]
    _run(["docker", "build", "--progress", "plain", *asked, str(RECIPES)], "docker build")


def _ingredients(image: Image) -> Iterator[tuple[str, Path]]:
    """Yield the folders that a recipe copies from, each with the name that it has there."""
    if image.target == "python":
        yield "cpython", _python_folder(image.version)
    if image.target == "admin-tools":
        yield "cli", _cli_folder()
    for module in _modules(image):
        build(module, lambda text: print(text, flush=True))
        yield f"module-{module.name}", module.home


def _modules(image: Image) -> Iterator[Module]:
    """Yield what an image has from Go modules: programs, and the entry points and templates beside them."""
    version = image.version.removeprefix("v")
    temporal, versitygw = wanted_modules(version, version)
    if image.target in ("server", "admin-tools"):
        yield temporal
        yield Module("temporal-image", temporal.path, version, (), (Path("docker"),))
    elif image.target == "ui":
        commands = (("cmd/server", "ui-server"),)
        path = "github.com/temporalio/ui-server/v2"
        yield Module("temporal-ui", path, version, commands, (Path("docker"), Path("config")))
    elif image.target == "versitygw":
        yield versitygw
        yield Module("versitygw-image", versitygw.path, version, (), (Path("docker-entrypoint.sh"),))


def _cli_folder() -> Path:
    """Return the folder of `temporal`."""
    search = find_temporal()
    if not search.found:
        raise MissingError("there is no `temporal`: " + ("; ".join(search.passed_over) or "make setup"))
    return Path(search.found[0].path).resolve().parent


def _python_folder(version: str) -> Path:
    """Return the folder of a CPython that has one to itself."""
    found = [Path(path) for path in (shutil.which(f"python{version}"),) if path]
    found += [path for pattern in _PYTHONS for path in sorted(Path.home().glob(pattern.format(version)))]
    for path in found:
        command = [path, "-c", "import sys; print(sys.base_prefix)"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0 and (folder := done.stdout.strip()) != "/usr":
            return Path(folder)
    raise MissingError(f"there is no CPython {version} with a folder of its own, as pyenv and uv install it")


def _provide_base() -> None:
    """Make the Debian that all of them stand on, from the mirror, with this machine's certificate authorities."""
    if _docker("image", "inspect", BASE).returncode == 0:
        return
    if shutil.which("debootstrap") is None or os.getuid():
        raise MissingError("a Debian to build on needs root and `debootstrap`: apt-get install debootstrap")
    print(f"{BASE} from {MIRROR}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        packages = "--include=busybox,ca-certificates,netbase,tzdata"
        _run(["debootstrap", "--variant=minbase", packages, "trixie", folder, MIRROR], "debootstrap")
        if (Path("/") / _AUTHORITIES).exists():
            shutil.copy(Path("/") / _AUTHORITIES, Path(folder) / _AUTHORITIES)
        with subprocess.Popen(["tar", "--create", "--directory", folder, "."], stdout=subprocess.PIPE) as tar:
            change = ["--change", 'CMD ["bash"]', "--change", f"LABEL {LABEL}=true"]
            _run(["docker", "import", *change, "-", BASE], "docker import", tar.stdout)


def _docker(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["docker", *arguments], capture_output=True, text=True, check=False)


def _run(command: list[str], what: str, given: IO[bytes] | None = None) -> None:
    done = subprocess.run(command, stdin=given, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise MissingError(f"{what} ended with {done.returncode}:\n{(done.stdout + done.stderr)[-4000:]}")


def main() -> int:
    """Provide all images, and say where each is from."""
    if (missing := missing_engine()) is not None:
        print(f"compose-images needs a Docker engine: {missing}", file=sys.stderr)
        return 1
    for image in project_images():
        try:
            print(f"{image.name}: {provide(image)}", flush=True)
        except (MissingError, ClusterError) as error:
            print(f"{image.name} cannot be pulled, nor built here: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
