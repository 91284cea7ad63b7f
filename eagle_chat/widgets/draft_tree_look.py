"""How a draft tree looks: every role by weight and style first, then by the colours of the theme."""

PREFIX = "draft-tree--"
LOOK = """
DraftTreeView {
    height: 1fr;
    scrollbar-size: 1 1;
    overflow: auto auto;

    & > .draft-tree--root { color: $tree-root; text-style: bold; }
    & > .draft-tree--accepted { color: $tree-accepted; text-style: bold; }
    & > .draft-tree--bonus { color: $tree-bonus; text-style: bold underline; }
    & > .draft-tree--rejected { color: $tree-rejected; }
    & > .draft-tree--unreachable { color: $tree-unreachable; }
    & > .draft-tree--dropped { color: $tree-dropped; text-style: italic; }
    & > .draft-tree--pending { color: $tree-pending; }
    & > .draft-tree--edge { color: $tree-edge; }
    & > .draft-tree--edge-accepted { color: $tree-accepted; }
    & > .draft-tree--score { color: $tree-score; }
    & > .draft-tree--label { color: $tree-unreachable; }
    & > .draft-tree--heading { color: $tree-score; }
    &:focus > .draft-tree--heading { color: $tree-accepted; text-style: bold; }

    &:nocolor, &:ansi {
        & > .draft-tree--unreachable { text-style: dim; }
        & > .draft-tree--dropped { text-style: dim italic; }
        & > .draft-tree--edge { text-style: dim; }
        & > .draft-tree--label { text-style: dim; }
        & > .draft-tree--edge-accepted { text-style: bold; }
    }
}
"""
