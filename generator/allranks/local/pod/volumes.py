"""Volumes as folders: where a container's mounts are on this machine, and their files.

=========================== ==================================================================
emptyDir, ephemeral          a folder that lives as long as the pod; ``medium: Memory`` likewise,
                             except ``/dev/shm``, which is the machine's own
configMap, secret,           files with their modes; text that a manifest spelled out is rewritten
projected, downwardAPI       like args are, and so each container has its own copy
persistentVolumeClaim        a folder that outlives the run, one per namespace and claim
hostPath                     that path
=========================== ==================================================================

``readOnly`` cannot be held on a folder that others write: it is not enforced, nor are size limits.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from allranks.errors import InputError
from allranks.local import safe_paths
from allranks.local.pod.env import PlacedPod, expand, field_value, resource_value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from allranks.local.plan.model import ContainerPlan, PodPlan, ReleasePlan
    from allranks.local.plan.rewrite import Rewriter

_FILE_MODE = 0o644
_FOLDER_SOURCES = frozenset({"emptyDir", "ephemeral", "persistentVolumeClaim", "hostPath"})
_FILE_SOURCES = frozenset({"configMap", "secret", "projected", "downwardAPI"})
_TERMINATION_LOG = "/dev/termination-log"


@dataclass(frozen=True, slots=True)
class VolumeFolders:
    """The folders of a pod's volumes.

    Attributes:
        pod: the folder of this attempt of the pod.
        claims: the folder of the namespace's claims.
        config_maps: the folder of ConfigMaps that are not in the manifests, because they were made
            after the run's start; only a volume that is optional looks there.
    """

    pod: Path
    claims: Path
    config_maps: Path

    def termination_log(self, container: str) -> Path:
        """The file with a container's termination message."""
        return self.pod / "termination" / container


@dataclass(frozen=True, slots=True)
class _File:
    """A file of a volume; `literal` where the manifest has its content."""

    content: bytes
    mode: int
    literal: bool


def termination_path(container: ContainerPlan) -> str:
    """The path at which the container writes its termination message."""
    return str(container.manifest.get("terminationMessagePath") or _TERMINATION_LOG)


