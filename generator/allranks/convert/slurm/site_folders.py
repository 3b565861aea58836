"""Folders of the old cluster, which a pod has only where its image or a volume has them.

Nearly each script reads and writes under /scratch, /home or what else its site mounts on all nodes.
A path is carried as it is typed, so that nothing else would tell that the folder behind it is not.
"""

from __future__ import annotations

import re
from collections import defaultdict
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.convert.pods.image_names import ENDING_OF_FILE
from allranks.convert.programs import scanner
from allranks.convert.slurm import blanks
from allranks.convert.slurm.batch_script.pods import missing_in_pods
from allranks.convert.slurm.batch_script.text import (
    demands,
    shell_text,
    substitutions,
    unread_variables,
    words,
)
from allranks.convert.verdicts import Outcome
from allranks.humanize import list_some

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from allranks.convert.slurm.draft import Draft
    from allranks.workspace.contents import Contents

# A path that stands where a word, a value or a part of a list begins, also with two slashes; behind
# a colon that is an address, and behind `$A"` or `A+=` the end of a path. It may be the default of
# a variable, whose brace is none of its own, and ends before a pattern.
_PATH = re.compile(
    r"(?:^|(?<=[\s=:,(\[>;|&])|(?<=:[-=])|(?<=[\s=:,(\[>;|&\\-][\"'])|(?<=^[\"']))"
    r"(?<!\+=)(?<!\+=[\"'])(?P<top>(?:(?<!:)/)?/[A-Za-z][\w.+@-]*|~|\$HOME\b|\$\{HOME\})"
    r"(?P<rest>(?:/(?:\$\{\w+\}|\\=|[\w.+@%$=-]|\$\([^()\n]*\))*)*)(?=[\s\"'`:,;)\]}|&<>*?\[{\\]|$)"
)
_PATTERN = frozenset("*?[{")
# A word of the text $HOME, which a program gets as it stands; and what reads its words as a shell.
_LITERAL_HOME = re.compile(r"'\$(?:HOME\b|\{HOME\})[^'\s]*'")
_READ_AGAIN = re.compile(
    r"(?:^|[\s;&|('\"])(?:-\w*c|eval|trap|alias|ssh|pdsh|clush|su|xargs|parallel|envsubst)(?=\s)"
)
# Behind a path that is in quotes: words that are no options, nor paths of their own.
_BLANKS = re.compile(r"((?: [\w.+@-][\w.+@-]*)+(?:/[\w.+@ -]*\w)?)(?P<quote>[\"'])")
_GOES = re.compile(r"(?:^|[\s;&|])(?:cd|pushd)[ \t]+([\"'])\Z")
# A part of a path that several programs give, and what stands behind it.
_OF_PIPE = re.compile(r"/[^/]*\$\([^()]*\|.*")
# Folders that images have; under some of them a site has software of its own, as an image may.
_OF_IMAGES = frozenset(
    {
        *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/media", "/opt", "/proc"),
        *("/root", "/run", "/sbin", "/sys", "/var", "/workspace"),
        "/tmp",  # noqa: S108 - a name, and no file of ours
    }
)
# Where sites put software for all nodes, and few images have any.
_OF_SITE_SOFTWARE = re.compile(
    r"/opt/(?:modules?|apps?|ohpc|cray|pkgs?|packages|software|sw|spack|easybuild|shared?|site|hpc)"
    r"(?:/.*)?"
)
# What /etc has in no image: all but what distributions and drivers have there.
_OF_SITE_SETTINGS = re.compile(
    r"/etc/(?!(?:OpenCL|X11|alternatives|apt|bash\w*|ca-certificates|conda|cron|crypto-policies|debian_version"
    r"|default|dhcp|environment|fonts|fstab|group|gshadow|host|hostname|hosts|infiniband|init|issue|krb5"
    r"|ld\.so|libibverbs|libnl|locale|localtime|login|lsb|machine-id|mime|modprobe|modules?|mpi|mtab|nccl"
    r"|netconfig|networks|nsswitch|nvidia|openmpi|opt|os-release|pam|passwd|pki|profile|protocols"
    r"|python\d*|redhat-release|resolv|rpc|security|selinux|services|shadow|shells|skel|ssh|ssl|sudoers"
    r"|sysconfig|sysctl|system-release|systemd|timezone|udev|vulkan|wgetrc|xdg|yum)(?![a-z]))[\w.-]+"
)
# What /usr has in an image: some universities have home folders in others of it.
_OF_USR = re.compile(
    r"/usr(?:/?|/(?:X11R6|bin|games|include|lib(?:\d+|x32|exec)?|local|sbin|share|src|tmp)(?:/.*)?)"
)
# What programs make anew in a home folder, or what a shell reads where it is there.
_MADE_ANEW = ("/.cache", "/.triton", "/.nv", "/.bash", "/.profile", "/.config")
# Commands whose words are patterns, or of modules and hosts, which are spoken of by what carries
# them; and `[[ $a =~ b ]]`, which has no home folder.
_OTHER_WORDS = re.compile(
    r"(?<=\s)=~(?=\s)"
    r"|(?P<before>(?:^|[;&|({`]|\b(?:then|do|else|if|while|time)\b|(?<=\s)!)[ \t]*)"
    r"(?:(?P<elsewhere>module|ml|ssh)|(?P<patterns>sed|g?awk|e?grep|perl|tr|cut)"
    r"|(?P<copy>rsync|scp|curl|wget))\b"
    r"(?P<rest>(?:\\\n|'[^']*'|\"(?:[^\"\\]|\\[\s\S])*\"|\([^()\n]*\)|[^|;&\n'\"()])*)",
    re.MULTILINE,
)
_QUOTED = re.compile(r"'[^']*'|\"(?:[^\"\\]|\\[\s\S])*\"")
_REMOTE = re.compile(r"\S*:\S*")
# A text that is printed, and written to no file.
_PRINTED = re.compile(
    r"\b(?:echo|printf)\b(?:(?:[^\S\n]|\\\n)*+(?:\"(?:[^\"\\`$]|\\.|\$(?!\())*+\"|'[^']*+'"
    r"|(?!\$\()[^\s\"'|;&<>`()]))*+(?!\s*>(?!\s*(?:&[ \t]*[12]\b|/dev/stderr)))",
    re.DOTALL,
)
# The same as a here-document, but for what it asks other programs.
_PRINTED_DOCUMENT = re.compile(
    r"(?:^|[;{&(]|\b(?:then|do|else)\b)[ \t]*cat[ \t]*<<-?[ \t]*([\"'\\]?)(?P<end>\w+)\1[ \t]*"
    r"(?:>[ \t]*(?:&[ \t]*2|/dev/stderr))?[ \t]*\n"
    r"(?:(?![ \t]*(?P=end)[ \t]*$)[^\n]*\n)*[ \t]*(?P=end)[ \t]*$",
    re.MULTILINE,
)
_VARIABLE = re.compile(r"\$\{?([A-Za-z_]\w*)\b\}?")
# Which no shell of a script heeds, unless it is told to.
_ALIAS = re.compile(r"^[ \t]*alias[ \t].*$", re.MULTILINE)
# A variable that is set in a line of its own.
_ASSIGNMENT = re.compile(r"^(?P<name>[A-Za-z_]\w*)=[^\s;&|`()]*[ \t]*$", re.MULTILINE)
# A container that no pod starts, whose words name folders in it; and the folders that it mounts.
_OF_CONTAINER = re.compile(
    r"\b(?:docker|podman|podman-hpc|nerdctl|udocker)[ \t]+(?:run|exec)\b"
    r"(?:\\\n|\"(?:[^\"\\]|\\.)*\"|'[^']*'|[^\n\"'|;&<>])*",
    re.DOTALL,
)
_MOUNTED = re.compile(r"(?:-v|--volume)[ =]?[\"']?([^\s:\"']+):|(?:src|source)=([^\s,\"']+)")
# A line that starts a container, with those that it goes on in.
_CONTAINED = re.compile(
    rf"^(?:\\\n|[^\n])*?(?:\b(?:{'|'.join(sorted(words.CONTAINERS | words.UNREAD_CONTAINERS))})\b"
    r"|--container-image\b)"
    r"(?:\\\n|[^\n])*",
    re.MULTILINE,
)
# A shifter, which mounts the folders of the site by itself; with the words of sarus it does not.
_OF_SITE = re.compile(r"\bshifter[ \t]+(?!(?:run|pull|load|images|rmi)\b)")
_SPOKEN = re.compile(r"volume|image|\bsent\b")
_WHY = (
    "a pod has it where its image or a volume does: mount one there (storage.datasets.mountPath), "
    "or put it into the image; without a volume a pod's user may not make it, as a rule, and what "
    "is written there goes with the pod"
)
# What a site makes for each job.
_OF_JOB = re.compile(r"(?:/[\w.+-]+)+/\$\{?SLURM_JOB_?ID\}?(?:/.*)?")
_WHY_JOB = (
    "nothing makes the folder of a job in a pod: have the script make it (`mkdir -p`), in a volume "
    "or below /tmp"
)
_WHY_BLANK = (
    "where it is a blank for a person, fill it in: with a path that the image or a volume has"
)
_WHY_JOB_OF_ROOT = (
    "the script makes the folder of the job, which a pod's user may do in a volume alone, or below "
    "/tmp: mount one there, or make it in another place"
)
_WHY_HOME = (
    "a pod has not the home folder of who submits: write a path in the image, or in a volume, in "
    "its place"
)
_OF_IMAGE_FILE = re.compile(f"{ENDING_OF_FILE}$")
_WHY_IMAGE = (
    "a pod cannot use an image file, and starts no container: push the image that it was made from "
    "to a registry, name that, and run what runs in it directly"
)
_WHY_WORKING_DIR = (
    "the run starts there, and a pod has it where its image or a volume does: take the line out "
    "where it is the folder of your code, which is sent"
)
_NO_SHARED_FOLDER = (
    "each pod has a copy of the folder that is sent: what one writes there the others do not see, "
    "as the nodes did: let a volume have what they share"
)
_IGNORED = (
    "what git ignores is not sent, as data, weights and results of earlier runs are as a rule: "
    f"`{names.CLI} sbatch --dry-run` lists what stays out"
)
_IGNORED_HERE = (
    f"git ignores {{}} here, and what it ignores is not sent: `{names.CLI} sbatch --dry-run` lists "
    "all that stays out"
)
_NOT_READ = (
    "only the script was read: what its programs and their files name (paths, keys and logins, "
    "variables of who submits, conda environments) is the old cluster's, and a pod has it where "
    "you bring it"
)
_NO_VOLUME = (
    "what the run writes goes with its pods, unless it is in a volume: storage.checkpoints makes "
    "one, at /checkpoints"
)

