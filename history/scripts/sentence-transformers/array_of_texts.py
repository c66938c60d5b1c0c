"""Check whether an array of texts is taken for one text."""

import sys

import numpy

texts = numpy.array(["a", "b", "c"], dtype=object)
try:
    from sentence_transformers.base.model import BaseModel
except ImportError:
    from sentence_transformers import SentenceTransformer as BaseModel
single = BaseModel.is_singular_input(texts)
print("one text" if single else "three texts")
sys.exit(int(bool(single)))
