"""Finding a project by what a person writes."""

import anyio
import pytest
import sqlalchemy as sa

from llmgw.config.refusal import Refused
from llmgw.store import tables, tree
from llmgw.store.loop import Store


def _grow(connection: sa.Connection) -> None:
    connection.execute(tables.orgs.insert(), {"id": "org-a", "name": "Acme", "created_at": 0})
    for team in ("ml", "web"):
        connection.execute(
            tables.teams.insert(), {"id": f"team-{team}", "org_id": "org-a", "name": team, "created_at": 0}
        )
        row = {"id": f"prj-{team}", "team_id": f"team-{team}", "name": "Train", "created_at": 0}
        connection.execute(tables.projects.insert(), row)


def test_a_project_is_found_by_id_path_or_unique_name(address: str) -> None:
    async def main() -> None:
        async with Store(address) as store:
            await store.run(_grow)
            for text in ("prj-ml", "acme/ML/train", "project:Acme/ml/Train"):
                found = await store.read(tree.find_project, text)
                assert (found.id, found.team_id, found.org_id) == ("prj-ml", "team-ml", "org-a")
            assert (await store.read(tree.find_project, "Default")).path == "default/default/default"
            with pytest.raises(Refused, match="Acme/ml/Train, Acme/web/Train"):
                await store.read(tree.find_project, "train")
            with pytest.raises(Refused, match="no project"):
                await store.read(tree.find_project, "nowhere")

    anyio.run(main, backend="trio")
