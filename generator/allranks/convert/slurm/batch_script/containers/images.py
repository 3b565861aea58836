"""The images, mounts and folders that Pyxis and Singularity (Apptainer) name, as values."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from allranks.convert.pods.image_names import is_repository
from allranks.convert.slurm.batch_script.text import sent_folder, shell_text
from allranks.convert.slurm.batch_script.text.words import DOCKER
from allranks.convert.verdicts import Outcome, Verdict

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

_FILE = re.compile(r"\.(?:sif|img|sqsh|squashfs|simg|tar)$|^[./~$]")
OF_FILE = (
    "a pod cannot use an image file: push the image that it was made from to a registry, and "
    "name that"
)
_OF_ENVIRONMENT = (
    "its file names an image and mounts of the old cluster: give them as image and storage"
)
_NO_NAME = "no registry has an image of this name: write the image's own"
# Options of `singularity exec` and `apptainer exec` that have a value.
_WITH_VALUE = frozenset(
    {
        *(
            "-B",
            "--bind",
            "-H",
            "--home",
            "-W",
            "--workdir",
            "--pwd",
            "--cwd",
            "--env",
            "--env-file",
            "-o",
        ),
        *(
            "--overlay",
            "-S",
            "--scratch",
            "--network",
            "--hostname",
            "--mount",
            "--app",
            "--security",
            "--dns",
        ),
        # Source: `apptainer exec --help` of Apptainer 1.4 and SingularityCE 4.3.
        *("--no-mount", "--fusemount", "--device", "--cdi-dirs", "--shell", "--pem-path"),
        *("--pids-limit", "--apply-cgroups", "--cpu-shares", "--cpuset-cpus", "--cpuset-mems"),
        *("--memory-reservation", "--memory-swap", "--blkio-weight", "--blkio-weight-device"),
        *("--netns-path", "--docker-host", "--authfile"),
        *(
            "--cpus",
            "--memory",
            "--image",
            "--volume",
            "--module",
            "--add-caps",
            "--drop-caps",
            "--network-args",
        ),
    }
)

# Those of `shifter`, whose letters mean something else.
_OF_SHIFTER = frozenset({"-V", "--volume", "-i", "--image", "-e", "--env", "-w", "--workdir", "-m"})
_OF_SHIFTER |= {"--module", "--entrypoint"}
# Options of `docker run` for what a pod of a run has anyway.
_OF_EVERY_POD = (
    "--no-mount",  # of the nodes' folders, of which a pod has none
    "--gpus",
    "--ipc",
    "--name",
    "--runtime",
    "--hostname",
    "-h",
    "--shm-size",
    "--pull",
)
# What `--mount` calls the place of a folder in the container.
_TARGETS = ("target", "destination", "dst")
_SINGULARITY = ("singularity", "apptainer")
# Options for the folder that the program starts in. Singularity's --workdir is where the container
# has its /tmp.
_FOLDERS_OF_SINGULARITY = ("--pwd", "--cwd")
_FOLDERS = ("-w", "--workdir")
_ENV = "its text is known where the script runs: write it into env"
_OF_NODES_GPUS = ", with the GPUs that the script asks for; --gpus gave it those of its node"
_OF_THE_DAEMON = "the pod is the container: say it in the values where it matters"
_OWN_PROGRAM = (
    "the pod is the container, and `run` gives these words to the image's own program, which a pod "
    "does not start: write it before them where it does more than to run them"
)
_ENV_FILE = "what the file says is not known here: write it into env"
_IN_SHELL = "its text is known where the script runs: write it into workingDir"
# What a shifter with the words of sarus does, which it was before.
_VERBS_OF_SHIFTER = frozenset({"run", "pull", "load", "images", "rmi"})
_LETTERS_OF_DOCKER = ("-v", "-e", "-w", "-u", "-h", "-m", "-p", "-l", "-a", "-c")
# What variables are called that hold options of a container, or its image.
_NAME_OF_OPTIONS = re.compile(
    r"(?i)(?:flags?|opts?|options?|args|arguments|binds?|bindings?|bind_?paths?|mounts?|\bnv|_nv)$"
)
_IS_IMAGE_FILE = re.compile(r"\.(?:sif|img|sqsh|squashfs|simg)$")
NAME_OF_IMAGE = re.compile(r"(?i)image|img|sif|container|sandbox")
_OF_VARIABLE = (
    "options of the container, which are known where the script runs: a folder that they mount is "
    "a volume here, and a variable stands in env"
)
# Options of `docker run` without a value; all others have one.
_FLAGS_OF_DOCKER = re.compile(
    r"-[ditP]+|--(?:rm|interactive|tty|detach|init|privileged|read-only|publish-all|no-healthcheck"
    r"|oom-kill-disable|sig-proxy|quiet|replace|tls-verify"
    # Of sarus, and of podman-hpc.
    r"|mpi|ssh|glibc|centralized-repository|gpu|openmpi-pmi[2x]|cuda-mpi|nccl|cvmfs)"
)


def image(text: str) -> dict[str, str] | None:
    """An image as values; None where it is a file, or has no form that a registry knows.

    Pyxis puts a ``#`` behind the registry: ``nvcr.io#nvidia/pytorch:24.05-py3``.
    """
    text = re.sub(r"\A(?:docker://|dockerd://|oras://|docker:(?!//))", "", text.strip())
    text = text.rpartition("@")[2] if text.count("@") == 1 and "@sha256:" not in text else text
    if _FILE.search(text) or "$" in text or "://" in text:
        return None
    text = text.replace("#", "/", 1)
    text = re.sub(r":(sha256:[0-9a-f]{64})\Z", r"@\1", text)  # enroot's form of a digest
    rest, _, digest = text.partition("@")
    head, slash, last = rest.rpartition("/")
    name, _, tag = last.partition(":")
    repository = f"{head}{slash}{name}"
    if repository != repository.lower():
        return None  # a path has none; in front of one, it is rather a placeholder than a registry
    if not is_repository(repository) or not re.fullmatch(r"[\w][\w.-]{0,127}|", tag, re.ASCII):
        return None
    if digest and not re.fullmatch(r"sha256:[0-9a-f]{64}", digest):
        return None
    parts = {"repository": repository, "tag": tag, "digest": digest}
    image_values = {key: value for key, value in parts.items() if value}
    if not tag and not digest:
        image_values["tag"] = "latest"
    return image_values


def lack_of(text: str) -> str:
    """Why what names an image is none for a pod."""
    if text.endswith((".toml", ".edf")):
        return _OF_ENVIRONMENT
    is_file = _FILE.search(text) is not None and not text.startswith("$")
    if not is_file and "$" in text:
        return f"{text} is known on the old cluster alone"
    is_name = ":" in text or "#" in text or " " in text.strip()
    return _NO_NAME if is_name and not is_file else OF_FILE


@dataclass(slots=True)
class Mounts:
    """Folders of the nodes as volumes.

    Attributes:
        volumes: of the pod.
        mounts: of its container.
        wrong: those that have no form here, as written.
        workspace: where the folder that the job is submitted from is mounted; "" for nowhere.
        has_here: whether that folder is mounted where it is.
        has_tmp: whether a folder below /tmp is mounted where it is, which a pod has itself.
        has_whole_tmp: whether that is all of the nodes' /tmp, in which others may have left files.
        of_tmp: those of a folder below /tmp at another place, as written.
        over_image: those that would hide a folder which image and pod need, as written.
        of_slurm: Slurm's programs, settings and libraries, for which a pod has no use.
        images: those of a file with a file system, as written, whose content is what is mounted.
        unknown: those with a flag that no mount has, as written, with the flag.
    """

    volumes: list[dict[str, Any]] = field(default_factory=list)
    mounts: list[dict[str, Any]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    workspace: str = ""
    has_here: bool = False
    has_tmp: bool = False
    has_whole_tmp: bool = False
    of_tmp: list[str] = field(default_factory=list)
    over_image: list[str] = field(default_factory=list)
    of_slurm: list[str] = field(default_factory=list)
    images: list[str] = field(default_factory=list)
    unknown: list[tuple[str, str]] = field(default_factory=list)


# What may stand behind a mount. Source: enroot-mount of enroot 4.0, mount(8), and the manuals of
# singularity (--bind) and docker (--volume).
_FLAGS = frozenset(
    {
        *("ro", "rw", "bind", "rbind", "defaults", "remount", "nofail", "silent", "loud"),
        *("private", "rprivate", "shared", "rshared", "slave", "rslave"),
        *("unbindable", "runbindable", "dev", "nodev", "exec", "noexec", "suid", "nosuid"),
        *("sync", "async", "dirsync", "atime", "noatime", "diratime", "nodiratime", "relatime"),
        *("norelatime", "strictatime", "nostrictatime", "lazytime", "nolazytime", "mand"),
        *("nomand", "iversion", "noiversion", "readonly", "z", "Z", "U", "O"),
        *("cached", "delegated", "consistent", "nocopy", ""),
    }
)
_OTHER_FLAG = re.compile(r"(?:x-\w+(?:[.-]\w+)*|id|size|mode)(?:=.*)?")
_OF_SLURM = re.compile(
    r"/(?:usr/)?(?:local/)?(?:s?bin|lib(?:64)?)/(?:\S*/)?(?:lib)?(?:slurm|munge)\S*"
    r"|/(?:usr/)?(?:local/)?s?bin/(?:srun|sbatch|salloc|scontrol|squeue|sinfo|sacct|scancel)"
    r"|/(?:etc|run|var/run|var/log|var/spool|opt)/(?:slurm|munge)\S*"
)
# A file of the node's own system, in the place of the image's.
_FILE_OF_SYSTEM = re.compile(
    r"/etc/(?:passwd|group|shadow|nsswitch\.conf|hosts|resolv\.conf|localtime)"
)
_FILE_OF_IMAGE = re.compile(r".*\.(?:sqfs|sqsh|squashfs|squash)")
# Where a mount would hide what an image cannot do without, and what the pod has there.
_OF_SYSTEM = frozenset(
    {"/etc", "/usr", "/bin", "/sbin", "/lib", "/lib64", "/proc", "/sys", "/dev", "/run", "/var/run"}
)
# A folder of the job's own on its node: `/tmp/x-$SLURM_JOB_ID`.
_BELOW_TMP = re.compile(r"/tmp(?:/|$)")  # noqa: S108 - of the script
# The folder of a job's own that a site makes for it: a pod's is /tmp.
_OF_TMP = re.compile(r"\$\{?((?:SLURM_)?TMPDIR)\b\}?(?=/|$)")
# A comma, but for one within `$(…)`.
_BETWEEN_MOUNTS = re.compile(r",(?![^()]*\))")


def mounts(text: str, own_names: Collection[str] = ()) -> Mounts:
    """The mounts of ``--container-mounts`` and ``--bind``: ``/data:/data:ro,/scratch``.

    Args:
        text: the option's.
        own_names: the variables that the script sets, which are none of the site's.
    """
    result = Mounts()
    targets: set[str] = set()
    paths: dict[str, str] = {}
    for part in _BETWEEN_MOUNTS.split(text):
        source, _, rest = part.strip().partition(":")
        target, _, flags = rest.partition(":")
        target = target or source
        if _OF_SLURM.fullmatch(source):
            result.of_slurm.append(source)
            continue
        if _FILE_OF_SYSTEM.fullmatch(source):
            result.over_image.append(source)
            continue
        if "image-src" in flags or _FILE_OF_IMAGE.fullmatch(source):
            result.images.append(part.strip())
            continue
        plain = (
            "$" not in part and source.startswith("/") and target.startswith("/") and target != "/"
        )
        source, target = source.rstrip("/") or "/", target.rstrip("/")
        if target in _OF_SYSTEM:
            result.over_image.append(part.strip())
            continue
        is_here = sent_folder.is_sent(source, ())
        if is_here and rest.startswith("/") and "$" not in rest and not result.workspace:
            result.workspace = target
            continue
        of_tmp = _OF_TMP.match(source)
        if _BELOW_TMP.match(source) or (of_tmp is not None and of_tmp[1] not in own_names):
            result.has_tmp |= source == target
            result.has_whole_tmp |= source == target == "/tmp"  # noqa: S108 - the nodes'
            result.of_tmp += [part.strip()] if source != target else []
            continue
        if is_here and sent_folder.is_sent(target, ()):
            result.has_here = True
            continue
        if not plain or target in targets or ".." in (source + target).split("/"):
            if part.strip():
                result.wrong.append(part.strip())
            continue
        targets.add(target)
        if source not in paths:
            paths[source] = f"host-{len(paths)}"
            result.volumes.append({"name": paths[source], "hostPath": {"path": source}})
        mount: dict[str, Any] = {"name": paths[source], "mountPath": target}
        own_flags = re.split(r"[+,:]", flags)
        if not {"ro", "readonly"}.isdisjoint(own_flags):
            mount["readOnly"] = True
        result.unknown += [
            (part.strip(), flag)
            for flag in own_flags
            if flag not in _FLAGS and not _OTHER_FLAG.fullmatch(flag)
        ]
        result.mounts.append(mount)
    return result


@dataclass(slots=True)
class Container:
    """What a command line of Singularity says.

    Attributes:
        inside: how many words at its end run inside the container.
        values: the values: image, mounts, working_dir.
        verdicts: what became of its options.
    """

    inside: int
    values: dict[str, Any] = field(default_factory=dict)
    verdicts: list[Verdict] = field(default_factory=list)


def of_command(texts: Sequence[str]) -> Container | None:
    """What ``singularity exec --nv -B /data image.sif python a.py`` says; None for no such line."""
    program = texts[0].rpartition("/")[2]
    rest = list(texts[1:])
    own = next((text for text in rest if not text.startswith("-")), "")
    if program in DOCKER or (program == "shifter" and own in _VERBS_OF_SHIFTER):
        return _of_docker(texts)
    verb = ""
    if program != "shifter":
        while rest and rest[0].startswith("-"):
            rest.pop(0)
        verb = rest.pop(0) if rest else ""
        if verb not in ("exec", "run"):
            return None
    container = Container(0)
    binds: list[str] = []
    with_value = _OF_SHIFTER if program == "shifter" else _WITH_VALUE
    image_name = _read_options(rest, container, binds, with_value)
    while program != "shifter" and _are_options(rest, has_program=verb == "exec"):
        option = rest.pop(0)
        container.verdicts.append(Verdict(option, Outcome.NOT_CARRIED, "", _OF_VARIABLE))
        image_name = _read_options(rest, container, binds, with_value)
    is_wrapper = program.endswith("_wrapper")  # of a site's: a module names the image
    if program != "shifter" and not is_wrapper and rest:
        image_name = rest.pop(0)
    if not rest:
        return None
    container.inside = len(rest)
    if is_wrapper:
        why = "the image is one of your site: name one"
        container.verdicts.append(Verdict(" ".join(texts[:2]), Outcome.CHANGED, "image", why))
        return container
    # Singularity takes a name without a scheme for a file, or a folder.
    is_file = program in _SINGULARITY and "://" not in image_name
    parts = None if is_file else image(image_name)
    if program == "shifter" and not image_name:
        pass  # a directive names it: `#SBATCH --image`
    elif parts is None:
        lack = OF_FILE if is_file else lack_of(image_name)
        container.verdicts.append(Verdict(image_name, Outcome.NOT_CARRIED, "image", lack))
    else:
        container.values["image"] = parts
        container.verdicts.append(Verdict(image_name, Outcome.CARRIED, "image"))
    if binds:
        container.values["mounts"] = ",".join(binds)
    container.verdicts.append(_of_program(texts, verb, has_image=parts is not None))
    return container


def _are_options(texts: Sequence[str], *, has_program: bool) -> bool:
    """Whether a variable holds options of a container, as its name, or what stands behind, says."""
    name = shell_text.variable_alone(texts[0]) if texts else ""
    if not name or len(texts) < 2 + has_program:
        return False
    if has_program and texts[1].startswith("-"):
        return True  # behind an image stands its program
    is_image = NAME_OF_IMAGE.search(name) is not None
    following = shell_text.variable_alone(texts[1])
    is_before_image = (
        _IS_IMAGE_FILE.search(texts[1]) is not None
        or "://" in texts[1]
        or (NAME_OF_IMAGE.search(following) is not None and not is_image)
    )
    return _NAME_OF_OPTIONS.search(name) is not None or (is_before_image and not is_image)


_NOT_IN_NEW = (
    "the script is in a folder there that it has made, which is in the pod alone: run the program "
    "in that one, or write its files where it reads them"
)


def without_folder(container: Container) -> Container:
    """A container without the mount of the folder that it starts in, which is said instead.

    Args:
        container: the container; its folder is not the one that is sent.
    """
    parts = [part for part in container.values.get("mounts", "").split(",") if part]
    own = [part for part in parts if _is_of_own_folder(part) and _place(part).startswith("/")]
    if not own:
        return container
    others = ",".join(part for part in parts if part not in own)
    to = "podTemplate.spec.volumes"
    verdicts = [Verdict(f"--bind {part}", Outcome.NOT_CARRIED, to, _NOT_IN_NEW, 0) for part in own]
    values = {key: value for key, value in container.values.items() if key != "mounts"}
    return replace(
        container,
        values={**values, "mounts": others} if others else values,
        verdicts=[*container.verdicts, *verdicts],
    )


FOR_ALL = (
    "one container of the script has it, and another has not: a pod has it for both, so write it "
    "before the program where that is not the same"
)


def unite(inside: dict[str, Any], container: Container, line: int) -> list[Verdict]:
    """Put what a container says to what others of the script have said, as far as one pod has it.

    Args:
        inside: the values so far: image, mounts, working_dir, env, and the line of the mounts.
        container: the container.
        line: where it stands.

    Returns:
        What became of its options.
    """
    values, verdicts = dict(container.values), list(container.verdicts)
    first = inside.get("image", {})
    if first and values.get("image", first) != first:
        why = f"a pod has one image ({first['repository']}): make two runs"
        verdicts = [
            replace(verdict, outcome=Outcome.NOT_CARRIED, why=why)
            if verdict.to == "image" and verdict.outcome is Outcome.CARRIED
            else verdict
            for verdict in verdicts
        ]
    folder = inside.get("working_dir", values.get("working_dir"))
    if values.get("working_dir", folder) != folder:
        why = f"another container of the script starts in {folder}: write a `cd` before the program"
        verdicts.append(
            Verdict(values["working_dir"], Outcome.NOT_CARRIED, "workingDir", why, line)
        )
    env = inside.get("env", {})
    own_env = values.get("env", {})
    for name in sorted(env.keys() ^ own_env.keys()) if inside else ():
        verdicts.append(Verdict(f"--env {name}", Outcome.CHANGED, f"env.{name}", FOR_ALL, line))
    for name, text in own_env.items():
        if env.get(name, text) != text:
            why = "another container of the script has another text: write it before the program"
            verdicts.append(Verdict(name, Outcome.NOT_CARRIED, f"env.{name}", why, line))
    binds = [part for part in inside.get("mounts", "").split(",") if part]
    places = {_place(part): part.partition(":")[0] for part in binds}
    for part in values.pop("mounts", "").split(","):
        source, place = part.partition(":")[0], _place(part)
        if part and places.get(place, source) != source:
            why = f"a pod has one folder at {place}, and {places[place]} is there: make two runs"
            to = "podTemplate.spec.volumes"
            verdicts.append(Verdict(f"--bind {part}", Outcome.NOT_CARRIED, to, why, line))
        elif part and place not in places:
            places[place] = source
            binds.append(part)
    if binds:
        inside.setdefault("line", line)
        inside["mounts"] = ",".join(binds)
    variables = {**values.pop("env", {}), **env}
    if variables:
        inside["env"] = variables
    for key, value in values.items():
        inside.setdefault(key, value)
    return verdicts


def _is_of_own_folder(bind: str) -> bool:
    """Whether what is mounted is the folder that a shell is in, by that name: ``$PWD:/work``."""
    source = bind.partition(":")[0]
    return sent_folder.is_sent(source, ()) and not sent_folder.is_itself(source, ())


def _place(bind: str) -> str:
    """Where a folder is mounted: ``/a:/b:ro``."""
    source, _, rest = bind.strip().partition(":")
    return (rest.partition(":")[0] or source).rstrip("/")


def _of_program(texts: Sequence[str], verb: str, *, has_image: bool) -> Verdict:
    """What becomes of the container's program itself, whose `run` starts one of the image's."""
    source = " ".join(texts[:2])
    if verb == "run" and texts[0].rpartition("/")[2] in _SINGULARITY:
        outcome = Outcome.CHANGED if has_image else Outcome.NOT_CARRIED
        return Verdict(source, outcome, "command", _OWN_PROGRAM)
    return Verdict(source, Outcome.CHANGED, "image", "the pod is the container")


def _of_docker(texts: Sequence[str]) -> Container | None:
    """What ``docker run --rm --gpus all -v /d:/data image python a.py`` says; None for others."""
    rest = list(texts[1:])
    if texts[0].rpartition("/")[2] in ("sarus", "shifter"):
        rest = ["--mpi" if text == "-m" else text for text in rest]
    while rest and re.fullmatch(r"-{1,2}(?:debug|verbose|v)", rest[0]):
        rest.pop(0)
    if not rest or rest.pop(0) != "run" or any(text.startswith("--entrypoint") for text in rest):
        return None
    container = Container(0)
    binds: list[str] = []
    _read_options(rest, container, binds, None)
    parts = image(rest[0]) if len(rest) > 1 else None
    if parts is None:
        return None
    container.inside = len(rest) - 1
    container.values["image"] = parts
    container.verdicts.append(Verdict(rest[0], Outcome.CARRIED, "image"))
    if binds:
        container.values["mounts"] = ",".join(binds)
    source = " ".join(texts[:2])
    has_all = any(re.match(r"--gpus[= ]?\"?all|--gpus$", text) for text in texts)
    why = "the pod is the container" + _OF_NODES_GPUS * has_all
    container.verdicts.append(Verdict(source, Outcome.CHANGED, "image", why))
    return container


def _split_letter(text: str, with_value: frozenset[str] | None) -> list[str]:
    """An option of one letter apart from the value that stands at it: ``-B/data:/data``."""
    letter, value = text[:2], text[2:]
    if with_value is None:
        has_value = letter in _LETTERS_OF_DOCKER and _FLAGS_OF_DOCKER.fullmatch(text) is None
    else:
        has_value = letter in with_value
    is_glued = bool(value) and not text.startswith("--") and not value.startswith("=")
    return [letter, value] if has_value and is_glued else [text]


def _bind_of(mount: str) -> str:
    """The folder of ``--mount type=bind,source=/a,target=/b,readonly``; "" for another kind."""
    parts = [part.partition("=") for part in mount.split(",")]
    fields = {name.strip(): value for name, _, value in parts}
    source = fields.get("source", fields.get("src", ""))
    target = next((fields[name] for name in _TARGETS if name in fields), "")
    if fields.get("type", "bind") != "bind" or not (source and target):
        return ""
    return f"{source}:{target}" + (":ro" if fields.keys() & {"ro", "readonly"} else "")


def _read_env(container: Container, option: str, value: str, *, is_list: bool) -> None:
    """Read ``--env A=1``, which in Singularity is a list; a value may have commas of its own."""
    for pair in re.split(r",(?=[A-Za-z_]\w*=)", value) if is_list else [value]:
        key, sign, own = pair.partition("=")
        if sign and "$" not in pair and re.fullmatch(r"[A-Za-z_]\w*", key):
            container.values.setdefault("env", {})[key] = own
        elif sign or not is_list:
            container.verdicts.append(Verdict(f"{option} {pair}", Outcome.NOT_CARRIED, "env", _ENV))


def _read_options(
    rest: list[str], container: Container, binds: list[str], with_value: frozenset[str] | None
) -> str:
    """Take the options off the words; gives the image where an option names it."""
    image_name = ""
    letter = "-v" if with_value is None else "-V"
    folders = _FOLDERS_OF_SINGULARITY if with_value is _WITH_VALUE else _FOLDERS
    while rest and rest[0].startswith("-"):
        rest[:1] = _split_letter(rest[0], with_value)
        name, equals, value = rest.pop(0).partition("=")
        is_flag = _FLAGS_OF_DOCKER.fullmatch(name) if with_value is None else name not in with_value
        if not is_flag and not equals:
            value = rest.pop(0) if rest else ""
        if name in ("-B", "--bind", "--volume") or name == letter:
            binds.append(value.replace(";", ","))
        elif name == "--mount" and (bind := _bind_of(value)):
            binds.append(bind)
        elif name in folders and sent_folder.is_sent(value, ()):
            continue  # the run starts there
        elif name in folders and value.startswith("/") and "$" not in value:
            container.values["working_dir"] = value
        elif name in folders:
            container.verdicts.append(
                Verdict(f"{name} {value}", Outcome.NOT_CARRIED, "workingDir", _IN_SHELL)
            )
        elif name in ("--image", "-i"):
            image_name = value
        elif name in ("--env", "-e"):
            _read_env(container, name, value, is_list=with_value is not None)
        elif name == "--env-file":
            container.verdicts.append(
                Verdict(f"{name} {value}", Outcome.NOT_CARRIED, "env", _ENV_FILE)
            )
        elif not is_flag and name not in _OF_EVERY_POD:
            option = f"{name} {value}".strip()
            container.verdicts.append(Verdict(option, Outcome.NOT_CARRIED, "", _OF_THE_DAEMON))
    return image_name
