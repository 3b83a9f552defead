import anyio
import pytest
from prometheus_client.parser import text_string_to_metric_families

from llmgw.obs.metrics import Metrics


def rendered(metrics: Metrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    text = anyio.run(metrics.render, backend="trio").decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_a_value_beyond_the_bound_is_counted_as_other_and_older_series_stay():
    metrics = Metrics()
    family = metrics.counter("llmgw_test_total", "Tests.", ["tag"], cap=100)
    for number in range(150):
        family.labels(f"value-{number}").inc()
    family.labels("value-3").inc()
    series = rendered(metrics)
    assert len(series) == 101
    assert series["llmgw_test_total", (("tag", "other"),)] == 50
    assert series["llmgw_test_total", (("tag", "value-3"),)] == 2


def test_a_family_without_labels_has_one_series_from_the_start():
    metrics = Metrics()
    metrics.counter("llmgw_plain_total", "Plain.").labels().inc(2)
    metrics.gauge("llmgw_untouched", "Untouched.")
    assert rendered(metrics) == {("llmgw_plain_total", ()): 2.0, ("llmgw_untouched", ()): 0.0}


def test_what_is_gone_leaves_no_series():
    metrics = Metrics()
    family = metrics.gauge("llmgw_state", "State.", ["node"])
    family.labels("a").set(1)
    family.labels("b").set(1)
    family.keep([("b",)])
    assert rendered(metrics) == {("llmgw_state", (("node", "b"),)): 1.0}


def test_the_same_name_gives_the_same_family_and_another_shape_is_an_error():
    metrics = Metrics()
    first = metrics.counter("llmgw_a_total", "A.", ["x"])
    assert metrics.counter("llmgw_a_total", "A.", ["x"]) is first
    with pytest.raises(ValueError, match="already a counter"):
        metrics.gauge("llmgw_a_total", "A.", ["x"])
    with pytest.raises(ValueError, match="has labels"):
        first.labels("one", "two")


def test_gauges_that_show_a_state_are_set_at_each_scrape():
    metrics = Metrics()
    gauge, seen = metrics.gauge("llmgw_now", "Now."), []
    metrics.before_render(lambda: (seen.append(1), gauge.labels().set(len(seen)))[0])
    assert rendered(metrics)["llmgw_now", ()] == 1
    assert rendered(metrics)["llmgw_now", ()] == 2


def test_openmetrics_is_given_when_asked_for():
    metrics = Metrics()
    metrics.counter("llmgw_a_total", "A.").labels().inc()

    async def main() -> bytes:
        return await metrics.render(as_openmetrics=True)

    assert anyio.run(main, backend="trio").endswith(b"# EOF\n")


def test_a_histogram_has_the_bounds_it_was_given():
    metrics = Metrics()
    metrics.histogram("llmgw_h_seconds", "H.", buckets=(0.1, 1)).labels().observe(0.5)
    series = rendered(metrics)
    assert series["llmgw_h_seconds_bucket", (("le", "0.1"),)] == 0
    assert series["llmgw_h_seconds_bucket", (("le", "1.0"),)] == 1
