import math

from llmgw.wire.prometheus_text import Sample, parse, total

LLAMACPP = b"""# HELP llamacpp:prompt_tokens_total Number of prompt tokens processed.
# TYPE llamacpp:prompt_tokens_total counter
llamacpp:prompt_tokens_total 42
# HELP llamacpp:requests_processing Number of requests processing.
# TYPE llamacpp:requests_processing gauge
llamacpp:requests_processing 3
llamacpp:requests_deferred 0
llamacpp:predicted_tokens_seconds 1.5e+03
"""
VLLM = b"""# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="a, \\"b\\" } c"} 2.0
vllm:num_requests_running{engine="1",model_name="a"} 1.0 1700000000000
vllm:odd{path="C:\\\\dir\\nx",} NaN
vllm:bucket{le="+Inf"} +Inf
"""


def test_the_metrics_of_llamacpp_are_read() -> None:
    families = parse(LLAMACPP)
    assert families["llamacpp:requests_processing"] == [Sample({}, 3.0)]
    assert total(families, "llamacpp:predicted_tokens_seconds") == 1500.0


def test_labels_hold_commas_braces_and_escapes() -> None:
    families = parse(VLLM)
    assert families["vllm:num_requests_running"][0] == Sample({"engine": "0", "model_name": 'a, "b" } c'}, 2.0)
    assert families["vllm:odd"][0].labels == {"path": "C:\\dir\nx"}
    assert math.isnan(families["vllm:odd"][0].value)
    assert families["vllm:bucket"][0].value == math.inf


def test_series_of_one_name_add_up_and_a_missing_one_is_unknown() -> None:
    families = parse(VLLM)
    assert total(families, "vllm:num_requests_running") == 3.0
    assert total(families, "vllm:num_requests_waiting") is None


def test_a_line_that_is_no_sample_hides_no_other() -> None:
    assert parse(b"<html>\nup one\nup 1\r\n\xff\xfe 3\n{} 4\nup{a=\"b\" 5\n") == {"up": [Sample({}, 1.0)]}
