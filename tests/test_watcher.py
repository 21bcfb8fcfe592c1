"""What happens while something runs."""

from paribus.watcher import Watcher


def test_a_watcher_does_nothing_unless_a_subclass_does(capfd) -> None:
    watcher = Watcher()
    with watcher.stage("reading", 3):
        watcher.advance(3)
    watcher.row({"step": 0})
    watcher.step(0)
    watcher.note("the run goes on")
    assert capfd.readouterr() == ("", "")
