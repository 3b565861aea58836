"""What reaches helm: the argument vector, the values and the environment; and what comes back."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allranks.errors import InvalidValues, ToolError
from allranks.helm import driver
from allranks.helm.binary import HelmBinary
from allranks.helm.client import Client

RECORDER = """\
#!/bin/sh
printf '%s\\0' "$@" > "$RECORD/argv"
cat > "$RECORD/stdin"
env > "$RECORD/env"
printf '{"name":"r"}'
"""


@pytest.fixture
def helm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> HelmBinary:
    """A helm that writes down how it was called."""
    path = tmp_path / "hel m;touch pwned"
    path.write_text(RECORDER)
    path.chmod(0o755)
    monkeypatch.setenv("RECORD", str(tmp_path))
    monkeypatch.setenv("HELM_DEBUG", "true")
    return HelmBinary(path, "4.3", 4, supported=True)


def argv(helm: HelmBinary) -> list[str]:
    """The words the recording helm was called with."""
    return (helm.path.parent / "argv").read_text().split("\0")[:-1]


def test_template_passes_words_as_they_are(helm: HelmBinary) -> None:
    """No shell stands between: every word arrives as one argument, whatever is in it."""
    nasty = "$(touch pwned); `id` && 'x' \"y\" \n*"
    text = driver.template(helm, nasty, nasty, Path("/chart $HOME"), {})
    assert text == '{"name":"r"}'
    assert [
        "template",
        nasty,
        "/chart $HOME",
        "--skip-crds",
        "--values",
        "-",
        "--namespace",
        nasty,
    ] == argv(helm)
    files = {path.name for path in helm.path.parent.iterdir()}
    assert {"argv", "stdin", "env", helm.path.name} == files


def test_template_hides_debug_and_plugins(helm: HelmBinary) -> None:
    """A person's HELM_DEBUG and plugins do not reach a rendering."""
    driver.template(helm, "r", "", Path("/c"), {})
    env = (helm.path.parent / "env").read_text().splitlines()
    assert f"HELM_PLUGINS={os.devnull}" in env
    assert not any(line.startswith("HELM_DEBUG=") for line in env)


def test_template_names_a_post_renderer_and_its_report(helm: HelmBinary) -> None:
    """The post-renderer, its arguments and a report file follow the command."""
    renderer = driver.PostRenderer("allranks-postrender", ("--queue=a b",))
    driver.template(helm, "r", "", Path("/c"), {}, post_renderer=renderer)
    words = argv(helm)
    start = words.index("--post-renderer")
    assert words[start : start + 5] == [
        "--post-renderer",
        "allranks-postrender",
        "--post-renderer-args",
        "--queue=a b",
        "--post-renderer-args",
    ]
    assert words[start + 5].startswith("--report=")


@given(st.recursive(st.text(), lambda inner: st.dictionaries(st.text(), inner, max_size=3)))
def test_values_stay_the_same_json(values: object) -> None:
    """Characters beyond the first plane go as themselves, all else escaped: the JSON is equal."""
    body = driver._plain(json.dumps(values).encode())
    assert values == json.loads(body)
    assert not any(character in body.decode() for character in "\x85\u2028\ufeff\x7f")


def test_an_escaped_backslash_is_not_a_surrogate() -> None:
    r"""The text ``\ud83d\ude00``, typed as such, stays text."""
    body = json.dumps({"a": "\\ud83d\\ude00 \U0001f600"}).encode()
    assert driver._plain(body).decode() == '{"a": "\\\\ud83d\\\\ude00 \U0001f600"}'


def test_waiting_never_waits_for_the_training(helm: HelmBinary) -> None:
    """pyhelm3's wait=True also waits for jobs; that flag is taken out again."""
    client = Client(helm)
    driver.call(
        client._command.install_or_upgrade("r", "/c", {}, wait=True, create_namespace=False)
    )
    assert "--wait" in argv(helm)
    assert "--wait-for-jobs" not in argv(helm)


def test_disabling_validation_is_one_flag(helm: HelmBinary) -> None:
    """pyhelm3 adds this flag letter by letter; it goes out as one word."""
    client = Client(helm)
    driver.call(client._command.install_or_upgrade("r", "/c", {}, disable_validation=True))
    assert argv(helm)[-1] == "--disable-openapi-validation"
    assert "-" not in argv(helm)[-2:]


def test_a_helm_without_patch_number_is_read(helm: HelmBinary) -> None:
    """A helm that calls itself v4.3 does not stop pyhelm3."""
    client = Client(helm)
    assert client.version.to_tuple()[:3] == (4, 3, 0)


def test_a_client_can_be_pointed_at_a_cluster(helm: HelmBinary) -> None:
    """The kubeconfig and the context reach helm; a token never does."""
    command = driver.HelmCommand(helm, kubeconfig=Path("/k"), kubecontext="c")
    assert [
        str(helm.path),
        "list",
        "--kubeconfig",
        "/k",
        "--kube-context",
        "c",
    ] == command.argv(["list"])


def test_failures_are_ours(tmp_path: Path) -> None:
    """What helm prints on failure is parsed; the post-renderer's report is read."""
    path = tmp_path / "helm"
    path.write_text(
        "#!/bin/sh\nfor word; do case $word in --report=*)"
        " printf 'error: a.b: no\\n  fix: yes\\n' > ${word#--report=};; esac; done\n"
        'echo "Error: post-renderer failed: plugin \\"x\\" exited with error" >&2\nexit 1\n'
    )
    path.chmod(0o755)
    binary = HelmBinary(path, "4.3.1", 4, supported=True)
    with pytest.raises(InvalidValues) as excinfo:
        driver.template(binary, "r", "", Path("/c"), {}, post_renderer=driver.PostRenderer())
    assert (
        excinfo.value.problem.path,
        excinfo.value.problem.message,
        excinfo.value.problem.hint,
    ) == ("a.b", "no", "yes")


def test_a_helm_that_vanished(tmp_path: Path) -> None:
    """A helm that was removed in between is told plainly."""
    binary = HelmBinary(tmp_path / "gone", "4.3.1", 4, supported=True)
    with pytest.raises(ToolError, match="helm does not start: No such file or directory"):
        driver.template(binary, "r", "", Path("/c"), {})


def test_a_helm_that_prints_what_is_not_utf_8(tmp_path: Path) -> None:
    """A chart's file in another encoding, or a broken helm: the line and the byte are named."""
    path = tmp_path / "helm"
    path.write_text("#!/bin/sh\ncat >/dev/null\nprintf 'kind: A\\nname: caf\\351\\n'\n")
    path.chmod(0o755)
    helm = HelmBinary(path, "4.3", 4, supported=True)
    with pytest.raises(ToolError, match=r"line 2 of what .* the byte 0xe9, .* not UTF-8"):
        driver.template(helm, "r", "", Path("chart"), {})


def test_a_helm_that_refuses_in_another_encoding(tmp_path: Path) -> None:
    """Its message is shown as far as it can be read; the exit code is what counts."""
    path = tmp_path / "helm"
    path.write_text("#!/bin/sh\ncat >/dev/null\nprintf 'Error: caf\\351\\n' >&2\nexit 1\n")
    path.chmod(0o755)
    helm = HelmBinary(path, "4.3", 4, supported=True)
    with pytest.raises(ToolError, match="caf\ufffd"):
        driver.template(helm, "r", "", Path("chart"), {})
