"""What the recorder drops is counted once, however often it is scraped."""

import anyio

from llmgw.obs.metrics import Metrics
from llmgw.ops.usage_figures import show_recorder
from llmgw.ports import UsageRow
from llmgw.store.recorder import UsageRecorder


def row(number: int) -> UsageRow:
    return UsageRow(
        id=str(number), request_id="r", at_unix=1.0, endpoint="chat.completions", stream=False, key_id="k",
        kind="project", project_id="p", team_id="t", org_id="o", user_id="", model="m",
    )  # fmt: skip


def test_dropped_rows_are_counted_once_and_waiting_ones_shown() -> None:
    async def main() -> list[str]:
        recorder = UsageRecorder(None, buffer_size=3)  # type: ignore[arg-type]
        metrics = Metrics()
        show_recorder(metrics, recorder)
        for number in range(8):
            recorder.put(row(number))
        await metrics.render()
        return (await metrics.render()).decode().splitlines()

    lines = anyio.run(main, backend="trio")
    assert "llmgw_usage_dropped_total 5.0" in lines
    assert "llmgw_usage_waiting 3.0" in lines
