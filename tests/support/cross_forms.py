"""Every way in which a decoder may see its source, beside what the presets have."""

from typing import Any

# name → preset, changes
CROSS_FORMS: dict[str, tuple[str, dict[str, Any]]] = {
    "rotary": ("t5-v1.1", {"positions": "rotary", "encoder.cross_positions": "rotary"}),
    "merged": ("t5-v1.1", {"positions": "rotary", "encoder.cross_form": "merged"}),
    "merged and rotary": (
        "t5-v1.1",
        {
            "positions": "rotary",
            "encoder.cross_form": "merged",
            "encoder.cross_positions": "rotary",
            "attention.n_kv_heads": 2,
            "attention.qk_norm": True,
        },
    ),
    "one stack": (
        "encdec-shared",
        {"positions": "learned", "encoder.cross_form": "merged", "embedding.norm": True},
    ),
    "one stack and rotary": (
        "encdec-shared",
        {
            "positions": "rotary",
            "encoder.cross_form": "merged",
            "encoder.cross_positions": "rotary",
            "attention.value_norm": True,
            "attention.output_norm": True,
        },
    ),
    "cut": ("t5-v1.1", {"encoder.cross": "nothing"}),
    "merged and cut": (
        "t5-v1.1",
        {"positions": "rotary", "encoder.cross_form": "merged", "encoder.cross": "nothing"},
    ),
}
