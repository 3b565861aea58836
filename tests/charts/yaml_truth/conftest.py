"""Ask Helm itself what it makes of YAML and of flags.

A chart of one template prints the values it sees, as JSON. Thousands of cases go through one run of
helm, as entries of one values file or as flags of one command line.
"""

from __future__ import annotations

import base64
import json
import random
import re
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from subprocess import CompletedProcess

    from tests.conftest import Helm

_CHART = "apiVersion: v2\nname: truth\nversion: 0.1.0\n"
# Base64, so that nothing between the template and the test reads the values as YAML again.
_TEMPLATE = "apiVersion: v1\nkind: Truth\nvalues: {{ .Values | toJson | b64enc }}\n"


@dataclass(frozen=True, slots=True)
class Truth:
    """What one helm reads.

    Attributes:
        helm: the binary.
        folder: where charts and values files are written.
        serial: numbers the files.
    """

    helm: Helm
    folder: Path
    serial: count[int]

    def file(self, content: str | bytes) -> Path:
        """A new values file."""
        path = self.folder / f"values-{next(self.serial)}.yaml"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def chart(self, defaults: str) -> Path:
        """A new chart with these defaults, that prints its values."""
        chart = self.folder / f"chart-{next(self.serial)}"
        (chart / "templates").mkdir(parents=True)
        (chart / "Chart.yaml").write_text(_CHART, encoding="utf-8")
        (chart / "values.yaml").write_text(defaults, encoding="utf-8")
        (chart / "templates" / "truth.yaml").write_text(_TEMPLATE, encoding="utf-8")
        return chart

    def values(
        self,
        *files: str | bytes,
        flags: Sequence[tuple[str, str]] = (),
        defaults: str = "{}",
    ) -> Any:
        """The values that a template sees; None where helm refuses.

        Args:
            files: the contents of -f files, in order.
            flags: (kind, text) of the --set family, in order.
            defaults: the chart's own values.yaml.
        """
        process = self._template(files, flags, defaults)
        if process.returncode:
            return None
        match = re.search(r"^values: (\S+)$", process.stdout, re.MULTILINE)
        assert match is not None, process.stdout
        return self.same(json.loads(base64.b64decode(match[1])))

    def _template(
        self, files: Sequence[str | bytes], flags: Sequence[tuple[str, str]], defaults: str
    ) -> CompletedProcess[str]:
        args: list[str | Path] = []
        for content in files:
            args += ["-f", self.file(content)]
        for kind, text in flags:
            args += [f"--{kind}", text]
        return self.helm.run("template", "t", self.chart(defaults), *args, check=False)

    def same(self, value: Any) -> Any:
        """A value in the form that compares: Go prints 1.0 as 1, and both are one number."""
        if isinstance(value, bool):
            return value
        if isinstance(value, int | float):
            return float(value)
        if isinstance(value, list):
            return [self.same(item) for item in value]
        if isinstance(value, dict):
            return {key: self.same(item) for key, item in value.items()}
        return value


@pytest.fixture(scope="session")
def truth(helm: Helm, tmp_path_factory: pytest.TempPathFactory) -> Truth:
    """Each major of helm in turn, ready to be asked."""
    return Truth(helm, tmp_path_factory.mktemp("truth"), count())


@pytest.fixture(scope="session")
def dice() -> Callable[[object], random.Random]:
    """Chance that is the same on every run."""
    return lambda seed: random.Random(str(seed))  # noqa: S311 - no secrets here
