#!/bin/bash
# A cell whose disk is not what it asks for.
. docs/outputs/lib
cat > test_liar.py <<'END'
import pytest


@pytest.mark.storage(bus="usb", cache="writethrough", size="64M")
def test_liar(guest):
    pass
END
measured test_liar.py | sed -n '/^_* ERROR at setup/,/^=/p' | grep -v '^=' | folded
