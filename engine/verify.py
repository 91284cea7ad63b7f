"""The one verifier: walk the tree along the target's own tokens.

At each node take the token the target would emit there and go to the child that carries it; where there is
none, that token is the bonus. Whatever was drafted, the text is what plain decoding produces. For trees
chosen without looking at the noise this accepts as much as any lossless rule can: a node is accepted with
exactly the target's probability of its path. Equivalent in distribution to sequential speculative sampling
with one-hot proposals (EAGLE-2; Leviathan et al. 2023), with nothing to renormalise.
"""

from torch import Tensor

from engine.sampling import Sampler
from engine.tree import DraftTree


def accept(tree: DraftTree, logits: Tensor, prefix: list[int], sampler: Sampler) -> tuple[list[int], int]:
    """Accepted path (root first) and bonus token.

    `logits` is [N, V]; `prefix` are the committed tokens, whose last is the root. Processors see each node's
    true prefix.
    """
    picks = sampler.pick_all(logits, tree.depths, len(prefix))
    path, prefix = [0], list(prefix)
    while True:
        node = path[-1]
        token = picks[node] if picks is not None else sampler.pick(logits[node], prefix)
        child = tree.child(node, token)
        if child is None:
            return path, token
        path.append(child)
        prefix.append(token)