@dataclass(frozen=True, slots=True)
class ContainerMounts:
    """The mounts of a container.

    Attributes:
        release: where ConfigMaps and Secrets come from.
        pod: the pod.
        container: the container.
        folders: where the pod's volumes are.
    """

    release: ReleasePlan
    pod: PlacedPod
    container: ContainerPlan
    folders: VolumeFolders

    def paths(self, scope: Mapping[str, str]) -> dict[str, str]:
        """The folder or file on this machine by mount path; nothing is created.

        Args:
            scope: the container's variables, for ``subPathExpr``.

        Raises:
            InputError: a mount names no volume, a volume has no counterpart here, or a subPath
                leaves its volume.
        """
        log = self.folders.termination_log(self.container.name)
        paths = {termination_path(self.container): str(log)}
        for mount in self._mounts():
            path = str(PurePosixPath(str(mount["mountPath"])))
            if path in {"/", "."}:
                raise InputError(f"cannot mount {mount['name']!r} over {path}", path=self._where())
            base = self._base(self._volume(mount))
            paths[path] = str(base / self._sub_path(mount, scope))
        return paths

    def materialise(self, scope: Mapping[str, str], rewriter: Rewriter) -> None:
        """Create the mounted folders and files.

        Args:
            scope: the container's variables, for ``subPathExpr``.
            rewriter: for the files that a manifest spells out.

        Raises:
            InputError: a ConfigMap, Secret or key is not in the manifests.
        """
        log = self.folders.termination_log(self.container.name)
        log.parent.mkdir(parents=True, exist_ok=True)
        log.touch()
        for mount in self._mounts():
            volume = self._volume(mount)
            kind = _source(self.pod.plan, volume)
            if kind in _FILE_SOURCES:
                _write(self._base(volume), self.files(volume), rewriter)
                if kind == "secret":
                    self._base(volume).chmod(0o700)
        for path in self.paths(scope).values():
            if not Path(path).exists():
                Path(path).mkdir(parents=True)

    def check(self) -> None:
        """Raise the errors of `materialise`, without creating anything.

        Raises:
            InputError: see `paths` and `materialise`.
        """
        self.paths({})
        for mount in self._mounts():
            volume = self._volume(mount)
            if _source(self.pod.plan, volume) in _FILE_SOURCES:
                self.files(volume)

    def files(self, volume: Mapping[str, Any]) -> dict[str, _File]:
        """The files of a configMap, secret, projected or downwardAPI volume."""
        kind = _source(self.pod.plan, volume)
        source = volume[kind]
        mode = _mode(source.get("defaultMode"), _FILE_MODE)
        if kind != "projected":
            return self._within(dict(self._source_files(kind, source, mode)))
        files: dict[str, _File] = {}
        for part in source.get("sources") or ():
            for part_kind, part_source in part.items():
                if part_kind not in _FILE_SOURCES:
                    raise InputError(
                        f"volume {volume['name']!r} projects {part_kind}, which this machine "
                        "does not have",
                        path=self._where(),
                    )
                files.update(self._source_files(part_kind, part_source, mode))
        return self._within(files)

    def _within(self, files: dict[str, _File]) -> dict[str, _File]:
        for path in files:
            safe_paths.relative(path, "path", self._where())
        return files

    def _where(self) -> str:
        return f"Pod/{self.pod.plan.name} container {self.container.name}"

    def _mounts(self) -> Sequence[Mapping[str, Any]]:
        return self.container.manifest.get("volumeMounts") or ()

    def _volume(self, mount: Mapping[str, Any]) -> Mapping[str, Any]:
        volumes = {
            str(volume["name"]): volume for volume in self.pod.plan.spec.get("volumes") or ()
        }
        if str(mount.get("name")) not in volumes:
            raise InputError(
                f"mounts volume {mount.get('name')!r}, which the pod does not have",
                path=self._where(),
                hint=f"the pod has {', '.join(sorted(volumes)) or 'no volumes'}",
            )
        volume: Mapping[str, Any] = volumes[str(mount["name"])]
        return volume

    def _base(self, volume: Mapping[str, Any]) -> Path:
        base = self._where()
        name = safe_paths.segment(str(volume["name"]), "volume", base)
        safe_paths.segment(self.container.name, "container", base)
        kind = _source(self.pod.plan, volume)
        if kind in _FILE_SOURCES:
            return self.folders.pod / "mounts" / self.container.name / name
        if kind == "persistentVolumeClaim":
            claim = safe_paths.segment(str(volume[kind]["claimName"]), "claimName", base)
            return self.folders.claims / claim
        if kind == "hostPath":
            return Path(str(volume[kind]["path"]))
        return self.folders.pod / "volumes" / name

    def _sub_path(self, mount: Mapping[str, Any], scope: Mapping[str, str]) -> str:
        text = str(mount.get("subPath") or "") or expand(str(mount.get("subPathExpr") or ""), scope)
        path = PurePosixPath(text)
        if path.is_absolute() or ".." in path.parts:
            raise InputError(
                f"subPath {text!r} leaves its volume",
                path=self._where(),
                hint="use a relative path without ..",
            )
        return text

    def _source_files(
        self, kind: str, source: Mapping[str, Any], mode: int
    ) -> Iterator[tuple[str, _File]]:
        if kind == "downwardAPI":
            yield from self._downward_files(source, mode)
            return
        # A projected Secret is named by `name`, a Secret volume by `secretName`.
        name = str(source.get("secretName") or source.get("name") or "")
        release = self.release
        data = (release.configmaps if kind == "configMap" else release.secrets).get(name)
        if data is None:
            if source.get("optional"):
                if kind == "configMap":
                    yield from self._later_files(name, mode)
                return
            raise InputError(
                f"a volume needs the {kind} {name!r}, which is not in the manifests",
                path=self._where(),
                hint="add it to the release, or mark it optional",
            )
        for item in source.get("items") or [{"key": key, "path": key} for key in data]:
            if item["key"] in data:
                content, own_mode = data[item["key"]], _mode(item.get("mode"), mode)
                literal = kind == "configMap" and item["key"] not in release.binary.get(name, ())
                yield str(item["path"]), _File(content, own_mode, literal=literal)
            elif not source.get("optional"):
                raise InputError(
                    f"a volume needs key {item['key']!r} of the {kind} {name!r}, which has "
                    f"{', '.join(sorted(data)) or 'none'}",
                    path=self._where(),
                )

    def _later_files(self, name: str, mode: int) -> Iterator[tuple[str, _File]]:
        """The files of a ConfigMap that was made after the run's start; none where none was."""
        folder = self.folders.config_maps / safe_paths.segment(name, "configMap", self._where())
        for path in sorted(folder.iterdir()) if folder.is_dir() else ():
            yield path.name, _File(path.read_bytes(), mode, literal=False)

    def _downward_files(self, source: Mapping[str, Any], mode: int) -> Iterator[tuple[str, _File]]:
        for item in source.get("items") or ():
            if item.get("fieldRef"):
                text = field_value(self.pod, str(item["fieldRef"].get("fieldPath", "")))
            else:
                reference = item.get("resourceFieldRef") or {}
                text = resource_value(self.pod.plan, reference, self.container.name)
            own_mode = _mode(item.get("mode"), mode)
            yield str(item["path"]), _File(text.encode(), own_mode, literal=False)


def _source(pod: PodPlan, volume: Mapping[str, Any]) -> str:
    kinds = [key for key in volume if key != "name"]
    if not kinds:
        return "emptyDir"  # as the API server defaults it
    if kinds[0] not in _FOLDER_SOURCES | _FILE_SOURCES:
        raise InputError(
            f"volume {volume['name']!r} is of the kind {kinds[0]}, which is not on this machine",
            path=f"Pod/{pod.name}",
            hint="use a persistentVolumeClaim, hostPath or emptyDir",
        )
    return kinds[0]


def _write(base: Path, files: Mapping[str, _File], rewriter: Rewriter) -> None:
    base.mkdir(parents=True, exist_ok=True)
    for name, file in files.items():
        path = base / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)  # its mode may forbid to write it again
        path.write_bytes(rewriter.content(file.content) if file.literal else file.content)
        path.chmod(file.mode)


def _mode(value: Any, default: int) -> int:
    return default if value is None else int(value)
