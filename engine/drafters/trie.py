"""Several continuations as one draft tree: what they have in common is verified once."""

from __future__ import annotations

import torch

from engine.tree import DraftTree


class Trie:
    """Paths below a root, of at most `most` nodes, numbered as they come: parents precede children."""

    def __init__(self, root: int, most: int | None = None) -> None:
        self._most = most
        self._tokens = [root]
        self._parents = [-1]
        self._children: dict[tuple[int, int], int] = {}  # parent and token -> node

    def add(self, path: list[int]) -> list[int]:
        """The root, then the nodes of a path of tokens, old ones and new; it ends where there is no room."""
        nodes = [0]
        for token in path:
            node = self._children.get((nodes[-1], token), len(self._tokens))
            if node == len(self._tokens):
                if self._most is not None and node > self._most:
                    break
                self._children[nodes[-1], token] = node
                self._tokens.append(token)
                self._parents.append(nodes[-1])
            nodes.append(node)
        return nodes

    def tree(self) -> DraftTree:
        """All that was added."""
        return DraftTree(torch.tensor(self._tokens), torch.tensor(self._parents))
