"""The probes (S-35)."""

from tests.gateway.rig import played


def test_ready_follows_the_replicas_and_health_does_not():
    async def script(rig):
        async def statuses() -> tuple[int, int]:
            health, ready = await rig.client.get("/health"), await rig.client.get("/ready")
            assert set(health.json()) == set(ready.json()) == {"status"}
            return health.status_code, ready.status_code

        assert await statuses() == (200, 503)
        rig.add_model()
        await rig.settle()
        assert await statuses() == (200, 503)
        await rig.add_engine()
        await rig.settle()
        assert await statuses() == (200, 200)
        rig.routes = []
        rig.publish()
        await rig.settle()
        assert await statuses() == (200, 503)
        assert rig.keys.lookups == 0

    played(script)


def test_leader_follows_leadership():
    async def script(rig):
        assert (await rig.client.get("/leader")).status_code == 200
        rig.fleet.leading = False
        await rig.gateway.feed.changed()
        answer = await rig.client.get("/leader")
        assert (answer.status_code, answer.json()) == (503, {"status": "standby"})

    played(script)


def test_head_is_answered_without_a_body():
    async def script(rig):
        answer = await rig.client.head("/health")
        assert (answer.status_code, answer.content) == (200, b"")

    played(script)