# A script that says itself what its home folder is.
_SETS_HOME = re.compile(r"^[ \t]*(?:export[ \t]+)?HOME=", re.MULTILINE)
# Containers that mount the working folder by themselves, so that it kept what was written there.
_WITH_FOLDER = re.compile(r"\b(?:singularity|apptainer)(?:_wrapper)?[ \t]")


def say(job: Draft, contents: Contents | None = None) -> None:
    """Name the folders of the old cluster that the values read or write, each once.

    Args:
        job: the job, whose values are all there, but for an image that the script does not name.
        contents: what is sent of the folder that it is submitted from; None where nobody knows.
    """
    values = job.fields.values
    mounts = _mounts(values)
    working_dir = str(values.get("workingDir", "")).rstrip("/")
    lines = [
        _with_whole_word(job.text, verdict.path)
        for verdict in job.fields.verdicts()
        if verdict.outcome is not Outcome.CARRIED
        and _SPOKEN.search(verdict.why)
        and verdict.why
        not in (missing_in_pods.why_no_container(verdict.path), missing_in_pods.SH_OF_IMAGE)
    ]
    folders: dict[str, set[str]] = defaultdict(set)
    code = words.without_comments(job.text)
    sets_home = _SETS_HOME.search(code) is not None
    is_inside = "image" in values and "image" not in job.settings and not _OF_SITE.search(code)
    # Without an image of the script's, /root is the home of who submits as root.
    own_folders = _OF_IMAGES if "image" in values else _OF_IMAGES - {"/root"}
    for text in _texts(values, code, is_inside=is_inside):
        for match in _PATH.finditer(text):
            is_pattern = text[match.end() :][:1] in _PATTERN
            path = match[0].rpartition("/")[0] if is_pattern else match[0].rstrip("/")
            path += _behind_blank(text, match)
            path = _OF_PIPE.sub("", path)
            top = match["top"]
            is_made_anew = top[0] != "/" and match["rest"].startswith(_MADE_ANEW)
            is_spoken_of = any(_names(line, path) for line in lines)
            is_own_home = top.startswith("$") and sets_home
            if path and not (
                is_own_home
                or (top in own_folders and not _is_of_site(path, is_inside=is_inside))
                or _OF_USR.fullmatch(path)
                or is_made_anew
                or is_spoken_of
                or _is_in(path, mounts)
            ):
                folders[_root(path) if top[0] == "/" else "~"].add(path)
    for top, paths in folders.items():
        start = paths & {working_dir}
        for group, to, why in (
            (start, "workingDir", _WHY_WORKING_DIR),
            (images := {path for path in paths if _OF_IMAGE_FILE.search(path)}, "", _WHY_IMAGE),
            (rest := paths - start - images, "", _WHY_HOME if top == "~" else _why(code, rest)),
        ):
            if group:
                folder = _shared_folder(group)
                folder = min(group) if group is not start and folder in start else folder
                chdir = job.settings.get("chdir") if group is start else None
                line = _line_of(job.text, group) if chdir is None else chdir.line
                key = job.key(folder, line)
                job.fields.say((key,), Outcome.CHANGED, to, why)
    lasting = _of_volumes(values)
    has_folder = job.has_own_folder or bool(_WITH_FOLDER.search(words.without_comments(job.text)))
    if not lasting:
        job.fields.note(_NO_VOLUME, is_general=True)
    elif has_folder and not _is_in(working_dir, lasting):
        elsewhere = f"what the run writes elsewhere than in {list_some(sorted({*lasting}), 4)} "
        job.fields.note(_NO_VOLUME.replace("what the run writes ", elsewhere, 1))
    ignored = contents.ignored() if contents is not None else []
    of_folder = _IGNORED_HERE.format(list_some(ignored, 4)) if ignored else _IGNORED
    job.fields.note(of_folder, is_general=not ignored)
    job.fields.note(_NOT_READ, is_general=True)
    nodes = values.get("nodes")
    if isinstance(nodes, int) and nodes > 1 and not _is_in(working_dir, lasting):
        job.fields.note(_NO_SHARED_FOLDER, is_general=True)


