"""What helm is told for a release, and what is kept from it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from allranks.errors import ForbiddenError, InputError, RunError, ToolError
from allranks.helm import binary as helm_binary
from allranks.helm import plugins, releases
from allranks.helm.releases import Release, ReleaseRef

SCRIPT = """\
#!/bin/sh
printf '%s\\n' "$@" >"{folder}/words"
env >"{folder}/env"
case $* in *--post-renderer*) ls "$HELM_PLUGINS" >"{folder}/plugins" ;; esac
cat >"{folder}/values"
{then}
"""


@pytest.fixture
def home(tmp_path: Path) -> Any:
    """A release at a helm that writes down how it is called."""

    def make(major: int = 4, then: str = "") -> ReleaseRef:
        path = tmp_path / "helm"
        path.write_text(SCRIPT.format(folder=tmp_path, then=then))
        path.chmod(0o755)
        binary = helm_binary.HelmBinary(path, f"{major}.0.0", major, supported=True)
        return ReleaseRef(binary, "demo", "lab", "/the/config", "ctx")

    return make


def words(folder: Path) -> list[str]:
    """What helm was called with."""
    return (folder / "words").read_text().splitlines()


def test_an_install_names_the_cluster_and_waits_for_nothing(home: Any, tmp_path: Path) -> None:
    """Context and file are the ones that we talk to; values come on standard input."""
    releases.install(home(), Path("/chart"), {"a": "ü"}, post_render=False)
    line = " ".join(words(tmp_path))
    assert line.startswith("install demo /chart")
    for flag in ("--namespace lab", "--kubeconfig /the/config", "--kube-context ctx"):
        assert flag in line
    assert "--wait" not in line
    assert "--post-renderer" not in line
    assert (tmp_path / "values").read_text() == '{"a": "\\u00fc"}'


def test_the_post_renderer_is_found_without_the_users_plugins(home: Any, tmp_path: Path) -> None:
    """Helm 4 sees a folder with our plugin alone; Helm 3 is given the program."""
    releases.install(home(), Path("/chart"), {}, post_render=True)
    assert "allranks-postrender\n" == (tmp_path / "plugins").read_text()
    assert "--post-renderer\nallranks-postrender\n" in (tmp_path / "words").read_text()
    releases.install(home(3), Path("/chart"), {}, post_render=True)
    program = words(tmp_path)[words(tmp_path).index("--post-renderer") + 1]
    assert os.access(program, os.X_OK)


def test_our_own_plugin_folder_goes_with_the_call() -> None:
    """It starts this very Python, and nothing of it stays."""
    with plugins.own_folder() as folder:
        plugin = folder / "allranks-postrender"
        assert (plugin / "plugin.yaml").is_file()
        assert f"{sys.executable}\n" == (plugin / "python").read_text()
    assert not folder.exists()


def test_a_full_disk_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where no temporary folder can be made."""
    monkeypatch.setattr(plugins.tempfile, "tempdir", str(tmp_path / "none"))
    with pytest.raises(RunError, match="cannot be made"), plugins.own_folder():
        pass


def test_helm_is_not_led_to_another_cluster() -> None:
    """HELM_KUBE* would win over the context that was chosen."""
    env = {"HELM_KUBECONTEXT": "other", "HELM_KUBETOKEN": "t", "HELM_DRIVER": "secret", "A": "1"}
    variables = helm_binary.environment(env)
    assert {"HELM_DRIVER": "secret", "A": "1", "HELM_PLUGINS": os.devnull} == variables


def test_a_release_that_is_not_there(home: Any) -> None:
    """It is no error to look for it, nor to remove it."""
    script = "echo 'Error: release: not found' >&2; exit 1"
    assert releases.find(home(then=script)) is None
    assert not releases.uninstall(home(then=script))


def test_what_an_uninstall_leaves_is_no_success(home: Any) -> None:
    """Helm 4 says that the release is uninstalled where it may not look at an object of it."""
    output = (
        "1 resource(s) were not deleted because their ownership could not be verified:\n"
        '[Role] x: roles.rbac.authorization.k8s.io "x" is forbidden: User "ada" cannot get '
        'resource "roles" in API group "rbac.authorization.k8s.io" in the namespace "lab"\n\n'
        'release "demo" uninstalled\n'
    )
    with pytest.raises(ForbiddenError) as excinfo:
        releases.uninstall(home(then=f"cat <<'END'\n{output}END"))
    message = excinfo.value.problem.message
    assert message.startswith("user 'ada' may not get roles.rbac.authorization.k8s.io in namespace")
    assert "forgotten release demo" in message


def test_other_failures_stay_what_they_are(home: Any) -> None:
    """In our words."""
    failing = home(then="echo 'Error: Kubernetes cluster unreachable: no route' >&2; exit 1")
    with pytest.raises(RunError, match="does not answer"):
        releases.find(failing)
    binary = home(then="echo 'Error: cannot re-use a name that is still in use' >&2; exit 1")
    with pytest.raises(InputError, match="already there"):
        releases.install(binary, Path("/chart"), {}, post_render=False)


@pytest.mark.parametrize("answer", ["warning: old", "\\377\\376", "[]", "3"])
def test_an_answer_that_is_no_record(home: Any, answer: str) -> None:
    """A program that is no helm, or one that prints more than it was asked for, is named."""
    ref = home(then=f"printf '{answer}'")
    for read in (releases.find, releases.values):
        with pytest.raises(ToolError) as excinfo:
            read(ref)
        assert str(ref.binary.path) in excinfo.value.problem.message
        assert "--output json" in excinfo.value.problem.hint


def test_an_upgrade_overrules_only_where_the_server_applied(home: Any, tmp_path: Path) -> None:
    """Helm 4 refuses the flag for a release that Helm 3 has made."""
    for method, expected in (("ssa", True), ("csa", False)):
        answer = f"""case $1 in status) echo '{{"apply_method": "{method}"}}' ;; esac"""
        releases.upgrade(home(then=answer), Path("/chart"), {}, post_render=False)
        assert expected == ("--force-conflicts" in words(tmp_path))
    releases.upgrade(home(3), Path("/chart"), {}, post_render=False)
    assert "--force-conflicts" not in words(tmp_path)


def test_a_release_is_ours_by_its_objects() -> None:
    """Not by its name, nor by what its values say."""
    labels = {"app.kubernetes.io/part-of": "allranks"}
    ours = Release(1, "deployed", {}, ({"metadata": {"labels": labels}},))
    other = Release(1, "deployed", {"workload": "mpi"}, ({"metadata": {"name": "x"}},))
    assert (True, False) == (ours.ours, other.ours)
