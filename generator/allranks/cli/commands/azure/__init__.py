"""`allranks azure`: a cluster on Azure, from nothing and away again."""

from __future__ import annotations

import click

from allranks.cli.command_groups import InOrder
from allranks.cli.commands.azure import deploy, look, make, remove, upload


@click.group(
    "azure",
    cls=InOrder,
    short_help="Make a cluster on Azure, and take it away again.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
def azure_command() -> None:
    """Make a cluster on Azure from one file, use it, and take it away again.

    What is there is read from Azure each time, and no state is kept on this machine: a command that
    was stopped anywhere is simply given again. Only what carries our tags is ever changed or
    removed. Needs `pip install 'allranks[azure]'`, and no other program.

    \b
    Example:
      allranks azure init --name demo > azure.yaml
      allranks azure plan
      allranks azure up
      allranks azure down
    """


for _command in (
    make.init_command,
    make.plan_command,
    make.up_command,
    upload.upload_command,
    deploy.deploy_command,
    look.status_command,
    make.kubeconfig_command,
    look.cost_guard_command,
    remove.down_command,
    remove.reap_command,
    remove.cron_command,
):
    azure_command.add_command(_command)
