"""What a process may use of its machine: limits in files as the kernel lays them out, and real."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from penstock.backends.shared import resources
from penstock.backends.shared.resources import Limits, Room, read_limits, room
from penstock.errors import UsageError

GB = 1 << 30
V2 = "30 23 0:26 {top} {mount} rw,nosuid,nodev,noexec,relatime - cgroup2 cgroup2 rw,nsdelegate\n"
V1 = "31 23 0:27 {top} {mount} rw,nosuid - cgroup cgroup rw,{names}\n"
OTHER = "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro\n"
UNLIMITED = "9223372036854771712"


def lay(root: Path, cgroup: str, mountinfo: str, files: Mapping[str, str]) -> Path:
    """Lay out the files of a kernel below a folder."""
    contents = {"proc/self/cgroup": cgroup, "proc/self/mountinfo": OTHER + mountinfo, **files}
    for name, content in contents.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return root


def test_the_tightest_group_above_counts(tmp_path: Path) -> None:
    base = "sys/fs/cgroup/kubepods.slice"
    lay(
        tmp_path,
        "0::/kubepods.slice/pod1.slice/box.scope\n",
        V2.format(top="/", mount="/sys/fs/cgroup"),
        {
            f"{base}/cpu.max": "max 100000\n",
            f"{base}/memory.max": f"{8 * GB}\n",
            f"{base}/pids.max": "max\n",
            f"{base}/pod1.slice/cpu.max": "150000 100000\n",
            f"{base}/pod1.slice/memory.max": f"{GB}\n",
            f"{base}/pod1.slice/pids.max": "100\n",
            f"{base}/pod1.slice/box.scope/cpu.max": "200000 100000\n",
            f"{base}/pod1.slice/box.scope/memory.max": "max\n",
            f"{base}/pod1.slice/box.scope/pids.max": "4096\n",
            # A neighbour's limits are not ours.
            f"{base}/pod2.slice/memory.max": "1000\n",
        },
    )
    assert read_limits(tmp_path) == Limits(cpus=2, memory=GB, tasks=100)


@pytest.mark.parametrize(
    ("group", "top"),
    [("/", "/"), ("/docker/ab12", "/docker/ab12"), ("/../../init.scope", "/"), ("/other", "/a")],
    ids=["own namespace", "the host's paths", "outside the namespace", "not mounted"],
)
def test_a_container_sees_its_own_group_at_the_mount(tmp_path: Path, group: str, top: str) -> None:
    lay(
        tmp_path,
        f"0::{group}\n",
        V2.format(top=top, mount="/sys/fs/cgroup"),
        {
            "sys/fs/cgroup/cpu.max": "50000 100000\n",
            "sys/fs/cgroup/memory.max": "536870912\n",
            "sys/fs/cgroup/pids.max": "64\n",
        },
    )
    assert read_limits(tmp_path) == Limits(cpus=1, memory=536870912, tasks=64)


def test_version_1_has_a_tree_for_each_controller(tmp_path: Path) -> None:
    mounts = {"cpu,cpuacct": "/sys/fs/cgroup/cpu,cpuacct", "memory": "/sys/fs/cgroup/memory\\040x"}
    lay(
        tmp_path,
        "9:name=systemd:/docker/ab\n4:memory:/docker/ab\n2:cpu,cpuacct:/docker/ab\n1:pids:/\n0::/\n",
        "".join(V1.format(top="/", mount=where, names=names) for names, where in mounts.items())
        + V1.format(top="/", mount="/sys/fs/cgroup/pids", names="pids")
        + V2.format(top="/", mount="/sys/fs/cgroup/unified"),
        {
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1\n",
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/cpu,cpuacct/docker/ab/cpu.cfs_quota_us": "300000\n",
            "sys/fs/cgroup/cpu,cpuacct/docker/ab/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/memory x/memory.limit_in_bytes": f"{UNLIMITED}\n",
            "sys/fs/cgroup/memory x/docker/ab/memory.limit_in_bytes": f"{2 * GB}\n",
            "sys/fs/cgroup/pids/pids.max": "max\n",
        },
    )
    assert read_limits(tmp_path) == Limits(cpus=3, memory=2 * GB, tasks=None)


@pytest.mark.parametrize("files", [{}, {"sys/fs/cgroup/memory.max": ""}, {"sys/fs/cgroup/x": "1"}])
def test_what_is_not_there_limits_nothing(tmp_path: Path, files: Mapping[str, str]) -> None:
    assert read_limits(tmp_path) == Limits()
    lay(tmp_path, "0::/\n", V2.format(top="/", mount="/sys/fs/cgroup"), files)
    assert read_limits(tmp_path) == Limits()


def test_this_machine() -> None:
    assert 1 <= resources.cpus() <= (os.cpu_count() or 1)
    assert 64 << 20 < resources.memory() < 1 << 50


def test_cpus_are_those_of_the_affinity() -> None:
    program = (
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))});"
        "from penstock import stream_count; print(stream_count('auto'), stream_count(0))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, stdout=subprocess.PIPE, text=True
    )
    assert done.stdout.split() == ["1", "1"]


@pytest.fixture
def container(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Return a process of 36 MiB in a container with 1 GiB and 200 tasks."""
    monkeypatch.delenv(resources.VARIABLE, raising=False)
    monkeypatch.setattr(resources, "limits", lambda: Limits(2, GB, 200))
    monkeypatch.setattr(resources, "_own_memory", lambda: 36 << 20)
    return monkeypatch


