"""Widths that a preset has as numbers do not follow d_model, and it is said."""

import pytest
from trained_study import design_table

from paribus.design.arms import width_notes
from paribus.spec import load, presets
from paribus.spec.design_reading import load_design
from paribus.spec.run import run_width_note
from paribus.spec.widths import width_note, written_table

SHRUNK = (
    "d_model is 64, and t5-v1.1 has 768; d_head 64 and d_ff 2048 stay as t5-v1.1 has them; "
    "set them too for a model that is smaller or larger throughout"
)


@pytest.mark.parametrize(
    ("source", "changes", "note"),
    [
        ("t5-v1.1", {"d_model": 64}, SHRUNK),
        ({"preset": "t5-v1.1", "d_model": 64}, {}, SHRUNK),
        ({"preset": "t5-v1.1"}, {"d_model": 64, "n_layers": 2}, SHRUNK),
        ("t5-v1.1", {}, None),
        ("t5-v1.1", {"d_model": 768}, None),
        ("t5-v1.1", {"d_model": 64, "d_head": 16, "d_ff": 192}, None),
        ("t5-v1.1", {"d_model": 64, "d_head": 64, "feed_forward": {"d_ff": 2048}}, None),
        ("gpt2", {"d_model": 96}, None),
        (
            "t5",
            {"d_model": 64, "attention": {"kind": "multi_head", "n_heads": 4, "d_head": 16}},
            None,
        ),
    ],
)
def test_the_widths_a_preset_keeps_are_named(source, changes, note):
    assert width_note(written_table(source, changes)) == note


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("llama", "d_ff 11008"),
        ("mixtral", "d_expert 14336"),
        ("palm", "d_head 256"),
        ("t5", "d_head 64"),
    ],
)
def test_every_preset_with_widths_of_its_own_says_so(name, kept):
    note = width_note({"preset": name, "d_model": 128})
    assert note is not None
    assert f"; {kept} stays as {name} has it; set it too" in note


def test_a_file_is_read_for_what_it_changes(tmp_path):
    (tmp_path / "mine.toml").write_text('preset = "t5-v1.1"\nd_model = 64\n')
    assert width_note(written_table(tmp_path / "mine.toml")) == SHRUNK


@pytest.mark.parametrize("name", presets())
def test_a_preset_as_it_is_needs_no_note_and_keeps_its_sizes(name):
    assert width_note(written_table(name)) is None
    assert load(name, changes={}) == load(name)


def test_a_run_and_the_arms_of_a_design_are_told_too():
    small = {"preset": "t5-v1.1", "d_model": 64}
    run = {"architecture": small, "training": {"n_steps": 3}}
    assert run_width_note(run) == SHRUNK
    assert (
        run_width_note({**run, "architecture": "t5-v1.1"}, {"architecture.d_model": 64}) == SHRUNK
    )
    assert run_width_note({**run, "architecture": "t5-v1.1"}) is None
    design = load_design(design_table())
    assert width_notes(design) == []
    arms = {name: {} for name in design.arms}
    base = {**design.base, "architecture": small}
    assert width_notes(design.model_copy(update={"base": base, "arms": arms})) == [SHRUNK]
    arms["full"] = {"architecture": {"attention": {"d_head": 16}, "feed_forward": {"d_ff": 256}}}
    (note,) = width_notes(design.model_copy(update={"base": base, "arms": arms}))
    assert note == f"reverse, causal: {SHRUNK}"


def test_of_many_widths_all_are_named():
    note = width_note({"preset": "deepseek-v3", "d_model": 128})
    assert note is not None
    assert (
        "d_latent 512, d_query_latent 1536, d_content 128, d_rotary 64, d_value 128, d_ff 18432 and"
        " d_exp" in note
    )
