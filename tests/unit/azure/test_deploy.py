"""`allranks azure deploy`: which shares become volumes, and where the run goes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from allranks.azure import settings as azure_settings
from allranks.cli.commands.azure import deploy
from allranks.cli.main import main
from allranks.values.resolve import resolve
from allranks.values.sources import Sources, load_sources

if TYPE_CHECKING:
    from collections.abc import Callable

EXAMPLE = Path(__file__).parents[3] / "examples/azure-digits"
_SUBSCRIPTION = "01234567-89ab-cdef-0123-456789abcdef"
_KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters: [{name: digits, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: someone, user: {token: x}}]
contexts: [{name: digits, context: {cluster: digits, user: someone, namespace: research}}]
"""


@pytest.fixture
def call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Deploy the example with more arguments; exit code, output and errors."""
    monkeypatch.chdir(EXAMPLE)
    monkeypatch.setenv("AZURE_SUBSCRIPTION_ID", _SUBSCRIPTION)
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(_KUBECONFIG)
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))

    def run(*words: str) -> tuple[int, str, str]:
        code = main(["azure", "deploy", "digits", "-f", "values.yaml", "--dry-run", *words])
        output = capsys.readouterr()
        return code, output.out, output.err

    return run


def _values(values: str, tmp_path: Path, shares: str = "datasets") -> tuple[list[str], Any]:
    """The volumes that shares become, and the values of the job with them."""
    azure, file = tmp_path / "azure.yaml", tmp_path / "values.yaml"
    azure.write_text(
        f"name: demo\nsubscription: {_SUBSCRIPTION}\nresourceGroup: my.group\n"
        f"storage: {{account: training, shares: [{{name: {shares}, quotaGiB: 1}}]}}\n"
    )
    file.write_text(
        f"workload: torchrun\nimage: {{repository: x}}\ncommand: [x]\nstorage: {values}\n"
    )
    settings = azure_settings.load(str(azure))
    sources = Sources((str(file),))
    volumes = deploy._volumes(settings, load_sources(sources).values)
    return volumes, resolve(deploy._with_shares(sources, settings, volumes)).values["storage"]


def test_the_example_has_its_shares_as_volumes(call: Any) -> None:
    """Those of azure.yaml, on the context that `up` makes; nothing is started."""
    code, out, err = call()
    assert code == 0
    assert "digits  torchrun: 2 nodes, 4 processes" in out
    for volume in ("datasets", "checkpoints"):
        assert f"storage.{volume} is share {volume} of account digits" in err


def test_a_share_is_a_volume_with_its_account_and_secret(tmp_path: Path) -> None:
    """What the values say of the volume besides stays."""
    volumes, storage = _values("{datasets: {readOnly: true, subPath: mnist}}", tmp_path)
    assert volumes == ["datasets"]
    assert storage["datasets"]["azureFile"] == {
        "shareName": "datasets",
        "storageAccount": "training",
        "resourceGroup": "my.group",
        "secretName": "allranks-azure-training",
    }
    assert storage["datasets"]["readOnly"]
    assert storage["datasets"]["subPath"] == "mnist"


@pytest.mark.parametrize(
    "values",
    [
        "{datasets: {existingClaim: imagenet}}",
        "{datasets: {size: 1Ti}}",
        "{datasets: {azureBlob: {containerName: imagenet, storageAccount: other}}}",
    ],
)
def test_what_the_values_say_of_a_volume_holds(values: str, tmp_path: Path) -> None:
    """No share takes its place."""
    assert _values(values, tmp_path)[0] == []


def test_other_shares_are_no_volumes(tmp_path: Path) -> None:
    """Only those that are called as a volume is."""
    assert _values("{}", tmp_path, shares="images")[0] == []


def test_without_the_context_the_way_to_it_is_named(
    call: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It is what `up` and `kubeconfig` make."""
    other = tmp_path / "other"
    other.write_text(_KUBECONFIG.replace("name: digits", "name: other"))
    monkeypatch.setenv("KUBECONFIG", str(other))
    code, _, err = call()
    assert code == 2
    assert "no kubeconfig has the context digits of this cluster" in err
    assert "azure kubeconfig" in err


def test_values_of_a_queue_need_its_name(call: Any) -> None:
    """A queue is installed by its name."""
    code, _, err = call("--queue-values", "queue.yaml")
    assert code == 2
    assert "--queue-values: needs the queue's name" in err


def test_wrong_values_are_refused_before_anything_is_made(call: Any) -> None:
    """As `allranks run` refuses them."""
    code, _, err = call("--set", "nodez=3")
    assert code == 2
    assert "nodez: unknown key" in err
