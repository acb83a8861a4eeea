"""What must hold in a tree of runs at any time."""

from cache.page_keys import KEY_BYTES
from cache.prefix_runs import Run, RunTree


def check_tree(tree: RunTree) -> None:
    """Asserts the invariants that the tree's code relies on."""
    runs = _below(tree.root)
    assert tree.pages == sum(run.pages for run in runs)
    assert tree.runs == len(runs)
    order = {mark: number for number, mark in enumerate(tree.recency)}
    assert len(order) == tree.recency.size == sum(len(run.marks) for run in runs)
    assert tree.named_pages == sum(len(mark.names) // KEY_BYTES for mark in order)
    for holder in {mark.holder for mark in order}:
        held = holder.held()
        assert len(held) == len(set(held)) == holder.marks
        assert set(held) == {mark for mark in order if mark.holder is holder}
    for run in runs:
        _check_run(run)
        for holder, mark in run.marks.items():
            assert mark.run is run
            assert mark.holder is holder
            assert 0 < mark.left <= run.pages
            assert len(mark.names) // KEY_BYTES <= mark.left
            above = run.parent.marks.get(holder) if run.parent and run.parent.parent else None
            if above is not None:
                assert order[above] > order[mark], "a run is never older than one below it"


def _check_run(run: Run) -> None:
    assert run.keys
    assert run.marks, "a run that nobody has is dropped"
    assert run.children is None or run.children
    assert run.parent is not None
    assert run.start == run.parent.start + run.parent.pages
    assert max(mark.left for mark in run.marks.values()) == run.pages
    if run.parent.parent is not None:
        for holder in run.marks:
            assert run.parent.marks[holder].left == run.parent.pages, "prefixes are closed"


def _below(run: Run) -> list[Run]:
    children = list((run.children or {}).values())
    return [*children, *(each for child in children for each in _below(child))]
