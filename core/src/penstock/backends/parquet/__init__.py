"""Parquet files as source and target, local and on S3.

backend.py      the object that the entry points name
location.py     URLs: where they lead, with what settings
filesystems.py  clients: pyarrow's to read data, boto3's for all else on S3
errors.py       what errors of file systems, S3 and pyarrow mean for us
listing.py      which files a URL stands for
footers.py      schemas and row groups, from the footers alone
scan.py         the rows of files as record batches, in bounded memory
types.py        the types in which values travel, and those in which DuckDB reads them
reading.py      DuckDB over files
source.py       facts for planning and verification
snapshot.py     the list of files as a moment to read as of
reader.py       a partition as a stream of record batches; ahead.py: in a thread of its own
target.py       what a target is asked, with load_plan.py, column_types.py, fitting.py, comparing.py
storage.py      a dataset's folder: documents.py, uploads.py
records.py      commit records, one document for each partition; series.py
control.py      the control store: runs.py, and the steps around a load in steps.py, manifest.py
writer.py       record batches into files: output.py, transfer.py, names.py
"""

from __future__ import annotations

from importlib.util import find_spec

from penstock.backends.parquet.backend import ParquetBackend

# Imported where they are used; that one is not installed is said before.
for _name in ("boto3", "duckdb", "pyarrow"):
    if find_spec(_name) is None:
        raise ModuleNotFoundError(f"No module named {_name!r}", name=_name)

local = ParquetBackend(remote=False)
s3 = ParquetBackend(remote=True)
"""The backend objects that the entry points name."""
