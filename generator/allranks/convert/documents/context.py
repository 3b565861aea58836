"""What a converter may know besides its object: the others of the input, and what was chosen."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from allranks.convert.documents import namespaces
from allranks.k8s import fields as k8s

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allranks.convert.documents.document import Document


@dataclass(frozen=True, slots=True)
class Context:
    """What a converter may know besides its object.

    Attributes:
        documents: all objects of the input.
        runtimes: objects that --runtime names: TrainingRuntimes and ClusterTrainingRuntimes.
        namespace: the namespace that is chosen; "" for the objects' own.
        entrypoint: what the image runs where the manifest gives no command; () for unknown.
        home: the namespace of the object that is converted; "" where it names none.
    """

    documents: tuple[Document, ...] = ()
    runtimes: tuple[Document, ...] = ()
    namespace: str = ""
    entrypoint: tuple[str, ...] = ()
    home: str = ""

    def seen_from(self, document: Document) -> Context:
        """The same, as an object of the input sees it: with nothing of another namespace."""
        return replace(self, home=namespaces.of(document.data))

    def objects(
        self, *kinds: str, group: str | None = None, namespace: str = ""
    ) -> Iterator[Document]:
        """The objects of these kinds, of the input and of --runtime; those of the namespace first.

        Of --runtime those of other namespaces count as well: a person has named them.

        Args:
            kinds: the kinds.
            group: their API group; None for any.
            namespace: their namespace; "" for that of the object that is converted.
        """
        home = namespace or self.home

        def is_meant(item: Document) -> bool:
            return item.kind in kinds and group in (None, item.group)

        own = [
            item
            for item in filter(is_meant, self.documents)
            if namespaces.match(home, namespaces.of(item.data))
        ]
        for documents in (own, filter(is_meant, self.runtimes)):
            of_kinds = {id(item.data): item for item in documents}
            manifests = [item.data for item in of_kinds.values()]
            for manifest in namespaces.nearest_first(manifests, home or self.namespace):
                yield of_kinds[id(manifest)]

    def find(
        self, kind: str, name: str, group: str | None = None, namespace: str = ""
    ) -> Document | None:
        """The object of a kind and name; None where the input has none.

        Args:
            kind: the kind.
            name: the name.
            group: its API group; None for any.
            namespace: its namespace; "" for that of the object that is converted.
        """
        objects = self.objects(kind, group=group, namespace=namespace)
        return next((document for document in objects if document.name == name), None)

    def texts_of(self, config_map: str) -> dict[str, str]:
        """The texts of a ConfigMap of the input, by their keys; none where there is no such map."""
        document = self.find("ConfigMap", config_map) if config_map else None
        data = {} if document is None else k8s.mapping(document.data, "data")
        return {key: text for key, text in data.items() if isinstance(text, str)}
