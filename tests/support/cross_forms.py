"""Every way in which a decoder may see its source, beside what the presets have."""

from typing import Any

# name → preset, changes
CROSS_FORMS: dict[str, tuple[str, dict[str, Any]]] = {
    "rotary": ("t5-v1.1", {"positions": "rotary", "encoder.cross_positions": "rotary"}),
}