def test_a_container_bounds_an_automatic_degree(container: pytest.MonkeyPatch) -> None:
    # 80 % of 1024 MiB, less 100 MiB.
    assert room(64, 160 << 20, automatic=True) == Room(
        4, "the container has 1,073 MB of memory", None
    )
    assert room(64, 24 << 20, automatic=True) == Room(
        10, "the container may have 200 processes and threads", None
    )
    assert room(3, 160 << 20, automatic=True) == Room(3, "", None)
    assert room(64, 160 << 20, automatic=False) == Room(64, "", None)
    # One stream always runs: the kernel decides.
    container.setattr(resources, "limits", lambda: Limits(2, 64 << 20, 20))
    assert room(64, 160 << 20, automatic=True).workers == 1


@pytest.mark.parametrize("automatic", [True, False])
def test_max_memory_bounds_any_degree(container: pytest.MonkeyPatch, automatic: bool) -> None:
    container.setenv(resources.VARIABLE, "600MiB")
    found = room(8, 160 << 20, automatic=automatic)
    assert found == Room(3, "--max-memory 629 MB", (500 << 20) // 3)
    assert room(1, 160 << 20, automatic=automatic).memory == 500 << 20
    container.setenv(resources.VARIABLE, "250MiB")
    with pytest.raises(
        UsageError,
        match=r"^--max-memory: expected at least 273 MB for one stream of this copy, found 262 MB$",
    ):
        room(8, 160 << 20, automatic=automatic)
    container.setenv(resources.VARIABLE, "much")
    with pytest.raises(UsageError, match=r"^--max-memory \(PENSTOCK_MAX_MEMORY\): expected a size"):
        room(8, 160 << 20, automatic=automatic)


def test_buffers_fit_into_a_workers_share(monkeypatch: pytest.MonkeyPatch) -> None:
    assert resources.buffer(128 << 20, 80 << 20) == 128 << 20
    for share, fits in ((1000, 128), (160, 80), (90, 48)):
        monkeypatch.setattr(resources, "share", lambda share=share: share << 20)
        assert resources.buffer(128 << 20, 80 << 20) == fits << 20


CGROUP = Path("/sys/fs/cgroup")


@pytest.fixture
def group() -> Iterator[Path]:
    """Yield a control group of our own, with the controllers that set limits."""
    if not (CGROUP / "cgroup.controllers").exists():
        pytest.skip(f"no cgroup of version 2 is mounted at {CGROUP}")
    folder = CGROUP / f"penstock-{uuid.uuid4().hex[:8]}"
    try:
        (CGROUP / "cgroup.subtree_control").write_text("+cpu +memory +pids")
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made: {error}")
    try:
        yield folder
    finally:
        folder.rmdir()


def test_the_limits_of_a_real_group(group: Path) -> None:
    (group / "cpu.max").write_text("100000 100000")
    (group / "memory.max").write_text(str(512 << 20))
    (group / "pids.max").write_text("50")
    program = (
        "import os, sys; open(sys.argv[1], 'w').write(str(os.getpid()));"
        "from penstock.backends.shared import resources as r; print(r.limits(), r.cpus())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(group / "cgroup.procs")],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert done.stdout == f"{Limits(1, 512 << 20, 50)} 1\n"
