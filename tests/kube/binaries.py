"""The programs of a cluster, built from pinned Go modules and kept.

Nothing is downloaded as a binary: each program comes from its Go module, whose go.sum pins every
byte (tools/kube/*). What was built is kept in `.tools/kube/<module>-<version>-<digest of the
pins>/`, so that only a fresh machine pays, and a changed pin builds anew beside the old one.

Several modules, because their dependencies do not fit into one: Kubernetes needs its staging
modules at exactly its own version (a module's own `replace` lines are lost, so
tools/kube/kubernetes/go.mod repeats them), and kwok those of another. etcd is of the version whose
client Kubernetes has, so that both share what they are made of. The registry stands apart, so that
a change of its pins does not build the node anew.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.kube.errors import BenchError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

REPO = Path(__file__).parents[2]
PINS = REPO / "tools/kube"
CACHE = REPO / ".tools/kube"

# As helm is built (tools/build-helm.sh): Go compiles what several programs share once, where the
# options are the same. What debuggers read is a seventh of its work, and the linker leaves it out.
_OPTIONS = ("-trimpath", "-gcflags=all=-dwarf=false", "-mod=readonly")
_KUBERNETES = "k8s.io/kubernetes/cmd"
_CONTAINERD = "github.com/containerd/containerd/v2/cmd"
_CNI = "github.com/containernetworking/plugins/plugins"


@dataclass(frozen=True, slots=True)
class Module:
    """One go.mod, and what is built from it.

    Attributes:
        name: its folder under tools/kube.
        main: the module that gives the version its name.
        programs: file name -> package.
    """

    name: str
    main: str
    programs: Mapping[str, str]

    @property
    def version(self) -> str:
        """The pinned version of its main module, as `v1.36.3`."""
        pins = (PINS / self.name / "go.mod").read_text(encoding="utf-8")
        match = re.search(rf"^\s*(?:require )?{re.escape(self.main)} (v\S+)", pins, re.MULTILINE)
        if match is None:
            raise BenchError(f"tools/kube/{self.name}/go.mod pins no {self.main}")
        return match[1]

    @property
    def folder(self) -> Path:
        """Where its programs are kept."""
        digest = hashlib.sha256()
        folder = PINS / self.name
        for path in (folder / "go.mod", folder / "go.sum", *sorted(folder.glob("*/*.go"))):
            digest.update(path.read_bytes())
        return CACHE / f"{self.name}-{self.version}-{digest.hexdigest()[:8]}"

    @property
    def built(self) -> bool:
        """Whether every program is there."""
        return all((self.folder / program).is_file() for program in self.programs)

    @property
    def linker_flags(self) -> str:
        """What is stamped into the programs.

        Without a version of its own the API server's does not parse, and clients refuse it.
        """
        if self.name != "kubernetes":
            return "-s -w"
        major, minor, _ = self.version.removeprefix("v").split(".", 2)
        stamp = "-X k8s.io/component-base/version"
        return (
            f"-s -w {stamp}.gitVersion={self.version} {stamp}.gitMajor={major} "
            f"{stamp}.gitMinor={minor}"
        )


MODULES = (
    Module(
        "kubernetes",
        "k8s.io/kubernetes",
        {
            "etcd": "go.etcd.io/etcd/server/v3",
            **{
                name: f"{_KUBERNETES}/{name}"
                for name in (
                    "kube-apiserver",
                    "kube-controller-manager",
                    "kube-scheduler",
                    "kubectl",
                    "kubelet",
                    "kube-proxy",
                )
            },
        },
    ),
    Module(
        "node",
        "github.com/containerd/containerd/v2",
        {
            "kwok": "sigs.k8s.io/kwok/cmd/kwok",
            "containerd": f"{_CONTAINERD}/containerd",
            "containerd-shim-runc-v2": f"{_CONTAINERD}/containerd-shim-runc-v2",
            "ctr": f"{_CONTAINERD}/ctr",
            "bridge": f"{_CNI}/main/bridge",
            "loopback": f"{_CNI}/main/loopback",
            "host-local": f"{_CNI}/ipam/host-local",
            "portmap": f"{_CNI}/meta/portmap",
            "coredns": "allranks.dev/tools/kube/node/coredns",
        },
    ),
    Module(
        "registry",
        "github.com/google/go-containerregistry",
        {"crane": "github.com/google/go-containerregistry/cmd/crane"},
    ),
)


def find(program: str) -> Path:
    """The path of a program, built where it is not there yet.

    Args:
        program: its file name, as `kubelet` or `containerd-shim-runc-v2`.

    Raises:
        BenchError: no module of ours has it, or it cannot be built.
    """
    for module in MODULES:
        if program in module.programs:
            build(module)
            return module.folder / program
    programs = ", ".join(sorted(name for module in MODULES for name in module.programs))
    raise BenchError(f"no program {program!r} is pinned under tools/kube", f"one of: {programs}")


def build_all() -> None:
    """Build what is missing; a second process that asks at the same time waits for the first.

    Raises:
        BenchError: go is missing, or a build failed.
    """
    for module in MODULES:
        build(module)


def build(module: Module) -> None:
    """Build a module's programs where one is missing.

    Raises:
        BenchError: go is missing, or the build failed.
    """
    if module.built:
        return
    with _lock(module):
        if not module.built:
            _build(module)


@contextlib.contextmanager
def _lock(module: Module) -> Iterator[None]:
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f".{module.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build(module: Module) -> None:
    go = shutil.which("go")
    if go is None:
        raise BenchError(
            f"the cluster's programs ({module.name}) are not built, and go, which builds them, "
            "is not on PATH",
            "install Go 1.26 or newer",
        )
    sys.stderr.write(f"building {', '.join(module.programs)} (some minutes the first time)\n")
    # In a folder of its own first, so that an interrupted build never leaves half of the programs.
    partial = CACHE / f".{module.name}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    for target, packages in _commands(module, partial):
        command = (go, "build", *_OPTIONS, "-ldflags", module.linker_flags, "-o", target)
        process = subprocess.run(
            (*command, *packages),
            cwd=PINS / module.name,
            env={**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"},
            stdout=sys.stderr,
            check=False,
        )
        if process.returncode:
            raise BenchError(f"go build of tools/kube/{module.name} failed; its words are above")
    shutil.rmtree(module.folder, ignore_errors=True)
    partial.rename(module.folder)


def _commands(module: Module, folder: Path) -> Iterator[tuple[str, list[str]]]:
    """What `go build` writes from which packages: together, but for names go would not give."""
    plain = [
        package for name, package in module.programs.items() if package.rsplit("/", 1)[1] == name
    ]
    if plain:
        yield f"{folder}/", plain
    for name, package in module.programs.items():
        if package not in plain:
            yield str(folder / name), [package]
