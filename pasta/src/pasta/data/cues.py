"""Words that give a dependence away: pieces that lean on what stands before them, and conclusions."""

from __future__ import annotations

import re

#: A step that begins so comes after another step.
_FOLLOWS = re.compile(
    r"\W*(?:then|next|after (?:that|this|which|the|you)|afterwards|finally|lastly|once|when the|while the|now|"
    r"repeat|continue|return to|go back|step \d)\b(?![-’'])",
    re.IGNORECASE,
)
#: The same in Chinese and Japanese, where no space ends a word.
_FOLLOWS_IN_SIGNS = re.compile(
    r"\W*(?:然后|然後|接着|接著|接下来|接下來|随后|隨後|之后|之後|最后|最後|次に|つぎに|その後|それから)"
)
#: A paragraph that begins so goes on from the one before it.
_LEANS = re.compile(
    r"\W*(?:then|next|after (?:that|this|which)|afterwards|finally|lastly|once (?:you|the|it|this|that)|now|so|thus|"
    r"therefore|hence|but|yet|and|or|however|nevertheless|nonetheless|still|instead|otherwise|as a result|"
    r"consequently|in (?:this|that|these|those|such)|for this|because of (?:this|that)|due to (?:this|that)|"
    r"it|its|this|that|these|those|they|their|them|he|she|his|her|such|the (?:same|former|latter|above|other|second)|"
    r"another|similarly|likewise|meanwhile|later|also|too|as well|repeat|continue|again|"
    r"on the other hand|by contrast|in contrast|in other words|that is|i\.e)\b(?![-’'])",
    re.IGNORECASE,
)
#: A piece that says this sums up, or speaks about, what stands before it.
_CONCLUDES = re.compile(
    r"\W*(?:in (?:conclusion|summary|short|all|the end|general|essence|sum)|to (?:conclude|sum|summari[sz]e)|"
    r"overall|all in all|ultimately|altogether|these|those|this|by (?:following|using|doing|implementing|taking|"
    r"incorporating|combining|adopting|embracing|understanding)|with (?:these|this|those|all)|following these|remember|"
    r"i hope|hope|each of|all of|both|whichever|whatever|whether|note that|please note|if you|let me know|so)\b",
    re.IGNORECASE,
)
_REFERS = re.compile(
    r"\b(?:these|those|above|aforementioned|as (?:mentioned|noted|stated|described|discussed)|such|previous|"
    r"earlier|former|latter|step \d|overall|altogether|together|each of|all of (?:these|the))\b",
    re.IGNORECASE,
)


def follows(text: str) -> bool:
    """Whether a list item begins like a step that others come before."""
    return _FOLLOWS.match(text) is not None or _FOLLOWS_IN_SIGNS.match(text) is not None


def leans_back(text: str) -> bool:
    """Whether a piece begins in the middle of a thought."""
    return _LEANS.match(text) is not None


def concludes(text: str) -> bool:
    """Whether a text begins by summing up what stands before it."""
    return _CONCLUDES.match(text) is not None


def refers_back(text: str) -> bool:
    """Whether a text sums up, or points at, what stands before it."""
    return concludes(text) or _REFERS.search(text) is not None
