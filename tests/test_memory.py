import pytest

from genmetric import _memory as memory


def test_available_memory_of_linux():
    free = memory.available_memory()
    assert free is None or free > 2**20


def test_available_memory_of_a_control_group(monkeypatch):
    files = {
        "meminfo": "MemTotal: 9000 kB\nMemAvailable:    8000 kB\n",
        "memory.current": "700000\n",
        "memory.stat": "anon 5\ninactive_file 200000\n",
        "memory.max": "1000000\n",
    }
    monkeypatch.setattr(memory.Path, "read_text", lambda self, _: files[self.name])
    assert memory.available_memory() == 1_000_000 - (700_000 - 200_000)
    files["memory.max"] = "max\n"
    assert memory.available_memory() == 8000 * 1024


def test_available_memory_of_other_systems(monkeypatch):
    def missing(*_):
        raise FileNotFoundError

    monkeypatch.setattr(memory.Path, "read_text", missing)
    free = memory.available_memory()
    assert free is None or free > 2**20
    monkeypatch.setattr(memory.os, "sysconf", missing, raising=False)
    assert memory.available_memory() is None


@pytest.mark.parametrize(
    ("n_bytes", "text"), [(999, "999 B"), (432_000_000, "432 MB"), (4.2e15, "4.2e+03 TB")]
)
def test_readable_bytes(n_bytes, text):
    assert memory.readable_bytes(n_bytes) == text


def test_memory_error_before_allocation(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 10**9)
    memory.check_memory(10**9, "This", "Wait.")
    with pytest.raises(MemoryError, match=r"This would take 1 GB, but only 1 GB are free. Wait"):
        memory.check_memory(10**9 + 1, "This", "Wait.")


def test_no_memory_limit_if_unknown(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: None)
    memory.check_memory(10**30, "This", "Wait.")