def _is_of_site(path: str, *, is_inside: bool) -> bool:
    """Whether a path below a folder that images have is one that a site has there.

    Args:
        path: the path.
        is_inside: whether what reads it ran in a container, whose image may have its own.
    """
    if _OF_SITE_SOFTWARE.fullmatch(path):
        return True
    return not is_inside and _OF_SITE_SETTINGS.match(path) is not None


def _texts(values: Mapping[str, Any], script: str, *, is_inside: bool) -> list[str]:
    """What runs and is not only printed; of a run in a container of its own, what the nodes ran.

    Args:
        values: the values.
        script: the script without its comments.
        is_inside: whether the ranks had the folders of their image alone.
    """
    of_nodes = [values.get("setup", ""), values.get("workingDir", "")]
    of_ranks = [
        values.get("script", ""),
        *values.get("command", ()),
        *values.get("args", ()),
        *values.get("env", {}).values(),
    ]
    # What stood outside of a container that the script starts, a node ran, too.
    beside = _CONTAINED.sub("", script)
    outside = beside if values.get("script") else ""
    texts = [*of_nodes, outside if outside != script else ""] if is_inside else of_nodes + of_ranks
    shebangs = [text.partition("\n")[0][2:] for text in texts if str(text).startswith("#!")]
    texts = [words.without_comments(text) for text in texts if isinstance(text, str)] + shebangs
    if "expand_aliases" not in script:
        texts = [_ALIAS.sub("", text) for text in texts]
    unread = unread_variables.names(script)
    unread |= unread_variables.names(beside) if is_inside else set()

    def put(match: re.Match[str]) -> str:
        return "" if match["name"] in unread else match[0]

    return [_read_by(_ASSIGNMENT.sub(put, text)) for text in texts]


