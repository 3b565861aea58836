"""Where an upload goes, and the names that Azure forbids."""

from __future__ import annotations

import pytest

from allranks.azure import upload
from allranks.azure.upload import BLOCK, Destination, StorageKind
from allranks.errors import InputError

SHARE = Destination(StorageKind.SHARE, "datasets", "mnist")
BLOB = Destination(StorageKind.BLOB, "datasets", "mnist")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("share:datasets", Destination(StorageKind.SHARE, "datasets")),
        ("share:datasets/", Destination(StorageKind.SHARE, "datasets")),
        ("share:datasets/mnist/v1/", Destination(StorageKind.SHARE, "datasets", "mnist/v1")),
        ("blob:datasets/mnist", Destination(StorageKind.BLOB, "datasets", "mnist")),
    ],
)
def test_a_destination_is_a_place_and_a_folder(text: str, expected: Destination) -> None:
    """Slashes at the ends mean nothing."""
    assert expected == upload.parse(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("datasets", "is no destination"),
        ("disk:datasets", "is no destination"),
        ("/mnt/data", "is no destination"),
        ("share:", "the name of a file share is empty"),
        ("share:Datasets", "lower-case letters, digits and -"),
        ("share:my--data", "two - in a row"),
        ("share:-data", "begins with -, and"),
        ("share:ab", "has at least 3"),
        ("share:" + "a" * 64, "has at most 63"),
        ("blob:my_data", "lower-case letters, digits and -"),
        ("share:datasets/a:b", "forbids"),
        ("share:datasets/../other", "or . or .."),
        ("blob:datasets/a//b", "empty"),
    ],
)
def test_what_is_no_destination_is_refused(text: str, words: str) -> None:
    """Each rule of Azure has a message of its own."""
    with pytest.raises(InputError) as refusal:
        upload.parse(text)
    assert words in refusal.value.problem.message


@pytest.mark.parametrize(
    ("destination", "name", "words"),
    [
        (SHARE, "a?.txt", "its name has ?"),
        (SHARE, 'a".txt', 'its name has "'),
        (SHARE, "a\\b", "its name has \\"),
        (SHARE, "a\x01b", "control character '\\x01'"),
        (SHARE, "a\udcffb", "is not UTF-8"),
        (SHARE, "folder./x", "a full stop or a space"),
        (SHARE, "x ", "a full stop or a space"),
        (SHARE, "a/con.txt", "con.txt is the name of a device"),
        (SHARE, "LPT1", "LPT1 is the name of a device"),
        (SHARE, "x" * 256, "256 characters"),
        (SHARE, "/".join(["folder"] * 251), "in more than 250 folders"),
        (SHARE, "/".join(["x" * 200] * 12), "takes 2048"),
        (BLOB, "a\\b", "reads as a /"),
        (BLOB, "x.", "ends with a full stop"),
        (BLOB, "x" * 1024, "at most 1024"),
        (BLOB, "a\nb", "control character '\\n'"),
        (BLOB, "/".join(["a"] * 300), "in more than 254 folders"),
    ],
)
def test_a_name_that_azure_forbids_is_refused(
    destination: Destination, name: str, words: str
) -> None:
    """With the rule, and the file's own path."""
    (problem,) = upload.check_names(destination, [name])
    assert words in problem.message
    assert name == problem.path


@pytest.mark.parametrize("name", ["a", "ä/日本.bin", "COM10.txt", "a b+c#d%e.txt", "x" * 255, ".x"])
def test_any_other_name_is_taken(name: str) -> None:
    """By shares and by blobs."""
    assert not [*upload.check_names(SHARE, [name]), *upload.check_names(BLOB, [name])]


@pytest.mark.parametrize(
    ("size", "expected"), [(1, BLOCK), (BLOCK * 50_000, BLOCK), (BLOCK * 50_000 + 1, BLOCK + 1)]
)
def test_blocks_grow_where_a_blob_would_have_too_many(size: int, expected: int) -> None:
    """A blob has 50,000 of them at most."""
    assert expected == upload.block_size(size)
