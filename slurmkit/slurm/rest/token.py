"""The JSON Web Token by which slurmrestd knows its caller: where it comes from, and what can be read in it.

A token is a password: it stands in one header and nowhere else, above all in no error message.
"""

from __future__ import annotations

import binascii
import json
import re
from base64 import urlsafe_b64decode
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from slurmkit.errors import MissingRequirement, Refused, SlurmkitError
from slurmkit.slurm import process
from slurmkit.slurm.environment import TOKEN as VARIABLE
from slurmkit.slurm.environment import for_reading

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from slurmkit.slurm.clock import Clock

MARGIN = 10.0
"""Seconds before its end from which on a token is not used any more: it must outlive the request."""

COMMAND_TIMEOUT = 60.0
_SHAPE = re.compile(r"[\w-]+\.[\w-]+\.[\w-]+", re.ASCII)
_FRESH = "get a fresh one: scontrol token lifespan=3600"


@dataclass(frozen=True, slots=True)
class Token:
    """A token, whom it stands for, and when it ends (seconds since 1970); None where it does not say."""

    text: str = field(repr=False)
    user: str | None = None
    expires: float | None = None


def from_variable(environ: Mapping[str, str], name: str = VARIABLE) -> Callable[[], Token]:
    """Tokens out of a variable."""

    def read() -> Token:
        if not environ.get(name):
            raise MissingRequirement(f"${name} holds no token", hint=f"export $({_FRESH.partition(': ')[2]})")
        return parse(environ[name], f"${name}")

    return read


def from_command(argv: Sequence[str], environ: Mapping[str, str], clock: Clock) -> Callable[[], Token]:
    """Tokens that a command prints, alone or as `SLURM_JWT=...`."""

    def ask() -> Token:
        answer = process.run(argv, environment=_for_asking(environ), clock=clock, timeout=COMMAND_TIMEOUT)
        if not answer.is_ok:
            # What it said may hold anything, but not the token that it did not print.
            raise Refused(f"{argv[0]} gave no token", where=answer.stderr.strip()[-300:] or None)
        return parse(answer.stdout, f"what {argv[0]} printed")

    return ask


def from_anywhere(environ: Mapping[str, str], clock: Clock) -> Callable[[], Token]:
    """Tokens out of $SLURM_JWT, or else from `scontrol token`, where there is a scontrol."""
    if environ.get(VARIABLE):
        return from_variable(environ)

    def ask() -> Token:
        try:
            return from_command(["scontrol", "token"], environ, clock)()
        except MissingRequirement as error:
            raise MissingRequirement(
                f"there is no token: ${VARIABLE} is not set, and there is no scontrol to ask for one",
                hint="set `token_command` or `token_variable` of the cluster in the configuration",
            ) from error

    return ask


def parse(text: str, where: str) -> Token:
    """The token in a text.

    Raises:
        Refused: there is none.
    """
    word = text.strip().removeprefix(f"{VARIABLE}=").strip()
    if _SHAPE.fullmatch(word) is None:
        raise Refused("this is no JSON Web Token", where=where, hint=_FRESH)
    claims = _claims(word)
    user, expires = claims.get("sun"), claims.get("exp")
    return Token(
        word,
        user if isinstance(user, str) else None,
        float(expires) if isinstance(expires, int | float) else None,
    )


class Tokens:
    """The token in use: asked for when it is first needed, and again when it has come to its end."""

    def __init__(self, source: Callable[[], Token], clock: Clock) -> None:
        self._source = source
        self._clock = clock
        self._held: Token | None = None

    def get(self) -> Token:
        """A token that has not ended.

        Raises:
            SlurmError: there is none, or it has ended.
        """
        if self._held is None or self._has_ended(self._held):
            self._held = self._ask()
            if self._has_ended(self._held):
                raise Refused("the token has expired", hint=_FRESH)
        return self._held

    def _ask(self) -> Token:
        try:
            return self._source()
        except (SlurmkitError, OSError):
            self._held = None
            raise

    def _has_ended(self, token: Token) -> bool:
        return token.expires is not None and token.expires - MARGIN < self._clock.now().timestamp()


def _claims(word: str) -> dict[str, object]:
    """What the token says; nothing of it is verified, that is slurmctld's part."""
    body = word.split(".")[1]
    try:
        claims = json.loads(urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    except (binascii.Error, ValueError):
        return {}
    return claims if isinstance(claims, dict) else {}


def _for_asking(environ: Mapping[str, str]) -> dict[str, str]:
    """`scontrol token` with an old token in its environment would itself be refused."""
    return {name: value for name, value in for_reading(environ).items() if name != VARIABLE}
