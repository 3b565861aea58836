"""What a trial's container does: its entry, run with the files and variables of the render.

The mounted folders become folders of the test, and the kubelet's expansion is done first, as it is
before a container starts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.charts.shared.strings import expand

if TYPE_CHECKING:
    from pathlib import Path

# The shells that images bring, as POSIX sh.
SHELLS = {"dash": ["dash"], "bash": ["bash", "--posix"]}

# Tells its own words and variables, whatever is in them.
TELL = [
    sys.executable,
    "-c",
    "import json, os, sys; print(json.dumps([sys.argv[1:], dict(os.environ)]))",
]


@dataclass(frozen=True, slots=True)
class Start:
    """What the program of a trial was given.

    Attributes:
        argv: its words.
        env: its variables.
        log: what the entry wrote.
    """

    argv: list[str]
    env: dict[str, str]
    log: str


@dataclass(frozen=True, slots=True)
class Pods:
    """Pods of one render.

    Attributes:
        shell: the shell that runs the entry.
        folder: where the mounted folders are made.
    """

    shell: list[str]
    folder: Path

    def start(self, manifests: dict[str, Any], index: int, job: str = "Job/demo") -> Start:
        """What `TELL`, as the program of a trial, is given; fails where it does not run."""
        process = self.run(manifests, index, job)
        assert process.returncode == 0, process.stderr
        argv, env = json.loads(process.stdout)
        return Start(argv, env, process.stderr)

    def run(
        self, manifests: dict[str, Any], index: int, job: str = "Job/demo"
    ) -> subprocess.CompletedProcess[str]:
        """Run the container of a pod of a Job to its end."""
        process = self.begin(manifests, index, job)
        stdout, stderr = process.communicate(timeout=60)
        return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)

    def begin(
        self, manifests: dict[str, Any], index: int, job: str = "Job/demo"
    ) -> subprocess.Popen[str]:
        """Start the container of a pod of a Job."""
        spec = manifests[job]["spec"]["template"]["spec"]
        (container,) = spec["containers"]
        places = self._mounted(manifests, spec, container)

        def here(text: str) -> str:
            for path, folder in places.items():
                if text == path or text.startswith(f"{path}/"):
                    return str(folder) + text.removeprefix(path)
            return text

        env = {
            variable["name"]: here(expand(variable.get("value", "")))
            for variable in container["env"]
            if "valueFrom" not in variable
        }
        words = [here(expand(word)) for word in container["args"]]
        entry = here(container["command"][1])
        return subprocess.Popen(
            [*self.shell, entry, *words],
            env={"PATH": os.environ["PATH"], **env, "JOB_COMPLETION_INDEX": str(index)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def _mounted(
        self, manifests: dict[str, Any], spec: dict[str, Any], container: dict[str, Any]
    ) -> dict[str, Path]:
        """The folders in place of a container's mounts, the longest path first."""
        volumes = {volume["name"]: volume for volume in spec["volumes"]}
        places = {}
        for mount in container["volumeMounts"]:
            volume = volumes[mount["name"]]
            folder = self.folder / mount["name"]
            folder.mkdir(exist_ok=True)
            sources = volume.get("projected", {}).get("sources", [volume])
            for source in (projected for projected in sources if "configMap" in projected):
                data = manifests[f"ConfigMap/{source['configMap']['name']}"]["data"]
                for name, text in data.items():
                    path = folder / name
                    path.unlink(missing_ok=True)
                    path.write_bytes(text.encode())
                    path.chmod(0o555)
            places[mount["mountPath"]] = folder
        return dict(sorted(places.items(), key=lambda item: -len(item[0])))