def _read_by(text: str) -> str:
    """A text without what it only prints, and what means another thing than a folder of a pod's."""
    text = _PRINTED_DOCUMENT.sub(lambda match: " ".join(substitutions.texts(match[0])), text)
    text = _OF_CONTAINER.sub(
        lambda match: " ".join(source or other for source, other in _MOUNTED.findall(match[0])),
        text,
    )
    text = _without_literals(text)
    return _PRINTED.sub("", _OTHER_WORDS.sub(_without_others, demands.without_texts(text)))


def _without_literals(text: str) -> str:
    """A text without the words in single quotes that begin with $HOME, which no shell puts in."""
    parts, last = [], 0
    for start, end in words.literals(text) if _LITERAL_HOME.search(text) else ():
        before = text[text.rfind("\n", 0, start) + 1 : start]
        if _LITERAL_HOME.fullmatch(text, start, end) and not _READ_AGAIN.search(before):
            parts += [text[last:start], "_"]
            last = end
    return "".join([*parts, text[last:]])


def _without_others(match: re.Match[str]) -> str:
    """A command without the words that are no folders of a pod's."""
    if match["patterns"]:
        return f"{match['before']} {_QUOTED.sub('_', match['rest'])}"
    if match["copy"]:
        return f"{match['before']} {_REMOTE.sub('', match['rest'])}"
    return match["before"] or ""


