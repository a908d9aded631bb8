"""What an answer of slurmrestd says: its JSON, or the error that it means."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from slurmkit.errors import AnswerLost, Refused, SlurmError, SlurmkitError, Unreachable
from slurmkit.slurm.refusals import classify, to_error

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from slurmkit.slurm.rest.transport import Reply
    from slurmkit.slurm.rest.wire import Json

UNAUTHORISED = frozenset({401, 403})
NOT_FOUND = 404
GATEWAYS = frozenset({502, 503, 504})
UNEXPECTED = 1000
"""What is said of a change where slurmctld has gone away."""

TOKEN_REFUSED = 1007
NO_DATABASE = 7000
NOTHING_FOUND = 9003
UNSPECIFIED = -1
"""All that v0.0.38 says where slurmctld is away, and where it does not accept the token."""

_TOKEN_HINT = "get a fresh one (scontrol token lifespan=3600); is it of this cluster, and for this user?"  # noqa: S105
_DATABASE_HINT = "sacctmgr show cluster shows whether slurmdbd is up"


class Answer(NamedTuple):
    """An answer of slurmrestd: its JSON, and the status that it came with."""

    status: int
    json: Json


class NotOffered(SlurmError):
    """The server has no such page: an API version that it does not speak, or no slurmrestd at all."""

    reference = "slurm"


class Unclear(Unreachable):
    """A daemon is away, or does not accept the token: this API version does not say which."""


class NoDatabase(Unclear):
    """The same of slurmdbd, since v0.0.42."""


def read(reply: Reply, place: str, *, repeatable: bool = True) -> Answer:
    """The answer in a reply, whatever errors it holds.

    Raises:
        SlurmError: it is no answer of a slurmrestd, or one that was cut short.
    """
    if reply.status in UNAUTHORISED:
        raise Refused(
            "slurmrestd does not accept the token",
            where=f"{place}: HTTP {reply.status}",
            hint=_TOKEN_HINT,
        )
    if 300 <= reply.status < 400:
        raise _stranger(place, f"it leads on to {reply.location.partition('?')[0] or 'elsewhere'}")
    import msgspec

    try:
        told: Any = msgspec.json.decode(reply.body)
    except msgspec.DecodeError:
        raise _no_json(reply, place, repeatable=repeatable) from None
    if not isinstance(told, dict) or not isinstance(told.get("errors"), list):
        raise _stranger(place, "its JSON is of another shape")
    return Answer(reply.status, told)


def check(answer: Answer, place: str, *, repeatable: bool = True) -> None:
    """Nothing, where all went well.

    Raises:
        SlurmkitError: of the kind that the errors in the answer speak of.
    """
    errors = [one for one in answer.json["errors"] if isinstance(one, dict)]
    # v0.0.38 writes an error without a code for every change of an array, done or not.
    if answer.status < 400 and {_code(one) for one in errors} <= {None, 0, NOTHING_FOUND}:
        return
    if errors and all(_code(one) == NOTHING_FOUND for one in errors):
        return
    raise to_typed(errors, f"{place}: HTTP {answer.status}", repeatable=repeatable)


def to_typed(errors: Sequence[Mapping[str, Any]], place: str, *, repeatable: bool) -> SlurmkitError:
    """The typed error for the errors in an answer."""
    codes = {_code(one) for one in errors}
    lines = list(dict.fromkeys(line for one in errors if (line := _line(one))))
    where = "; ".join(lines) or place
    if TOKEN_REFUSED in codes or (NO_DATABASE in codes and "authentication error" in where):
        return Refused("Slurm does not accept the token", where=where, hint=_TOKEN_HINT)
    if NO_DATABASE in codes:
        return NoDatabase("slurmdbd does not answer", where=where, hint=_DATABASE_HINT)
    if UNEXPECTED in codes:
        what = "slurmctld did not answer as it should"
        return Unreachable(what, where=where) if repeatable else AnswerLost(what, where=where)
    known = next((line for line in lines if classify(line)), None)
    if codes == {UNSPECIFIED}:
        what = "slurmctld does not answer, or does not accept the token"
        return Unclear(what, where=where, hint=_TOKEN_HINT) if repeatable else AnswerLost(what, where=where)
    if known is None:
        return Refused("slurmrestd refused the request", where=where)
    return to_error("slurmrestd", known, repeatable=repeatable)


def texts(answer: Answer) -> list[str]:
    """What the answer says aside of a request that was carried out."""
    said = [answer.json.get("job_submit_user_msg")]
    for name in ("errors", "warnings"):
        said += [_line(one) for one in answer.json.get(name) or () if isinstance(one, dict)]
    return list(dict.fromkeys(str(line) for line in said if line))


def _code(error: Mapping[str, Any]) -> object:
    return error.get("error_number", error.get("error_code"))


def _line(error: Mapping[str, Any]) -> str:
    words = [str(error[name]) for name in ("description", "error") if error.get(name)]
    return ": ".join(dict.fromkeys(words))


def _no_json(reply: Reply, place: str, *, repeatable: bool) -> SlurmError:
    if "json" in reply.content_type:
        what = "slurmrestd's answer was cut short, or is no JSON"
        where = f"{place}: HTTP {reply.status}, {len(reply.body)} bytes"
        return Unreachable(what, where=where) if repeatable else AnswerLost(what, where=where)
    if reply.status in GATEWAYS:
        what = "what stands before slurmrestd gave no answer of it"
        where = f"{place}: HTTP {reply.status}"
        return Unreachable(what, where=where) if repeatable else AnswerLost(what, where=where)
    if reply.status == NOT_FOUND:
        return NotOffered(
            "the server has no such page: it speaks other versions of the API, or is no slurmrestd",
            where=place,
        )
    if not repeatable and reply.status not in range(400, 500):
        return AnswerLost("the server answered what slurmkit cannot read", where=_seen(reply, place))
    return _stranger(place, _seen(reply, ""))


def _seen(reply: Reply, place: str) -> str:
    kind = "HTML" if b"<html" in reply.body[:1000].lower() else reply.content_type or "no JSON"
    return f"{place}: HTTP {reply.status}, {kind}".removeprefix(": ")


def _stranger(place: str, why: str) -> SlurmError:
    return SlurmError(
        f"this is no slurmrestd: {why}",
        where=place,
        hint="is the URL that of slurmrestd, and not of a portal?",
    )
