from llmgw.wire.canonical import BadRequest, Call, Operation, Usage


def test_an_operation_is_the_engines_path_under_v1() -> None:
    assert [str(operation) for operation in Operation] == ["chat/completions", "completions", "embeddings"]


def test_usage_is_the_engines_unless_said_otherwise() -> None:
    assert Usage(1, 2) == Usage(prompt_tokens=1, completion_tokens=2, is_estimated=False)


def test_a_call_wishes_nothing_it_was_not_given() -> None:
    call = Call(Operation.CHAT, "m", is_stream=False, fields={})
    assert (call.wants_usage, call.output_cap, call.wants_base64, call.end_user, call.tags) == (False, 0, False, "", {})


def test_a_bad_request_names_its_member() -> None:
    assert BadRequest("no", param="model").param == "model"
    assert str(BadRequest("no")) == "no"
