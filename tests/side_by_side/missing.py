"""What a site of Slurm's has and the sandbox has not, by what the shells of a run complain of."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from tests.side_by_side.inside.program import HOME

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.side_by_side.filesystem import Site

_COMPLAINT = re.compile(
    r"""^(?:.*?line\ \d+:\ |launcher:\ |bash:\ |sh:\ |(?P<tee>tee:\ ))
    (?P<command>cd:\ |pushd:\ |\.:\ |source:\ |exec:\ )?
    (?P<name>[^:]{1,300}):\ (?:No\ such\ file\ or\ directory|(?:command\ |file\ )?not\ found)$""",
    re.VERBOSE,
)
_OWN = (HOME, "/real", "/proc", "/dev", "/lib", "/usr/lib")
_MOST = 300  # paths of a site: a script that wants more makes up names in a loop


def add(site: Site, errors: str, folders: Iterable[str]) -> bool:
    """Put into a site what a run had not; False where there is nothing of it.

    Args:
        site: what there is.
        errors: the standard error of the run.
        folders: where its programs ran, which relative paths are of.
    """
    before = _size(site)
    for line in errors.splitlines():
        match = _COMPLAINT.match(line)
        if match is None or match["name"].startswith(("-", "~")):
            continue
        name = match["name"]
        is_of_exec = match["command"] == "exec: " and line.endswith("not found")
        if "/" not in name and (is_of_exec or line.endswith("command not found")):
            site.programs.add(name)
            continue
        paths = {posixpath.join(folder, name) for folder in folders}
        # The folder in front of `..` has to be there as well.
        site.folders |= {path[: path.index("/../")] for path in paths if "/../" in path}
        paths = {posixpath.normpath(path) for path in paths}
        is_folder = match["command"] in ("cd: ", "pushd: ")
        if match["tee"]:
            is_folder, paths = True, set(map(posixpath.dirname, paths))
        for path in sorted(paths):
            if _size(site) < _MOST + len(site.programs) and not path.startswith(_OWN):
                (site.folders if is_folder else site.scripts).add(path)
    return _size(site) > before


def _size(site: Site) -> int:
    return len(site.programs) + len(site.folders) + len(site.scripts)
