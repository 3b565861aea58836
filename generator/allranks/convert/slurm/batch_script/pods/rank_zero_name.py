"""The name of rank 0's node, which a script compares with what a node calls itself.

On a cluster both are the short name of a node. In pods ``MASTER_ADDR`` is ``NAME-0.NAME``, and
``hostname`` prints ``NAME-0``: ``[ $head = $(hostname) ]`` is true nowhere.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.convert.slurm.batch_script.text import first_node, shell_text

if TYPE_CHECKING:
    from allranks.convert.slurm.batch_script.text.script_reading import Body

_OTHER_NAME = (
    "{} is rank 0's address with its domain (NAME-0.NAME), and `hostname` prints NAME-0 in its pod"
)
_IN_CONDITION = f"{_OTHER_NAME}: compare ${{{{MASTER_ADDR%%.*}}}}"
_AS_WORD = f"{_OTHER_NAME}: where {{}} compares the two, let it compare ${{{{MASTER_ADDR%%.*}}}}"
# A variable that the conversion sets to rank 0's address, for each rank.
_SET = re.compile(r"^(?:export )?(?P<name>\w+)=\"?\$\{?MASTER_ADDR\}?\"?$", re.MULTILINE)
_OWN = first_node.OF_PROCESS
_EQUALS = r"\s*[!=]?=\s*"


def say(body: Body) -> list[str]:
    """Note where the ranks take rank 0's address for the name of a node.

    Args:
        body: what the script runs.
    """
    text = "".join(body.command[2:3]) if body.command[1:2] == ["-c"] else ""
    assigned = [match["name"] for match in _SET.finditer(text)]
    for name in dict.fromkeys([*assigned, "MASTER_ADDR"]):
        variable = rf"\"?\$(?:{name}\b|\{{{name}\}})\"?"
        if re.search(rf"{variable}{_EQUALS}{_OWN}|{_OWN}{_EQUALS}{variable}", text):
            return [_IN_CONDITION.format(name)]
    program = shell_text.split(text.rpartition("exec ")[2])
    file = next((word for word in program if word.endswith((".sh", ".bash"))), "")
    names = [name for name in assigned if {f"${name}", f"${{{name}}}"} & {*program}]
    return [_AS_WORD.format(names[0], file)] if file and names else []
