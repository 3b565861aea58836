"""What is known of a batch script while it is read, and what comes of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from allranks.convert.slurm.batch_script.text import shell_text
from allranks.convert.verdicts import Outcome, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable

    from allranks.convert.programs.scanner import Command, Statement
    from allranks.convert.slurm.batch_script.text.script import Script
    from allranks.convert.slurm.batch_script.text.shell_variables import ShellVariables
    from allranks.convert.slurm.options import Setting
    from allranks.convert.slurm.sizes import Size


@dataclass(frozen=True, slots=True)
class Limit:
    """What ends a step after a time: ``timeout 4h srun python a.py``.

    Attributes:
        line: where it stands.
        text: as typed.
        seconds: the time.
    """

    line: int
    text: str
    seconds: int


@dataclass(slots=True)
class Body:
    """What a script runs.

    Attributes:
        workload: torchrun or mpi.
        setup: shell before it, once in each pod.
        command: what each rank runs.
        script: the same as a file, for one process; "" where there is a command.
        env: variables.
        working_dir: where it starts; "" for the image's own.
        values: further values: torchrun, mpi.
        nodes: how many nodes run it.
        procs_per_node: how many ranks a node has; 0 for one per GPU.
        procs_option: the option of the launcher's own that says so, and its line; "" for none.
        verdicts: what became of each statement.
        notes: what a person should know besides.
        settings: the options of the srun that starts it.
        step_outcomes: by the name of such an option, what became of it instead of its rule.
        goes_back: whether it goes to the folder that it is submitted from.
        reads_folder: whether a line of setup may do something else in another folder.
        limit: what ends the step after a time; None for nothing.
        uncounted: the numbers of tasks that sbatch would not have told the script.
        reads_name: the line that reads the job's name for more than to print it; 0 for none.
        environment_names: the variables whose text before setup the command reads.
    """

    workload: str = "torchrun"
    setup: str = ""
    command: list[str] = field(default_factory=list)
    script: str = ""
    env: dict[str, str] = field(default_factory=dict)
    working_dir: str = ""
    values: dict[str, Any] = field(default_factory=dict)
    nodes: int | None = None
    procs_per_node: int | None = None
    procs_option: tuple[str, int] = ("", 0)
    verdicts: list[Verdict] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    settings: list[Setting] = field(default_factory=list)
    step_outcomes: dict[str, tuple[Outcome, str, str]] = field(default_factory=dict)
    goes_back: bool = False
    reads_folder: bool = False
    limit: Limit | None = None
    uncounted: list[str] = field(default_factory=list)
    reads_name: int = 0
    environment_names: list[str] = field(default_factory=list)

    def say(self, line: int, path: str, outcome: Outcome, to: str = "", why: str = "") -> None:
        """Say what became of a statement or a part of one.

        Args:
            line: where it stands.
            path: its text.
            outcome: carried, changed or not carried.
            to: the value that has it; "" for none.
            why: the reason, where it is not carried as it is.
        """
        self.verdicts.append(Verdict(shell_text.short(path), outcome, to, why, line))


@dataclass(slots=True)
class Step:
    """A command that starts processes.

    Attributes:
        statement: the number of its statement.
        command: the command.
        settings: srun's options; [] without srun.
        words: the words that it starts, as typed.
        is_srun: whether srun starts it.
        size: the size that srun has.
        is_multi: whether it starts several ranks that belong together.
        expansions: the variables whose text stands in its words.
        is_called: whether it stands in no function that nobody calls.
    """

    statement: int
    command: Command
    settings: list[Setting]
    words: list[str]
    is_srun: bool
    size: Size
    is_multi: bool
    expansions: frozenset[str] = frozenset()
    is_called: bool = True


@dataclass(frozen=True, slots=True)
class Evaluated:
    """What an `eval` runs.

    Attributes:
        text: as that shell reads it.
        commands: its commands.
    """

    text: str
    commands: list[Command]


@dataclass(slots=True)
class StepDetails:
    """What stands before a step's program, and which steps prepare the nodes.

    Attributes:
        conditional: the variables with options before a program, with their lines.
        profilers: what measured a launcher, by id of its command.
        limits: what ends a launcher after a time, by the same.
        side: the steps that prepare the nodes, by the same.
        evaluated: what an `eval` runs, by the same.
    """

    conditional: dict[str, int] = field(default_factory=dict)
    profilers: dict[int, str] = field(default_factory=dict)
    limits: dict[int, str] = field(default_factory=dict)
    side: dict[int, Step] = field(default_factory=dict)
    evaluated: dict[int, Evaluated] = field(default_factory=dict)


@dataclass(slots=True)
class RendezvousVariables:
    """The variables by which the script lets its ranks meet, as the launcher does in a pod.

    Attributes:
        dropped: the variables that are left out: the launcher sets them, or nobody needs them.
        meeting: those of them that say where the ranks meet.
        local: those that have this node's name in a script of one node.
        late: the statements that read these, and that each process runs for itself.
        sources: the lines that set what says where the ranks meet, with the text in the report.
        folders: the statements that make folders with the first node's name, as each rank does.
        counts: the lines by which setup can compute numbers of them, by the number's name.
        computed: those that setup computes.
    """

    dropped: set[str] = field(default_factory=set)
    meeting: set[str] = field(default_factory=set)
    local: set[str] = field(default_factory=set)
    late: list[Statement] = field(default_factory=list)
    sources: set[tuple[int, str]] = field(default_factory=set)
    folders: list[Statement] = field(default_factory=list)
    counts: dict[str, str] = field(default_factory=dict)
    computed: list[str] = field(default_factory=list)

    def meet_by(self, names: Iterable[str], line: int, text: str) -> None:
        """Take variables for those that say where the ranks meet.

        Args:
            names: the variables.
            line: where they are set.
            text: the text that sets them.
        """
        # What only looks like a name is none: `export A$(b)=c`.
        self.meeting.update(filter(str.isidentifier, names))
        self.sources.add((line, shell_text.short(text)))


@dataclass(slots=True)
class MainStep:
    """What the lines around the step with the ranks are read by.

    Attributes:
        statement: the number of its statement; -1 where the script is run as it is.
        input: the file that mpirun passes to rank 0, as shell text; "" for none.
        has_launcher: whether a pod besides those of the nodes runs setup, too.
        is_torchrun: whether it is a torchrun, which the chart starts.
        may_launch: whether it is a script that may start a torchrun.
        in_loop: whether a loop starts it.
        inner_setup: what stands before the program in the text of its shell, and becomes setup.
    """

    statement: int = -1
    input: str = ""
    has_launcher: bool = False
    is_torchrun: bool = False
    may_launch: bool = False
    in_loop: bool = False
    inner_setup: str = ""


@dataclass(frozen=True, slots=True)
class ScriptReading:
    """A script, what its variables hold, and what was found out on the way.

    Attributes:
        script: the script.
        variables: what its variables hold.
        details: what belongs to its steps.
        rendezvous: the variables by which its ranks meet.
        main_step: the step with the ranks.
        body: what comes of it.
    """

    script: Script
    variables: ShellVariables
    details: StepDetails = field(default_factory=StepDetails)
    rendezvous: RendezvousVariables = field(default_factory=RendezvousVariables)
    main_step: MainStep = field(default_factory=MainStep)
    body: Body = field(default_factory=Body)
