"""The image, built once, and two databases that its containers reach over TCP."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from . import image as images

if TYPE_CHECKING:
    from .image import Image


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    with images.image(tmp_path_factory.mktemp("image")) as made:
        yield made
