"""Our own batch scripts beside their pods: what a converter changes in silence would be seen."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from allranks.convert.slurm import job
from allranks.errors import EXIT_FAILED, EXIT_INPUT, EXIT_OK
from allranks.helm.binary import inspect
from tests.conftest import REPO, find_helm
from tests.side_by_side import __main__ as program
from tests.side_by_side import comparison, sandbox
from tests.side_by_side.differences import Kind
from tests.side_by_side.filesystem import ENVIRONMENT, Command, Side, Site

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.timeout(600)

SCRIPTS = sorted((*REPO.glob("tests/data/convert/**/*.sbatch"), *REPO.glob("examples/**/*.sbatch")))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_nothing_differs_without_a_word(script: Path) -> None:
    """Each of our samples runs on both sides, and the report speaks of all that is not alike."""
    result = comparison.compare(script, inspect(find_helm(4).path))
    assert ("", ()) == (result.refusal, result.silent)
    assert 0 < min(result.programs)


@pytest.mark.parametrize(
    ("name", "values", "kind", "text"),
    [
        (
            "tasks.sbatch",
            {"command": ["python", "train.py", "--fast"]},
            Kind.WORDS,
            "no word -> '--fast' of python train.py",
        ),
        ("tasks.sbatch", {"gpusPerNode": 2}, Kind.COUNT, "8 times -> 4 times"),
        (
            "array.sbatch",
            {"script": "#!/bin/bash\ncd /tmp\npython train.py --seed 0 --of 4\n"},
            Kind.FOLDER,
            "/home/user/submit -> /tmp",
        ),
    ],
)
def test_a_fault_of_a_converter_is_seen(
    name: str, values: dict[str, Any], kind: Kind, text: str
) -> None:
    """Values that are others than those that a report speaks of: words, ranks and folders."""
    script = REPO / "tests/data/convert/slurm" / name
    conversion = job.convert(script.read_bytes(), name)
    conversion = replace(conversion, values={**conversion.values, **values}, notes=())
    helm = inspect(find_helm(4).path)
    result = comparison.compare_with(name, script.read_text(), conversion, helm)
    assert any(item.kind == kind and text in str(item) for item in result.silent), result.silent


def test_a_file_is_missed_where_no_pod_has_the_line_that_makes_it() -> None:
    """What programs find is compared, besides what they are given."""
    text = "#!/bin/bash\n#SBATCH -n 1\nmkdir -p out/a\necho 1 > out/b\npython train.py\n"
    helm = inspect(find_helm(4).path)
    conversion = job.convert(text.encode(), "files")
    assert not comparison.compare_with("files", text, conversion, helm).silent
    values = {**conversion.values, "script": "#!/bin/bash\nmkdir -p out/a\npython train.py\n"}
    result = comparison.compare_with("files", text, replace(conversion, values=values), helm)
    assert [str(difference) for difference in result.silent] == [
        "a file that it finds: /home/user/submit/out/b -> no word of python train.py"
    ]


def test_a_sandbox_leads_nowhere() -> None:
    """Who runs there is nobody, writes nothing of the machine's, and has no network or process."""
    script = """
        for path in /real/bin/x /lib/x /side_by_side/program /proc/sys/kernel/hostname; do
          (echo x >"$path") 2>/dev/null && echo "$path"
        done
        sed -n '3,$ s/:.*//p' /proc/net/dev
        sed -n 's/^Cap[^I].*:\\s*0*//p; s/^NoNewPrivs:\\s*//p' /proc/self/status
        stat -c %u /proc/[0-9]* 2>/dev/null | sort -u
        ls -d /sys /home/* /var/log 2>/dev/null
        """
    words = ("bash", "-c", f"exec python $(id -u; id -G; {{ {script} }} )")
    command = Command(words, ENVIRONMENT, "/home/user/submit")
    run = sandbox.run(Side((command,), {}, ("a",), {}, 1, 0, "8"), Site({"python"}))
    (record,) = run.records
    user, loopback = "61234", "lo"
    expected = [user, user, loopback, "1", user, "/home/user"]
    assert expected == [*record.words[1:]]


def test_the_program_says_what_differs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 1 and the difference, also as JSON; 0 where there is none; 2 where nothing runs."""
    good = tmp_path / "good.sbatch"
    good.write_text("#!/bin/bash\n#SBATCH -n1\npython train.py\n", encoding="utf-8")
    (tmp_path / "notes.txt").write_text("no script\n", encoding="utf-8")
    assert EXIT_OK == program.main([str(tmp_path), "--jobs", "1", "-o", "json"])
    (result,) = json.loads(capsys.readouterr().out)
    assert (str(good), [], [1, 1]) == tuple(result[key] for key in ("script", "silent", "programs"))
    monkeypatch.setattr(comparison, "explains", lambda *_: False)
    good.write_text("#!/bin/bash\n#SBATCH -N2\nsrun python a.py\n./after\n", encoding="utf-8")
    assert EXIT_FAILED == program.main([str(good), "--jobs", "1"])
    assert "no pod runs it: once -> 0 times of ./after" in capsys.readouterr().out
    assert EXIT_INPUT == program.main([str(tmp_path / "nowhere")])
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert EXIT_INPUT == program.main([str(good)])
    assert "which takes root" in capsys.readouterr().err
