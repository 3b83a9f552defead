"""The directories an agent keeps, and who may read them (X-11, E-121, E-187)."""

import os
from dataclasses import dataclass
from pathlib import Path

from llmgw.agent.engine_user import EngineUser
from llmgw.config.agent import AgentConfig
from llmgw.config.refusal import Refused


@dataclass(frozen=True)
class Directories:
    """`engines` is the working directory of every engine on the node, the only one an engine may write."""

    shards: Path
    logs: Path
    engines: Path
    weights: Path


def prepare_directories(config: AgentConfig, user: EngineUser | None) -> Directories:
    """Make what is missing and set its modes. Raises Refused naming the directory.

    Saved shards hold keys and logs may hold anything, so both are the agent's alone; model files are everyone's.
    """
    state = Path(config.state_dir).absolute()
    found = Directories(state / "shards", state / "logs", state / "engines", Path(config.weights_dir).absolute())
    modes = {state: 0o755, found.shards: 0o700, found.logs: 0o700, found.engines: 0o750, found.weights: 0o755}
    for path, mode in modes.items():
        try:
            path.mkdir(mode=mode, parents=True, exist_ok=True)
            if path != state or user is not None:
                path.chmod(mode)
        except OSError as error:
            raise Refused(400, f"{path} cannot be prepared: {error.strerror or error}; see state_dir, weights_dir") from None
    if user is not None:
        os.chown(found.engines, user.uid, user.gid)
    return found
