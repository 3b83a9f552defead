import os
from pathlib import Path

from llmgw.obs.lossy_stream import LossyStream


def test_a_full_disk_costs_lines_until_there_is_room(tmp_path: Path) -> None:
    with open("/dev/full", "w") as out, open(tmp_path / "log", "w") as roomy:
        stream = LossyStream(out)
        for number in range(3):
            stream.write("lost" * 3000 + "\n")
            assert stream.lost == number + 1
        os.dup2(roomy.fileno(), out.fileno())
        stream.write("there is room again\n")
        assert stream.lost == 0
    assert (tmp_path / "log").read_text().splitlines()[-1].endswith("there is room again")


def test_a_pipe_nobody_reads_and_a_closed_file_cost_lines() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    out = open(writing, "w")  # noqa: SIM115 - it is closed on the way
    stream = LossyStream(out)
    stream.write("into the pipe\n")
    assert stream.lost == 1
    try:
        out.close()
    except BrokenPipeError:
        pass
    stream.write("into the closed file\n")
    assert stream.lost == 2
