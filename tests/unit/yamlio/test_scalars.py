from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allranks.yamlio import scalars

TABLE = [
    ("1e-5", 1e-5),
    ("1E+3", 1000.0),
    ("yes", True),
    ("Y", True),
    ("off", False),
    ("n", False),
    ("yEs", "yEs"),
    ("", None),
    ("~", None),
    ("Null", None),
    ("0", 0),
    ("10", 10),
    ("-5", -5),
    ("0.5", 0.5),
    ("00.5", 0.5),
    ("08.5", 8.5),
    ("5.5.5", "5.5.5"),
    ("1Gi", "1Gi"),
    ("500m", "500m"),
    ("1_0.5", 10.5),
    ("\u00b2", "\u00b2"),
    ("1\u00b2", "1\u00b2"),
    ("\u0663", "\u0663"),
    ("999999999999999999", 10**18 - 1),
    ("1234567890123.123456789", 1234567890123.123456789),
    ("0777", 511),
    ("-0777", -511),
    ("0o17", 15),
    ("0x1F", 31),
    ("-0b11", -3),
    ("0b-101", -5),
    ("-0b+1", "-0b+1"),
    ("089", 89.0),
    ("1_000", 1000),
    ("_1", "_1"),
    ("+5", 5),
    (".5", 0.5),
    (".5_5", 0.55),
    ("._5", "._5"),
    ("5.", 5.0),
    ("1.e5", 100000.0),
    ("12:30", "12:30"),
    ("12:30:45", "12:30:45"),
    ("2026-01-02", "2026-01-02"),
    ("=", "="),
    ("1e400", "1e400"),
    ("1e-400", 0.0),
    (".inf", math.inf),
    ("-.Inf", -math.inf),
    ("inf", "inf"),
    ("18446744073709551615", 2**64 - 1),
    ("+18446744073709551615", 1.8446744073709552e19),
    ("18446744073709551616", 1.8446744073709552e19),
    ("0xfffffffffffffffff", "0xfffffffffffffffff"),
    ("-9223372036854775808", -(2**63)),
]


@pytest.mark.parametrize(("text", "expected"), TABLE)
def test_a_plain_scalar_has_helms_type_and_value(text: str, expected: object) -> None:
    """The table of go-yaml v2, with its corners."""
    value = scalars.resolve(text)
    assert (type(expected), expected) == (type(value), value)


def test_not_a_number_is_read() -> None:
    """.nan is a float, for the loader to refuse or to keep."""
    assert math.isnan(scalars.resolve(".NaN"))


@given(st.text(max_size=400))
def test_every_text_resolves_to_something(text: str) -> None:
    """No text raises, and what starts with no hint of a type stays as it is."""
    value = scalars.resolve(text)
    assert value is None or isinstance(value, bool | int | float | str)
    if text[:1] not in scalars.HINTS:
        assert text == value


@given(st.integers(-(2**63), 2**64 - 1))
def test_whole_numbers_of_64_bits_are_exact(number: int) -> None:
    """A whole number is itself in every base, up to 64 bits."""
    assert number == scalars.resolve(str(number))
    sign, digits = ("-", -number) if number < 0 else ("", number)
    assert number == scalars.resolve(f"{sign}0x{digits:x}")
    assert number == scalars.resolve(f"{sign}0o{digits:o}")
    assert number == scalars.resolve(f"{sign}0b{digits:b}")


def test_thousands_of_digits_are_a_float() -> None:
    """More digits than Python reads as a whole number do no harm."""
    assert scalars.resolve("0" * 5000 + "7") == 7
    assert scalars.resolve("9" * 5000) == "9" * 5000
    assert scalars.resolve("0x" + "f" * 5000) == "0x" + "f" * 5000


TAGS = [
    ("str", "1", "1"),
    ("int", "0x10", 16),
    ("float", "3", 3.0),
    ("bool", "yes", True),
    ("null", "~", None),
    ("timestamp", "2001-01-01", "2001-01-01"),
    ("binary", "aG\nk=", "hi"),
    ("set", "x", "x"),
]


@pytest.mark.parametrize(("tag", "text", "expected"), TAGS)
def test_a_tag_gives_its_type(tag: str, text: str, expected: object) -> None:
    """YAML's own tags turn a text into their type."""
    value = scalars.resolve_tagged(f"tag:yaml.org,2002:{tag}", text)
    assert (type(expected), expected) == (type(value), value)


@pytest.mark.parametrize(
    ("tag", "text"),
    [("int", "x"), ("int", "1.5"), ("float", "x"), ("bool", "1"), ("null", "0"), ("binary", "@")],
)
def test_a_tag_that_does_not_fit_is_refused(tag: str, text: str) -> None:
    """A tag that contradicts the text is an error, as in Helm."""
    with pytest.raises(ValueError, match=tag):
        scalars.resolve_tagged(f"tag:yaml.org,2002:{tag}", text)


def test_an_own_tag_means_text() -> None:
    """A tag of somebody's own leaves the text as it is."""
    assert scalars.resolve_tagged("!secret", "1") == "1"


KEYS = [
    (True, "true"),
    (False, "false"),
    (7, "7"),
    (1.5, "1.5"),
    (100000.0, "100000"),
    (1e6, "1e+06"),
    (1e-5, "1e-05"),
    (0.0001, "0.0001"),
    (123456789.123, "1.2345679e+08"),
    (0.1, "0.1"),
    (-0.0, "-0"),
    (1e300, ".inf"),
    (-math.inf, "-.inf"),
    (math.nan, ".nan"),
]


@pytest.mark.parametrize(("value", "expected"), KEYS)
def test_a_key_becomes_the_text_that_go_prints(value: object, expected: str) -> None:
    """Keys are text in JSON: numbers are printed as Go prints 32-bit floats."""
    assert expected == scalars.key_text(value)


@pytest.mark.parametrize("value", [None, 2**63, [], {}])
def test_what_helm_takes_for_no_key_is_refused(value: object) -> None:
    """Null, lists, mappings and numbers beyond 63 bits are no keys."""
    with pytest.raises(ValueError, match="key"):
        scalars.key_text(value)
