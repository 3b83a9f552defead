"""The tenancy tree as far as it exists: one default organization, team and project, and finding a project."""

import sqlalchemy as sa
from msgspec import Struct

from llmgw.config.refusal import Refused
from llmgw.store.tables import orgs, projects, teams


class ProjectRow(Struct, frozen=True):
    """A project with the ids above it. `path` is `org/team/project` by name."""

    id: str
    name: str
    team_id: str
    org_id: str
    path: str


_PROJECTS = (
    sa.select(
        projects.c.id,
        projects.c.name,
        projects.c.team_id,
        teams.c.org_id,
        (orgs.c.name + "/" + teams.c.name + "/" + projects.c.name).label("path"),
    )
    .join(teams, teams.c.id == projects.c.team_id)
    .join(orgs, orgs.c.id == teams.c.org_id)
    .order_by("path")
)


def all_projects(connection: sa.Connection) -> list[ProjectRow]:
    """Return every project, by path."""
    return [ProjectRow(*row) for row in connection.execute(_PROJECTS)]


def find_project(connection: sa.Connection, text: str) -> ProjectRow:
    """Return the project of an id, a path or a name that is unique, ignoring case (T-02). Raises Refused."""
    wanted = text.removeprefix("project:").strip().casefold()
    found = [p for p in all_projects(connection) if wanted in (p.id, p.path.casefold(), p.name.casefold())]
    exact = [p for p in found if wanted in (p.id, p.path.casefold())]
    if len(exact or found) == 1:
        return (exact or found)[0]
    if not found:
        raise Refused(404, f"there is no project {text!r}; name one as org/team/project")
    raise Refused(
        409, f"{text!r} names {len(found)} projects: {', '.join(p.path for p in found)}; give the whole path"
    )