def _mounts(values: Mapping[str, Any]) -> list[str]:
    """The folders that are not those of the image: of volumes, and the one that is sent."""
    workspace = values.get("workspace", {}).get("mountPath", "").rstrip("/")
    return [*_of_volumes(values), *([workspace] if workspace else [])]


def _of_volumes(values: Mapping[str, Any]) -> list[str]:
    """The folders at which the pods have volumes, which outlive them."""
    pod = values.get("podTemplate", {}).get("spec", {})
    containers = pod.get("containers", ())
    mounts = [
        mount.get("mountPath", "")
        for container in containers
        for mount in container.get("volumeMounts", ())
    ]
    return [path.rstrip("/") for path in mounts if path]


def _behind_blank(text: str, match: re.Match[str]) -> str:
    """The rest of a path with blanks in it, which is the whole word of a ``cd``; "" for none."""
    rest = _BLANKS.match(text, match.end())
    line = text[text.rfind("\n", 0, match.start()) + 1 : match.start()]
    goes = _GOES.search(line)
    return rest[1] if rest is not None and goes is not None and goes[1] == rest["quote"] else ""


def _is_in(path: str, folders: Iterable[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


def _with_whole_word(text: str, line: str) -> str:
    """A line of the report with its last word as the script has it, where it was cut off there."""
    start = line.removesuffix(" …")
    match = re.search(re.escape(start) + r"[^\s\"']*", text) if start != line else None
    return start if match is None else match[0]


def _names(line: str, path: str) -> bool:
    """Whether a line of the report names a path; the folder above one that it names is not."""
    is_in = path in line
    return is_in and re.search(rf"{re.escape(path)}(?![\w.+@%$/-])", line) is not None


def _root(path: str) -> str:
    """The folder of a path under which others are told with it; homes have several."""
    return "/".join(path.split("/")[:3]) if path.startswith("/home/") else f"/{path.split('/')[1]}"


def _why(code: str, paths: Collection[str]) -> str:
    """Why some paths are told: nobody can mount the folder of one job, nor a blank."""
    if paths and all(map(blanks.FOLDER.fullmatch, paths)):
        return _WHY_BLANK
    if not paths or not all(map(_OF_JOB.fullmatch, paths)):
        return _WHY
    return _WHY_JOB_OF_ROOT if _makes(code, paths) else _WHY_JOB


def _makes(code: str, paths: Collection[str]) -> bool:
    """Whether a script makes one of some folders, or one below it: ``mkdir -p "$JOB_DIR/log"``."""
    texts: dict[str, str] = {}
    for command in shell_text.commands_of(code):
        typed = [scanner.unquote(word.text) for word in command.words]
        options = [word for word in typed if word.startswith("-")]
        if "mkdir" in map(words.base, typed[:2]) and any("p" in option for option in options):
            folders = [_with_texts(word, texts) for word in typed]
            ends = [f"/{folder}" for folder in folders if "SLURM_JOB" in folder]
            if any(folder.startswith(tuple(paths)) for folder in folders) or any(
                path.endswith(tuple(ends)) or f"{end}/" in path for path in paths for end in ends
            ):
                return True
        for name, value in shell_text.assigned_by(command):
            texts[name] = _with_texts(scanner.unquote(value), texts)
    return False


def _with_texts(word: str, texts: Mapping[str, str]) -> str:
    """A word with the texts of variables in their places."""
    return _VARIABLE.sub(lambda match: texts.get(match[1], match[0]), word)


def _shared_folder(paths: Collection[str]) -> str:
    """The folder that some paths have in common; a home folder is spelled as one."""
    spelled = {re.sub(r"^(?:~|\$\{HOME\})", "$HOME", path) for path in paths}
    parts = [path.split("/") for path in sorted(spelled if len(paths) > 1 else paths)]
    levels = takewhile(lambda names: len({*names}) == 1, zip(*parts, strict=False))
    return "/".join(names[0] for names in levels)


def _line_of(text: str, paths: Iterable[str]) -> int:
    """The first line that has one of some paths, before any comment or directive; 0 for none."""
    code = demands.without_texts(words.without_comments(text))
    patterns = "|".join(re.escape(path) for path in paths)
    of_path = rf"(?:{patterns})(?![\w-])"
    # Behind a colon it may be another host's.
    for pattern in (rf"(?<![\w}})`:]){of_path}", rf"(?<![\w}})`]){of_path}", patterns):
        for rows in (code.split("\n"), text.split("\n")):
            line = next((n for n, row in enumerate(rows, 1) if re.search(pattern, row)), 0)
            if line:
                return line
    return 0
