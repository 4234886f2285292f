"""Options of an image that guests boot in the appliance's place, and the image that they name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_vmstorage.plugin import options
from pytest_vmstorage.plugin.option_table import value

if TYPE_CHECKING:
    from pytest_vmstorage.image_choice import ListedImage
    from pytest_vmstorage.lab_settings import LabSettings


def image(config: pytest.Config) -> ListedImage | None:
    """The image that guests boot, None for the appliance; raises ConfigError."""
    from pytest_vmstorage.image_choice import choose_image

    listed = options.inventory(config)
    name, sha256, reach = (str(value(config, name)) for name in ("image", "image-sha256", "image-reach"))
    return choose_image(name, sha256, reach, listed.images if listed else {}, options.base_of(config, "image"))


def lab_settings(config: pytest.Config) -> LabSettings:
    """What the user chose for the lab, the image with it; raises ConfigError."""
    return options.lab_settings(config).model_copy(update={"image": image(config)})
