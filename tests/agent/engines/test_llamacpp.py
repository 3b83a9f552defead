"""llama-server's command line: what is given, what a profile's own flag replaces, and that no key is in it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import httpx
import pytest

from llmgw.agent.engines.adapter import CannotStart
from llmgw.agent.engines.llamacpp import Llamacpp, choose_files
from llmgw.agent.shard_spec import ShardSpec
from llmgw.config.agent import LlamacppSettings
from llmgw.testing.tiny_gguf import ADAPTED_REPLY, tiny_gguf
from llmgw.wire.agent import GPU, EngineProfile, LoraAdapter
from tests.agent.node_rig import KEY, LLAMA_SERVER, model_file, node_config, run, running_node, start_command


def _spec(profile: dict[str, Any] | None = None, **changes: Any) -> ShardSpec:
    given = {"name": "p", "engine": "llamacpp", "model_path": "/no/m.gguf", **(profile or {})}
    return ShardSpec(
        replica_id="r", shard_id="r-0", model="m", http_port=20001, bind_addr="10.0.0.7", api_key="secret-key",
        profile=EngineProfile(**given), **changes,
    )  # fmt: skip


def _args(spec: ShardSpec, **settings: Any) -> list[str]:
    (command,) = Llamacpp(LlamacppSettings(bin="/x/llama-server", **settings)).commands(spec, "/engines")
    assert not any("secret-key" in word for word in [command.path, *command.args])
    assert command.env["LLAMA_API_KEY"] == "secret-key"
    return command.args


@pytest.mark.covers("E-41", "E-43", "E-5", "E-51")
def test_the_command_is_in_its_order_with_the_profiles_arguments_last() -> None:
    adapters = [LoraAdapter(name="a", source="/w/a.gguf"), LoraAdapter(name="b", source="/w/b.gguf")]
    profile = {"served_model_name": "m", "adapters": adapters, "args": ["--ctx-size=512"]}
    base = ["--model", "/no/m.gguf", "--host", "10.0.0.7", "--port", "20001", "--metrics", "--alias", "m"]
    tail = ["--lora-scaled", "/w/a.gguf:0", "--lora-scaled", "/w/b.gguf:0", "--ctx-size", "512"]
    assert _args(_spec(profile, threads=3)) == [*base, "--parallel", "4", "--threads", "3", *tail]
    gpus = _args(_spec(profile, gpu_indices=[0, 2]))
    assert gpus == [*base, "--parallel", "4", "--n-gpu-layers", "999", "--split-mode", "layer", *tail]
    assert "--parallel" in _args(_spec(), parallel=9) and "9" in _args(_spec(), parallel=9)
    assert "--parallel" not in _args(_spec({"args": ["-np", "2"]}))


@pytest.mark.covers("E-44", "E-45", "E-5")
def test_offload_and_threads_are_given_unless_the_profile_gives_them() -> None:
    assert "--split-mode" not in _args(_spec(gpu_indices=[1]))
    assert "--n-gpu-layers" not in _args(_spec({"args": ["-ngl", "5"]}, gpu_indices=[1]))
    assert "--split-mode" not in _args(_spec({"args": ["-sm", "row"]}, gpu_indices=[0, 1]))
    assert "--threads" not in _args(_spec(gpu_indices=[1]))
    assert "--threads" not in _args(_spec({"args": ["-t", "2"]}, threads=4))
    assert _args(_spec(threads=4), threads=8)[-1] == "4"
    assert _args(_spec(), threads=8)[-1] == "8" and _args(_spec())[-1] == str(os.cpu_count())


@pytest.mark.covers("E-11", "E-13")
def test_devices_are_given_by_index_by_uuid_for_mig_and_never_for_the_cpu() -> None:
    def env(**changes: Any) -> dict[str, str]:
        profile = {
            "env": {"CUDA_VISIBLE_DEVICES": "7", "CUDA_DEVICE_ORDER": "x", "GGML_VK_VISIBLE_DEVICES": "7"}
        }
        (command,) = Llamacpp(LlamacppSettings(bin="/x")).commands(_spec(profile, **changes), "/engines")
        return command.env

    whole = env(gpu_indices=[0, 2])
    assert (whole["CUDA_VISIBLE_DEVICES"], whole["GGML_VK_VISIBLE_DEVICES"]) == ("0,2", "0,2")
    mig = env(gpu_indices=[1000], gpu_uuids=["MIG-1"])
    assert mig["CUDA_VISIBLE_DEVICES"] == "MIG-1"
    assert env()["CUDA_VISIBLE_DEVICES"] == ""
    assert not any("GGML_VK_VISIBLE_DEVICES" in one for one in (mig, env())), "the profile's would name another card"
    assert {one["CUDA_DEVICE_ORDER"] for one in (whole, mig, env())} == {"PCI_BUS_ID"}


@pytest.mark.covers("E-47", "E-5", "E-41")
def test_a_directory_gives_its_first_model_and_its_projector(tmp_path: Path) -> None:
    with pytest.raises(CannotStart, match=f"{tmp_path} holds no .gguf file"):
        choose_files(str(tmp_path))
    (tmp_path / "mmproj-f16.gguf").write_bytes(tiny_gguf("lora"))
    with pytest.raises(CannotStart, match="only a projector"):
        choose_files(str(tmp_path))
    for name in ("q-00002-of-00002.gguf", "q-00001-of-00002.GGUF", "readme.txt"):
        (tmp_path / name).write_bytes(tiny_gguf("lora"))
    model, projector = str(tmp_path / "q-00001-of-00002.GGUF"), str(tmp_path / "mmproj-f16.gguf")
    assert choose_files(str(tmp_path)) == (model, projector)
    args = _args(_spec({"model_path": str(tmp_path)}))
    assert args[:2] == ["--model", model] and args.count("--mmproj") == 1 and projector in args
    own = _args(_spec({"model_path": str(tmp_path), "args": ["--mmproj", "x.gguf"]}))
    assert own.count("--mmproj") == 1 and projector not in own
    assert choose_files("/no/such.gguf") == ("/no/such.gguf", "")


@pytest.mark.covers("E-49")
def test_every_shard_serves_and_may_fall_back_to_the_cpu() -> None:
    engine = Llamacpp(LlamacppSettings())
    assert engine.falls_back_to_cpu and engine.serves_http(_spec()) and engine.serves_http(_spec(gpu_indices=[0]))


@pytest.mark.covers("E-50")
def test_devices_are_the_lines_after_their_heading() -> None:
    engine = Llamacpp(LlamacppSettings(bin=LLAMA_SERVER))
    assert engine.devices_in("load_backend: x\nAvailable devices:\n  CUDA0: A (1 MiB)\n\n  (none)\n") == [
        "CUDA0: A (1 MiB)"
    ]
    assert engine.devices_in("Available devices:\n") == [] and engine.devices_in("nonsense\nCUDA0: x") == []


def test_the_version_is_read_from_the_engines_own_line() -> None:
    engine = Llamacpp(LlamacppSettings(bin="x"))
    assert engine.version_in("log\nversion: 10991 (1a2b3c4)\nbuilt with x") == "b10991-1a2b3c4"
    assert engine.version_in("version: 7") == "b7" and engine.version_in("nothing") is None


@pytest.mark.covers("E-40")
def test_an_installed_build_comes_before_the_configured_one_and_that_before_path(
    monkeypatch: Any, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    engine = Llamacpp(LlamacppSettings())
    assert engine.program() is None and not engine.configured()
    with pytest.raises(CannotStart, match="no llama-server"):
        engine.commands(_spec(), "/engines")
    (tmp_path / "llama-server").write_text("")
    (tmp_path / "llama-server").chmod(0o755)
    assert engine.program() == str(tmp_path / "llama-server")
    named = Llamacpp(LlamacppSettings(bin="/by/hand"))
    assert named.program() == "/by/hand" and named.configured()
    named.use_installed("/opt/llama-server")
    assert named.program() == "/opt/llama-server"


def test_validation_counts_the_gpus_given() -> None:
    engine = Llamacpp(LlamacppSettings())
    profile = EngineProfile(name="p", engine="llamacpp", gpu_class="x", gpus_per_node=2, model_path="/m")
    assert engine.validate(profile, [GPU(index=0), GPU(index=1)]) is None
    assert "2 GPUs" in (engine.validate(profile, [GPU(index=0)]) or "")


@pytest.mark.covers("E-101", "E-102")
def test_two_adapters_are_loaded_at_scale_zero_and_change_an_answer_only_when_asked_for() -> None:
    async def main(folder: Path) -> None:
        files = []
        for name in ("one", "two"):
            path = folder / f"{name}.gguf"
            path.write_bytes(tiny_gguf("lora"))
            path.chmod(0o644)
            files.append(LoraAdapter(name=name, source=str(path)))
        async with running_node(node_config(folder)) as rig:
            message = start_command(model_file(folder), adapters=files)
            await rig.started(message)
            base, headers = f"http://127.0.0.1:{message.http_port}", {"Authorization": f"Bearer {KEY}"}
            async with httpx.AsyncClient(base_url=base, headers=headers, timeout=30) as client:
                listed = (await client.get("/lora-adapters")).json()
                assert [(one["id"], one["scale"]) for one in listed] == [(0, 0.0), (1, 0.0)]
                asked = {"messages": [{"role": "user", "content": "x"}]}
                plain = (await client.post("/v1/chat/completions", json=asked)).json()
                adapted = {**asked, "lora": [{"id": 1, "scale": 1.0}]}
                other = (await client.post("/v1/chat/completions", json=adapted)).json()
                assert "tiny model" in plain["choices"][0]["message"]["content"]
                assert other["choices"][0]["message"]["content"].strip() == ADAPTED_REPLY.strip()

    run(main)
