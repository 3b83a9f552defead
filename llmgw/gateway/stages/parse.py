"""Step 3: the body as a call of the canonical model, with the tags and the end user it names.

A large body is parsed in a thread: 10 MB of JSON take tens of milliseconds, in which no other stream would move.
"""

import anyio.to_thread
import msgspec

from llmgw.gateway.exchange import Exchange
from llmgw.gateway.refusals import Refusal, bad_request
from llmgw.gateway.stages.identify import check_tags, header_tags
from llmgw.wire.canonical import BadRequest, Call, Operation
from llmgw.wire.openai_chat import parse as parse_call

LARGE_BODY_BYTES = 262_144
LONGEST_END_USER = 256


async def parse(exchange: Exchange) -> Refusal | None:
    """Parse the body, or say what is wrong with it and where."""
    operation = exchange.endpoint.operation
    assert operation is not None
    if operation is Operation.COMPLETIONS and exchange.request.headers.get("x-llmgw-thread") is not None:
        return bad_request("The header x-llmgw-thread names a conversation, which /v1/completions does not have.")
    try:
        if len(exchange.body) > LARGE_BODY_BYTES:
            call = await anyio.to_thread.run_sync(_parsed, operation, exchange.body)
        else:
            call = _parsed(operation, exchange.body)
    except BadRequest as fault:
        return bad_request(fault.message[0].upper() + fault.message[1:] + ".", fault.param)
    exchange.call, exchange.asked, exchange.body = call, call.model, b""
    return _take_tags(exchange, call)


def _parsed(operation: Operation, body: bytes) -> Call:
    call = parse_call(operation, body)
    if operation is Operation.CHAT:
        _refuse_image_addresses(call)
    return call


class _ImageURL(msgspec.Struct):
    url: str = ""


class _Part(msgspec.Struct):
    type: str = ""
    image_url: _ImageURL | str | None = None


class _Message(msgspec.Struct):
    content: list[_Part] | str | None = None


def _refuse_image_addresses(call: Call) -> None:
    """Raise BadRequest for an image an engine would have to fetch: an address a client chose (X-41).

    Shapes this does not know are the engine's to refuse; only where it finds an image does it have a say.
    """
    messages = bytes(call.fields["messages"])
    if b"image_url" not in messages:
        return
    try:
        found = msgspec.json.decode(messages, type=list[_Message])
    except msgspec.DecodeError:
        raise BadRequest("`messages` holds an `image_url` that is not in a list of content parts") from None
    for message in found:
        for part in message.content if isinstance(message.content, list) else ():
            image = part.image_url
            url = image.url if isinstance(image, _ImageURL) else image
            if url and not url.lower().startswith("data:"):
                raise BadRequest("`image_url` must be a data: URL; send the image itself", param="messages")


def _take_tags(exchange: Exchange, call: Call) -> Refusal | None:
    if len(call.end_user) > LONGEST_END_USER:
        return bad_request(f"`user` may have at most {LONGEST_END_USER} characters.", "user")
    from_header = header_tags(exchange.request.headers)
    if isinstance(from_header, Refusal):
        return from_header
    exchange.tags = {**from_header, **call.tags}
    return check_tags(exchange.tags)
