"""Generated corpora: the i-th document is a pure function of (seed, i).

So any process can make any slice, and a reader knows existing ids without asking the cluster. The seed belongs to
the corpus: the seed of a race never changes a document. Only this package, `sampler` and `stats` import numpy;
this file and `spec` do not, so that a process which only names a corpus need not load it.
`python -m esbench.features.synthetic.generate` is the process that writes documents to a pipe.
"""
