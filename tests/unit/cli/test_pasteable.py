"""Commands that fixes name can be pasted: they lead to where the person was."""

from __future__ import annotations

import shlex

import pytest

from allranks.cli import main, pasteable


@pytest.mark.parametrize(
    ("command", "text", "expected"),
    [
        (
            "logs ex1 -n team --rank 0",
            "`allranks status ex1` shows which it is",
            "`allranks status ex1 -n team` shows which it is",
        ),
        (
            "upgrade big -n team -f big.yaml --set nodes=3",
            "`allranks upgrade big --recreate` replaces it",
            "`allranks upgrade big --recreate -n team -f big.yaml --set nodes=3` replaces it",
        ),
        (
            "run big --namespace=team -f big.yaml --detach",
            (
                "change that one with `allranks upgrade NAME`, or remove it with `allranks delete "
                "NAME`"
            ),
            (
                "change that one with `allranks upgrade big -n team -f big.yaml`, or remove it "
                "with `allranks delete big -n team`"
            ),
        ),
        (
            "run big -n team -f 'my values.yaml' --context k --kubeconfig /k",
            "mend it with `allranks upgrade big -n team --recreate -f FILE`",
            (
                "mend it with `allranks upgrade big -n team --recreate --context k --kubeconfig /k "
                "-f 'my values.yaml'`"
            ),
        ),
        (
            "status ex1 -n team",
            "`allranks list -A` shows the runs of every namespace",
            "`allranks list -A` shows the runs of every namespace",
        ),
        ("status ex1 -n team", "see `allranks list`", "see `allranks list -n team`"),
        ("logs ex1 -n team -f", "`allranks delete` removes it", "`allranks delete` removes it"),
        (
            "status ex1 -n team --kubeconfig /k",
            "`allranks operator install --crds-only` makes it",
            "`allranks operator install --crds-only --kubeconfig /k` makes it",
        ),
        (
            "operator uninstall -n sys --context k",
            "`allranks delete NAME -n NAMESPACE` removes such a run",
            "`allranks delete NAME -n NAMESPACE --context k` removes such a run",
        ),
        (
            "logs a1 -n lab --on local",
            "`allranks status a1` shows it",
            "`allranks status a1 -n lab --on local` shows it",
        ),
        (
            "status a1 -n lab",
            "`allranks delete a1 --on local` removes it",
            "`allranks delete a1 --on local -n lab` removes it",
        ),
        (
            "upgrade big -q h100 -f big.yaml",
            "`allranks upgrade big --recreate` replaces it",
            "`allranks upgrade big --recreate -f big.yaml -q h100` replaces it",
        ),
        (  # what a run is to become is no part of another command
            "scale big --nodes 3 --on local",
            "`allranks scale big --worker 3`",
            "`allranks scale big --worker 3 --on local`",
        ),
        (
            "submit --workspace code --image a --nodes 2 --env A=b -n team",
            "as in `allranks submit -- python train.py -n 1`",
            (
                "as in `allranks submit -n team --image a --nodes 2 --workspace code -- "
                "python train.py -n 1`"
            ),
        ),
        (
            "sync big --workspace 'my code' --include .env",
            "`allranks submit big --replace` removes it",
            "`allranks submit big --replace --workspace 'my code' --include .env` removes it",
        ),
        (
            "submit big --on local -q nope",
            "`allranks queue list -A` shows them",
            "`allranks queue list -A` shows them",
        ),
        ("status a1", "`kubectl get pods`, `allranks nonsense x`", None),
        ("nonsense", "`allranks status a1`", None),
        ("status 'a", "`allranks status a1`", None),
        ("status --nonsense -n team", "`allranks status a1`", None),
    ],
)
def test_a_command_in_a_message_carries_what_was_typed(
    command: str, text: str, expected: str | None
) -> None:
    """The place, the name and the values of the person's own command, once, where it takes them."""
    words = command.split() if command.count("'") % 2 else shlex.split(command)
    expected = text if expected is None else expected
    assert expected == pasteable.pasteable(main.cli, words, text)
