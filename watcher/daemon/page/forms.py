"""The fields of a posted form, bounded."""

from __future__ import annotations

from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import Request

MAX_FORM_BYTES = 16 << 10
MAX_FIELDS = 20


async def read_form(request: Request) -> dict[str, str]:
    """Name -> value; of two fields of one name the first. Raises HTTPException 400, 413 or 415."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise HTTPException(415, "this takes a form")
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > MAX_FORM_BYTES:
            raise HTTPException(413, "the form is too large")
    try:
        text = data.decode("ascii")
        fields = parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="replace")
    except ValueError:
        raise HTTPException(400, "the form cannot be read") from None
    return dict(reversed(fields))
