"""Model files: fitted estimators as arrays and JSON, without code.

Public names: :func:`save`, :func:`load`, :func:`read_header`, :func:`export_map`,
:class:`ModelFileError` and :data:`TRUSTED_TYPES`.
"""

from genmetric.files._archive import ModelFileError
from genmetric.files._export import export_map
from genmetric.files._model_file import load, read_header, save
from genmetric.files._registry import TRUSTED_TYPES

__all__ = ["TRUSTED_TYPES", "ModelFileError", "export_map", "load", "read_header", "save"]
