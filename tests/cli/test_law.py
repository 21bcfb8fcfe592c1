"""`paribus law`: a scaling law from a file of points."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from planted_laws import exact_points, planted_laws
from published_points import PUBLISHED, published_points

import paribus as pb
from paribus.analyse.laws.points import LawPoint

HEADER = "parameters,tokens,loss"


def write(path, points, header=HEADER):
    lines = [f"{one.parameters},{one.tokens},{one.loss}" for one in points]
    path.write_text("\n".join([header, *lines, ""]))
    return path


@pytest.fixture
def points_file(tmp_path):
    return write(tmp_path / "points.csv", published_points(noise=0.005))


def test_json_has_each_number_with_its_interval(ask, points_file):
    answer = ask("law", points_file, "--json")
    assert answer.status == 0
    assert answer.err == ""
    found = json.loads(answer.out)
    assert list(found) == ["E", "A", "B", "alpha", "beta"]
    for name, value in PUBLISHED.items():
        assert list(found[name]) == ["estimate", "low", "high"]
        assert found[name]["low"] < value < found[name]["high"]


def test_the_table_has_a_line_for_each_number(ask, points_file):
    with points_file.open("a") as file:
        file.writelines(f"1e8,{k}e8,{9 + k}\n" for k in range(1, 6))
    lines = ask("law", points_file, "--drop-highest", "5").out.splitlines()
    assert lines[0].split() == ["240", "points", "estimate", "low", "high"]
    assert [line.split()[0] for line in lines[1:6]] == ["E", "A", "B", "alpha", "beta"]
    assert "Huber's loss of ln L with delta 0.001; 95 % intervals from 1,000 draws" in lines[-1]


def test_the_highest_losses_can_be_dropped(ask, points_file):
    points = published_points(noise=0.005)
    with points_file.open("a") as file:
        file.writelines(f"1e8,{k}e8,{9 + k}\n" for k in range(1, 6))
    found = json.loads(ask("law", points_file, "--json", "--drop-highest", "5").out)
    plain = write(points_file.with_name("plain.csv"), points)
    assert found == json.loads(ask("law", plain, "--json").out)


def test_each_arm_has_its_own_law(ask, tmp_path):
    one, two = planted_laws(np.random.default_rng(1), 2)
    lines = [
        f"{arm},{seed},{p.parameters},{p.tokens},{p.loss}"
        for arm, law in (("causal", one), ("prefix", two))
        for p in exact_points(law)
        for seed in (1, 2)
    ]
    path = tmp_path / "arms.csv"
    path.write_text("\n".join(["arm,seed,parameters,tokens,loss", *lines]))
    found = json.loads(ask("law", path, "--json").out)
    assert list(found) == ["causal", "prefix"]
    assert found["causal"]["alpha"]["estimate"] == pytest.approx(one[3], rel=1e-3)
    assert found["prefix"]["alpha"]["estimate"] == pytest.approx(two[3], rel=1e-3)
    out = ask("law", path).out
    assert "causal, 26 points" in out
    assert "prefix, 26 points" in out


def test_three_sizes_have_a_law_without_intervals(ask, tmp_path):
    law = planted_laws(np.random.default_rng(1), 1)[0]
    points = exact_points(law)
    sizes = sorted({one.parameters for one in points})[:3]
    few = [one for one in points if one.parameters in sizes]
    path = write(tmp_path / "few.csv", few)
    answer = ask("law", path, "--json")
    assert answer.err.startswith("note: there is no interval: points are redrawn for it, and each")
    assert "a fourth such size would give one" in answer.err
    alpha = json.loads(answer.out)["alpha"]
    assert (alpha["low"], alpha["high"]) == (None, None)
    assert alpha["estimate"] == pytest.approx(law[3], rel=1e-2)
    lines = ask("law", path).out.splitlines()
    assert [line.split()[2:] for line in lines[1:6]] == [["–", "–"]] * 5
    assert "intervals from" not in lines[-1]
    assert "95 % intervals from 1,000 draws" in ask("law", write(tmp_path / "all.csv", points)).out


def lattice(loss):
    """Five sizes from 1M to 100M with 5, 20 and 80 tokens for each parameter."""
    places = [(n, k * n) for n in np.geomspace(1e6, 1e8, 5) for k in (5, 20, 80)]
    return [LawPoint(n, tokens, loss(n, tokens)) for n, tokens in places]


# 3 with a standard deviation of 0.3, whatever the size and the tokens
NOISE = (3.18, 3.012, 2.912, 2.765, 2.923, 3.002, 2.917, 3.388, 3.302, 2.187, 2.433, 2.948)
NOISE = (*NOISE, 2.873, 3.064, 3.065)


def noise_file(folder):
    losses = iter(NOISE)
    return write(folder / "noise.csv", lattice(lambda *_: next(losses)))


def refuse_constant(name):
    raise AssertionError(f"JSON has no {name}")


def test_points_without_a_law_have_no_bound_and_are_said_to_say_too_little(ask, tmp_path):
    path = noise_file(tmp_path)
    answer = ask("law", path)
    assert answer.status == 0
    assert answer.err.startswith("note: these points say too little for a law: alpha and beta have")
    lines = [re.split(r"\s{2,}", line) for line in answer.out.splitlines()[1:6]]
    ends = {name: (low, high) for name, _, low, high in lines}
    assert ends["alpha"] == ends["beta"] == ("no bound", "no bound")
    assert ends["A"][1] == ends["B"][1] == "no bound"
    found = json.loads(ask("law", path, "--json").out, parse_constant=refuse_constant)
    assert list(found) == ["E", "A", "B", "alpha", "beta"]
    assert list(found["alpha"]) == ["estimate", "low", "high"]
    assert found["alpha"]["low"] is None
    assert found["A"]["high"] is None
    assert abs(found["beta"]["estimate"]) > 10


def test_the_notes_of_a_law_name_its_arm(ask, tmp_path):
    path = noise_file(tmp_path)
    header, *lines = path.read_text().splitlines()
    path.write_text("\n".join([f"arm,{header}", *(f"causal,{line}" for line in lines)]))
    assert ask("law", path).err.startswith("note: causal: these points say too little for a law")


def test_a_loss_that_rises_with_size_is_not_called_a_law(ask, tmp_path):
    path = write(tmp_path / "rise.csv", lattice(lambda n, tokens: 2 + 0.1 * np.log(n)))
    answer = ask("law", path)
    assert "the loss does not fall with parameters" in answer.err
    assert "so the law does not describe it" in answer.err
    found = json.loads(ask("law", path, "--json").out)
    assert found["alpha"]["estimate"] < 0
    # an E of 0 in every draw bounds nothing
    assert found["E"] == {"estimate": 0, "low": None, "high": None}
    floor = answer.out.splitlines()[1]
    assert floor.split() == ["E", "0", "no", "bound", "no", "bound"]


def test_a_loss_that_rises_with_tokens_alone_is_said_of_tokens(ask, tmp_path):
    path = write(
        tmp_path / "rise.csv", lattice(lambda n, tokens: 1 + 40 * n**-0.3 + 0.2 * np.log(tokens))
    )
    note = ask("law", path).err
    assert "the loss does not fall with tokens in this table (beta is not above 0)" in note


def test_a_single_point_is_too_few_and_not_called_proportional(ask, tmp_path):
    path = tmp_path / "one.csv"
    path.write_text("parameters,tokens,loss\n1e6,2e7,3.1\n")
    answer = ask("law", path)
    assert answer.status == 2
    assert "proportional" not in answer.err
    assert "1 size, 0 with durations a factor of 4 or more apart" in answer.err


def test_sizes_that_count_as_one_are_named_where_there_are_too_few(ask, tmp_path):
    sizes = (1e6, 1.04e6, 1.08e6, 1.12e6)
    points = [LawPoint(n, k * n, 3 / k + n * 1e-7) for n in sizes for k in (5, 20)]
    answer = ask("law", write(tmp_path / "close.csv", points))
    assert answer.status == 2
    counted = "2 sizes (4 are given, and those within 10 % of each other count as one), 2 with"
    assert counted in answer.err
    few = write(tmp_path / "few.csv", points[::2])
    words = "count as one) for a broken law; use 8 or more"
    assert words in ask("law", few, "--broken").err


@pytest.fixture
def broken_file(tmp_path):
    """Eight sizes of three seeds; the exponent goes from 0.1 to 0.3 at 3e7 parameters."""
    draws = np.random.default_rng(2)
    lines = [HEADER]
    for size in np.geomspace(1e6, 1e9, 8):
        bend = 0.3 * np.logaddexp(0, np.log(size / 3e7) / 0.3)
        loss = 0.5 + 6 * size**-0.1 * np.exp(-0.2 * bend)
        for _ in range(3):
            lines.append(f"{size},1e10,{loss * np.exp(0.002 * draws.standard_normal())}")
    path = tmp_path / "broken.csv"
    path.write_text("\n".join(lines))
    return path


@pytest.mark.parametrize("factor", [1e-300, 1e-6, 1e6, 1e300])
def test_a_factor_of_all_losses_changes_only_what_is_in_their_unit(ask, tmp_path, factor):
    law = planted_laws(np.random.default_rng(1), 1)[0]
    points = [replace(one, loss=one.loss * factor) for one in exact_points(law)]
    answer = ask("law", write(tmp_path / "scaled.csv", points), "--json")
    assert answer.err == ""
    found = json.loads(answer.out, parse_constant=refuse_constant)
    floor, log_a, _, alpha, beta = law
    assert found["E"]["estimate"] / factor == pytest.approx(floor, rel=1e-3)
    assert found["alpha"]["estimate"] == pytest.approx(alpha, rel=1e-3)
    assert found["beta"]["estimate"] == pytest.approx(beta, rel=1e-3)
    if factor < 1e300:
        assert np.log(found["A"]["estimate"] / factor) == pytest.approx(log_a, abs=1e-2)


def test_a_factor_of_all_losses_does_not_move_a_break(ask, broken_file):
    whole = json.loads(ask("law", broken_file, "--broken", "--json").out)
    header, *lines = broken_file.read_text().splitlines()
    scaled = [",".join([*line.split(",")[:2], f"{line.split(',')[2]}e300"]) for line in lines]
    broken_file.write_text("\n".join([header, *scaled]))
    answer = ask("law", broken_file, "--broken", "--json")
    assert answer.err == ""
    found = json.loads(answer.out)
    assert found["F"] == pytest.approx(whole["F"], rel=1e-4)
    assert found["broken"]["break"] == pytest.approx(whole["broken"]["break"], rel=1e-3)
    assert found["broken"]["E"] / 1e300 == pytest.approx(whole["broken"]["E"], rel=1e-3)
    log_factor = 300 * np.log(10)
    assert found["broken"]["ln_b"] - log_factor == pytest.approx(whole["broken"]["ln_b"], rel=1e-3)


def test_a_break_is_found_and_told(ask, broken_file):
    found = json.loads(ask("law", broken_file, "--broken", "--json").out)
    assert found["is_broken"]
    assert found["df"] == [3, 16]
    assert found["p"] < 0.05
    place = found["broken"]["break"]
    assert place["low"] < 3e7 < place["high"]
    out = ask("law", broken_file, "--broken").out
    assert out.splitlines()[0].split() == ["8", "sizes", "with", "a", "break", "without"]
    assert "The law is broken: F(3, 16) = " in out
    assert " parameters, 95 % interval " in out


def test_a_broken_law_of_few_sizes_is_refused(ask, points_file, broken_file):
    lines = broken_file.read_text().splitlines()
    broken_file.write_text("\n".join(lines[:-3]))
    answer = ask("law", broken_file, "--broken")
    assert answer.status == 2
    assert "7 sizes for a broken law; use 8 or more, or the law without" in answer.err
    assert "durations; a broken law is one of size alone" in ask("law", points_file, "--broken").err


def test_other_columns_are_named_as_not_used(ask, tmp_path):
    points = exact_points(planted_laws(np.random.default_rng(1), 1)[0])
    path = tmp_path / "points.csv"
    lines = [f"{p.parameters},{p.tokens},{p.loss},1" for p in points]
    path.write_text("\n".join([f"{HEADER},flops", *lines]))
    assert ask("law", path).err == "note: columns that are not used: flops\n"


def test_the_function_gives_what_the_command_prints(points_file):
    found = pb.law(points_file)
    assert list(found) == [""]
    assert found[""]["alpha"].low < 0.348 < found[""]["alpha"].high


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty; write a header with the columns parameters, tokens, loss"),
        ("parameters,token,loss\n1,1,1\n", "has no column 'tokens'; did you mean 'token'?"),
        (
            "parameters,loss\n1,1\n",
            "no column 'tokens'; add it, or rename what the first line has:",
        ),
        ("N,D,L\n1,1,1\n", "no columns 'parameters', 'tokens', 'loss'; add them, or rename"),
        ("Parameters,Tokens,loss\n1,1,1\n", "did you mean 'Parameters, Tokens'? add them, or"),
        ("1e6,2e7,3\n", "begins with numbers; write a first line that names the columns"),
        ("parameters,tokens,loss,loss\n", "has the column 'loss' more than once"),
        (f"{HEADER}\n", "has a header and no line below it"),
        (f"{HEADER}\n1e6,2e7,three\n", "line 2: loss is 'three'; use a number above 0"),
        (f"{HEADER}\n1e6,2e7,3\n0,2e7,3\n", "line 3: parameters is 0; use a number above 0"),
        (f"{HEADER}\n1e6,2e7,nan\n", "line 2: loss is nan; use a number above 0"),
        (f"{HEADER}\n1e6,2e7\n", "line 2: 2 values under 3 columns; give one for each"),
        (f"{HEADER},seed\n1e6,2e7,3,x\n", "line 2: seed is 'x'; use a whole number"),
        (f"{HEADER},arm\n1e6,2e7,3,\n", "line 2: arm is empty; name the arm of each line"),
        (f'{HEADER}\n"1e6,2e7,3\n', "quote it as CSV does"),
        ("parameters;tokens;loss\n1e6;2e7;3\n", "separates its columns by semicolons; use commas"),
        ("parameters\ttokens\tloss\n", "separates its columns by tabs; use commas"),
        (f"{HEADER}\n1e6,2e7,3\n1e6,4e7,3\n2e6,2e7,3\n", "every loss is 3, so there is no law"),
        (f"{HEADER}\n1e6,2e7,3\n1e6,4e7,2e300\n", "losses go from 3 to 2e+300, further than a"),
        (f"{HEADER}\n1e6,2e7,3\n2e6,4e7,2.9\n", "tokens are proportional to parameters"),
        (f"{HEADER}\n1e6,5e6,3\n1e6,2e7,2.9\n", "1 size, 1 with durations a factor of 4"),
    ],
)
def test_a_file_that_is_no_table_of_points_is_refused(ask, tmp_path, text, words):
    path = tmp_path / "points.csv"
    path.write_text(text)
    answer = ask("law", path)
    assert answer.status == 2
    assert words in answer.err


def test_a_file_that_cannot_be_read_is_refused(ask, tmp_path):
    answer = ask("law", "nowhere.csv")
    assert answer.status == 2
    assert "nowhere.csv cannot be read: No such file or directory; name a CSV file" in answer.err
    (tmp_path / "latin.csv").write_bytes(b"parameters,tok\xe9ns")
    assert "is not UTF-8 at byte 14" in ask("law", "latin.csv").err


def test_more_points_than_there_are_cannot_be_dropped(ask, points_file):
    answer = ask("law", points_file, "--drop-highest", "240")
    assert answer.status == 2
    assert "--drop-highest is 240 for 240 points; use 0 to 239" in answer.err
