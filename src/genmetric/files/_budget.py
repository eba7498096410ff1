"""Limits on what decoding a model file may cost, in proportion to the size of the file."""

from __future__ import annotations

#: Memory that decoding may use: this factor times the file size, plus `SPARE_MEMORY` bytes.
MEMORY_FACTOR = 4
SPARE_MEMORY = 16 * 2**20
#: Bytes that the checks of decoded estimators may pass over: this factor times the file size, plus
#: `SPARE_WORK`. About a second for a file of 10 MB.
WORK_FACTOR = 64
SPARE_WORK = 256 * 2**20


class Budget:
    """Memory and work that decoding may still use.

    A file can refer to one array many times, and each use can cost a copy or a pass over the
    array. The budget turns these multiplications into an error.

    Parameters
    ----------
    file_size : int
        Size of the file in bytes.
    """

    def __init__(self, file_size: int) -> None:
        self._memory = MEMORY_FACTOR * file_size + SPARE_MEMORY
        self._work = WORK_FACTOR * file_size + SPARE_WORK

    def use_memory(self, n_bytes: int) -> None:
        """Subtract memory that is about to be allocated; raise a ValueError if there is too little."""
        self._memory -= n_bytes
        if self._memory < 0:
            raise ValueError(
                "decoding it would take more memory than model files of this size do; it repeats "
                "its content or declares wrong sizes"
            )

    def use_work(self, n_bytes: int) -> None:
        """Subtract bytes that are about to be processed; raise a ValueError if there are too many."""
        self._work -= n_bytes
        if self._work < 0:
            raise ValueError(
                "decoding it would take longer than model files of this size do; it repeats its "
                "content"
            )
