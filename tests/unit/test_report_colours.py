"""The colours of the HTML pages: distinguishable for the colour-blind, and legible as text."""

from __future__ import annotations

import itertools
import re
from importlib.resources import files

import pytest

CSS = (files("penstock.show") / "report.css").read_text(encoding="utf-8")
SCHEMES = ("light", "dark", "print")
AREAS = ("source", "target", "moving", "paced", "lost")
# From Machado, Oliveira and Fernandes (2009), for linear RGB.
SIGHT = {
    "usual": ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
}
TO_XYZ = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))
WHITE = (0.9505, 1.0, 1.089)
# CIE76. Equal areas side by side are easily distinguished above 10.
LEAST_DISTANCE = 20
LEAST_CONTRAST = 4.5  # WCAG 2.2, level AA

Triple = tuple[float, float, float]


def colours(scheme: str) -> dict[str, str]:
    blocks = re.findall(r":root \{(.*?)\}", CSS, re.DOTALL)
    return dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", blocks[SCHEMES.index(scheme)]))


def linear(colour: str) -> Triple:
    red, green, blue = (
        value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4
        for value in (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    )
    return red, green, blue


def product(matrix: tuple[Triple, Triple, Triple], vector: Triple) -> Triple:
    a, b, c = (sum(x * y for x, y in zip(row, vector, strict=True)) for row in matrix)
    return a, b, c


def lab(light: Triple) -> Triple:
    def root(value: float) -> float:
        return float(value ** (1 / 3)) if value > 0.008856 else 7.787 * value + 16 / 116

    x, y, z = (
        root(value / white) for value, white in zip(product(TO_XYZ, light), WHITE, strict=True)
    )
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def perceived(colour: str, sight: str) -> Triple:
    red, green, blue = (min(1.0, max(0.0, v)) for v in product(SIGHT[sight], linear(colour)))
    return lab((red, green, blue))


def contrast(first: str, second: str) -> float:
    dark, light = sorted(product(TO_XYZ, linear(each))[1] for each in (first, second))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("sight", SIGHT)
def test_colours_of_time_differ_for_every_kind_of_sight(scheme: str, sight: str) -> None:
    found = colours(scheme)
    for one, other in itertools.combinations(AREAS, 2):
        pairs = zip(perceived(found[one], sight), perceived(found[other], sight), strict=True)
        distance = sum((a - b) ** 2 for a, b in pairs) ** 0.5
        assert distance >= LEAST_DISTANCE, (one, other, distance)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_text_has_enough_contrast(scheme: str) -> None:
    found = colours(scheme)
    for text, ground in (
        *itertools.product(("ink", "quiet"), ("card", "page")),
        *itertools.product(("good", "bad"), ("page",)),
        ("ink", "note"),
    ):
        assert contrast(found[text], found[ground]) >= LEAST_CONTRAST, (text, ground)
