"""Text that an engine writes a byte at a time, through a gateway process of its own, to the official client (F-3)."""

import random
import subprocess
import sys
from pathlib import Path

import openai
import trio

from llmgw.testing.bench_gateway import make_key
from llmgw.testing.fake_engine import FakeEngine, byte_by_byte
from tests.e2e.rig import environment, free_port, get, until

SIZE_BYTES = 200_000
ODD = ("🧑‍🚀", "🏳️‍🌈", "👩🏽‍❤️‍💋‍👨🏿", "é\u0301", "が", "𠮷", "\U0010ffff", "\u2028", '"\\', "\u0000", "한글", "ไทย")


def long_text() -> list[str]:
    """Return pieces of CJK, emoji of several code points, and what JSON escapes; 200 KB together, the same each run."""
    chosen = random.Random(3)
    pieces, size = [], 0
    while size < SIZE_BYTES:
        piece = "".join(
            chosen.choice(ODD) if chosen.random() < 0.2 else chr(chosen.randrange(0x4E00, 0x9FFF)) for _ in range(300)
        )
        pieces.append(piece)
        size += len(piece.encode())
    return pieces


def test_200_kb_of_cjk_and_emoji_written_a_byte_at_a_time_arrive_intact_through_the_sdk(tmp_path: Path) -> None:
    spoken, store, port = long_text(), str(tmp_path / "keys.db"), free_port()

    def heard(key: str) -> str:
        until("the gateway answers", lambda: _answers(port), 60)
        with openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key=key, max_retries=0, timeout=120) as client:
            stream = client.chat.completions.create(
                model="mock", messages=[{"role": "user", "content": "Speak."}], stream=True
            )
            return "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)

    async def main() -> str:
        with trio.fail_after(240):
            key = await make_key(store)
            async with trio.open_nursery() as nursery:
                engine = FakeEngine(byte_by_byte(spoken))
                await nursery.start(engine.serve)
                command = [sys.executable, "-m", "llmgw.testing.bench_gateway", "serve", store, str(port), str(engine.port)]
                gateway = subprocess.Popen(command, env=environment(), stderr=subprocess.DEVNULL)
                try:
                    return await trio.to_thread.run_sync(heard, key)
                finally:
                    gateway.kill()
                    gateway.wait()
                    nursery.cancel_scope.cancel()

    text = trio.run(main)
    assert len(text.encode()) >= SIZE_BYTES
    assert "\ufffd" not in text
    assert text == "".join(spoken)


def _answers(port: int) -> bool:
    try:
        return get(f"http://127.0.0.1:{port}/health")[0] == 200
    except OSError:
        return False
