"""Model files: fitted estimators on disk, as arrays and JSON, without any code in them."""

from genmetric.files.archive import ModelFileError
from genmetric.files.classes import TRUSTED_TYPES
from genmetric.files.model_file import load, read_header, save

__all__ = ["TRUSTED_TYPES", "ModelFileError", "load", "read_header", "save"]
