"""Diagnostics: why NATS is unavailable, in one sentence: what was seen, who has to act, and what to change."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from typing import Final

import msgspec
from nats import errors
from nats.js.errors import APIError, NoStreamResponseError, ServiceUnavailableError

from holdfast.errors import InvalidSetting
from holdfast.registry.addresses import CA, CREDS, URL, NatsAddress

_REFUSED: Final = ("authorization", "authentication", "permissions violation")
_NO_JETSTREAM: Final = (10039, 10076)
"""Error codes of a server whose JetStream is off for the account, or altogether."""


class Diagnosis(msgspec.Struct, frozen=True):
    """A problem. `ours`: it stays until an operator changes a setting, so retries are slow."""

    text: str
    ours: bool = False


def diagnose(error: BaseException, at: NatsAddress) -> Diagnosis:
    """The problem behind this error."""
    for cause in _walk_causes(error):
        if (known := _recognize(cause, at)) is not None:
            return known
    deepest = [*_walk_causes(error)][-1]
    return Diagnosis(f"NATS at {at} cannot be used: {str(deepest) or type(deepest).__name__}")


def _recognize(error: BaseException, at: NatsAddress) -> Diagnosis | None:
    if isinstance(error, InvalidSetting):
        return Diagnosis(f"{error}: {error.hint}", ours=True)
    error_text = str(error).lower()
    if isinstance(error, errors.AuthorizationError) or any(phrase in error_text for phrase in _REFUSED):
        where = f"{URL} or {CREDS}, or in the server"
        return Diagnosis(
            f"NATS at {at} refuses our credentials or what they may do: correct them in {where}", ours=True
        )
    if isinstance(error, ssl.SSLCertVerificationError):
        text = f"the certificate of NATS at {at} is not trusted ({error.verify_message}): name its CA in {CA}"
        return Diagnosis(text, ours=True)
    if isinstance(error, errors.SecureConnWantedError):
        text = f"NATS at {at} does not ask for TLS, and {URL} says tls://: nothing was sent; turn TLS on in the server"
        return Diagnosis(text, ours=True)
    if isinstance(error, ssl.SSLError):
        return Diagnosis(
            f"no TLS with NATS at {at} ({error.reason or error}): check {URL} and {CA}", ours=True
        )
    if is_without_jetstream(error):
        return Diagnosis(f"NATS at {at} has no JetStream for us: start it with -js, or allow it", ours=True)
    if isinstance(error, ConnectionRefusedError):
        return Diagnosis(f"no NATS server listens at {at}: it is down, or {URL} names another address")
    if isinstance(error, TimeoutError):
        return Diagnosis(f"NATS at {at} does not answer in time")
    if isinstance(error, errors.UnexpectedEOF | errors.ConnectionClosedError | ConnectionResetError):
        return Diagnosis(f"NATS at {at} has ended the connection")
    return None


def is_without_jetstream(error: BaseException) -> bool:
    if isinstance(error, APIError):
        return error.err_code in _NO_JETSTREAM or isinstance(error, ServiceUnavailableError)
    return isinstance(error, errors.NoRespondersError) and not isinstance(error, NoStreamResponseError)


def _walk_causes(error: BaseException) -> Iterator[BaseException]:
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__
