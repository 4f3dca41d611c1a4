"""Tables 1 and 2, and what docs/results.md shows of the paper's experiments."""

from pathlib import Path

import kept

from paper import beyond, mnist, ptb, ptb_estimate, ptb_figures, ptb_tables
from paper.mnist_tables import table1, table2
from sparsemble.pages.document import chart_file
from sparsemble.results.tables import put_into
from sparsemble.store import read_json

ROOT = Path(__file__).parents[2]
PTB = ROOT / "paper" / "results" / "ptb"


def test_tables_say_what_was_not_run(tmp_path):
    results = mnist.results_in(tmp_path)
    rows = table1(results).rows
    assert [row[0] for row in rows] == [row.method for row in mnist.ROWS]
    assert {row[2] for row in rows} == {"not run"}
    assert [row[-1] for row in rows] == ["1.66", "1.49", "1.53", "1.26", "1.39", "1.26", "1.29"]
    assert table2(results).rows == ()


def test_beyond_the_paper_every_row_has_its_dense_networks(tmp_path):
    assert {row[2] for row in beyond.table(beyond.results_in(tmp_path)).rows} == {"not run"}
    names = [job.result.stem for job in beyond.jobs(seeds=1, out=tmp_path)]
    assert names == [
        f"{name}-seed0" for row in ("mnist-budget", "mnist-warps") for name in (row, f"{row}-dense")
    ]


def test_our_rows_run_before_the_baselines(tmp_path):
    planned = mnist.jobs(seeds=3, ensemble_seeds=2, out=tmp_path)
    names = [job.result.stem for job in planned]
    assert names[:3] == [f"mnist-sgld-gsp-90-seed{k}" for k in range(3)]
    assert len(names) == 6 * 3 + 2
    assert names.index("mnist-sgld-l1-96-seed2") < names.index("mnist-sgld-seed0")
    assert names.index("mnist-sgld-seed0") < names.index("mnist-sgd-seed0")


def test_the_results_page_shows_the_tables_of_the_committed_results(tmp_path):
    copy = tmp_path / "results.md"
    copy.write_bytes((ROOT / "docs" / "results.md").read_bytes())
    results = mnist.results_in(ROOT / "paper" / "results" / "mnist")
    put_into(copy, "mnist", (table1(results), table2(results)))
    found = beyond.results_in(ROOT / "paper" / "results" / "mnist")
    put_into(copy, "beyond", [beyond.table(found)])
    drawn = chart_file(beyond.picture(found, results))
    assert drawn == (ROOT / "docs" / "mnist.svg").read_text()
    for size in ("small", "medium"):
        language = ptb.results_in(PTB, size)
        put_into(copy, f"ptb {size}", ptb_tables.tables(language, size))
    estimate = ptb_estimate.read_estimate(ptb_estimate.estimate_file("large", PTB))
    put_into(copy, "estimate large", [ptb_estimate.table(estimate)])
    put_into(copy, "benchmarks", [kept.table(read_json(ROOT / kept.FILE))])
    assert copy.read_text() == (ROOT / "docs" / "results.md").read_text()


def test_the_figures_shown_are_those_of_the_committed_results(tmp_path):
    drawn = ptb_figures.figures("small", PTB, tmp_path)
    shown = {name: svg for name, svg in drawn.items() if svg is not None}
    assert set(shown) == {f"ptb-small-figure{number}.svg" for number in ("4a", "4b", "5")}
    for name, svg in shown.items():
        assert svg == (ROOT / "docs" / name).read_text()
