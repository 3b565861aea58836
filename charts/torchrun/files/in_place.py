"""Have the containers of this pod start again where they are, a limited number of times.

Kubernetes does so, from 1.36 on, where a container ends with an exit code that its
`restartPolicyRules` name (KEP-5532, RestartAllContainers): pod, node, address and emptyDir stay,
and neither the Job nor a scheduler hears of it. But it counts nothing, and would go on for ever.
So the launcher counts in a file that lives as long as the pod, and ends with the code that is named
while starts are left, whatever the ranks have ended with: that stands in the termination message,
as always. Named as well is 137, of a container that the kernel has killed with its launcher.

With none left, an end with one of these two is EXIT_NONE_LEFT instead: Kubernetes would go on.

What another start here cannot mend ends as it does without this: a fatal exit code, a node that is
not fit, a stall, a command or a workspace that is not there, a pod that is told to stop, and a
rank that ends with the code of one of them itself. Standard library; Python 3.8 or newer.
"""

from __future__ import annotations

from pathlib import Path

EXIT_RESTART = 220  # see names.py
EXIT_KILLED = 137
# Not executable, not found, ended by SIGINT and SIGTERM, no workspace, a stall, an unfit node.
LASTING = frozenset((0, 126, 127, 130, 143, 217, 218, 219))
COUNTED = "ALLRANKS_STARTS_COUNTED"  # a launcher that starts over in its container is no new start


class Restarts:
    """How often the containers of this pod have started again, and whether they may once more."""

    EXIT_NONE_LEFT = 221  # see names.py

    def __init__(self, env, fatal, say):
        """Of a pod.

        Args:
            env: the environment, as the chart sets it.
            fatal: the exit codes that no restart mends.
            say: writes a line to the pod's log.
        """
        self._most = int(env["ALLRANKS_RESTARTS_IN_PLACE"])
        self._file = Path(env["ALLRANKS_STARTS_FILE"])
        self._env, self._say = env, say
        self._lasting = LASTING | fatal
        self._killed = EXIT_KILLED not in fatal  # whether the rule names it
        self.count = 0

    def begin(self):
        """Count this start.

        Returns:
            "" where the training may begin, else why it may not.
        """
        counted = self._env.get(COUNTED)
        if counted is not None:
            self.count = int(counted)
            return ""
        try:
            text = self._file.read_text(encoding="utf-8")[:100]
        except FileNotFoundError:
            text = "0"
        except (OSError, ValueError) as error:
            return "the starts of this pod cannot be counted: %s" % error
        if not text.isdigit():
            return "the starts of this pod cannot be counted: %s has %r" % (self._file, text)
        self.count = int(text)
        if self.count > self._most:
            return "the container was killed (exit code 137) after its last restart in place"
        try:
            new = self._file.with_name(self._file.name + ".new")
            new.write_text(str(self.count + 1), encoding="utf-8")
            new.replace(self._file)
        except OSError as error:
            return "the starts of this pod cannot be counted: %s" % error
        self._env[COUNTED] = str(self.count)
        if self.count:
            self._say("this is restart %d of %d in place" % (self.count, self._most))
        return ""

    def code(self, code):
        """What the container ends with, where the launcher would end with `code`."""
        if code in self._lasting:
            return code
        if self.count < self._most:
            self._say(
                "ended with exit code %d; the containers of this pod start again where they are "
                "(%d of %d)" % (code, self.count + 1, self._most)
            )
            return EXIT_RESTART
        # After these Kubernetes would start it once more.
        is_named = code == EXIT_RESTART or (code == EXIT_KILLED and self._killed)
        return self.EXIT_NONE_LEFT if is_named else code
