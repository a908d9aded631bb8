"""Zstandard frames that the reference implementation made, against the small decoder of our own."""

from __future__ import annotations

import base64
import contextlib
import random

import pytest

from slurmkit.checkpoint import zstd


def numbers(count: int, below: int, seed: int = 1) -> list[int]:
    """Numbers that are the same on every machine."""
    found = []
    for _ in range(count):
        seed = (seed * 1103515245 + 12345) & 0x7FFFFFFF
        found.append((seed >> 16) % below)
    return found


WORDS = [b"step", b"loss", b"rank", b"node", b"checkpoint", b"the"]
CONTENTS = {
    "empty": b"",
    "raw": bytes(range(20)),
    "same": b"a" * 100_000,
    "words": b" ".join(WORDS[number] for number in numbers(300, 6)),
    "skewed": bytes(map(min, numbers(700, 40), numbers(700, 40, 7), numbers(700, 40, 9))),
    "mixed": b"".join(b"layer.%d.weight" % number + bytes([number]) * number for number in numbers(120, 30)),
    "squares": b"\n".join(b"%d %d" % (number, number * number) for number in numbers(150, 50)),
}
FRAMES = {
    ("empty", 1): ("KLUv/SAAAQAA"),
    ("raw", 1): ("KLUv/SAUoQAAAAECAwQFBgcICQoLDA0ODxAREhM="),
    ("same", 1): ("KLUv/aCghgEAVQAAEGFhAQCbhjnAAg=="),
    ("words", 19): (
        "KLUv/WDBBU0IAOICCQzAPRxpjTvl/++rwwGnPvWpJxH0zXBq5jz4JEJjpZqcBAxjA3Wo0df67BkgRGAQQ6YeESAITGCYAAok"
        "IiiQCTCp2g6rKkPKCjHuSUG9mQ1Qk18nHUuKMh9ptP2FULave8ZWBTZM9c7c/t2H0Cwl0OCqeWuT7ybVcRFniiuLfLOLDcGr"
        "uEGI5/y0onxFRC3aqnDRdO7PoMqjtWgdo6vKbr5qjKZHajCaMtpBj+khDqE1E1QgIVywFgdvsN8fjWCYAcH8LlinLKIBg6qV"
        "GUT95uDMzs1UqjUqTAjMkeFZKRFQOCH8m50wUHTTJPQEIdSwoNtROKRfmFT/ZJc2Y2PCAR7ytFLDVao="
    ),
    ("skewed", 1): (
        "KLUv/WC8Ab0NAMbrbBAgTkF7lZHncij7MDtiESAUZwBnAGcAdrpoKLOzJURhukxf8vRUoUy5FYUu2prt2WfDwIEJo8HYMev9"
        "/UePoY+AP54R2nxmzdgpagRASks7hCJbNA3CC1WGSgvqK0y0I8Bc5t3DsntE/TmLPi5JtrGMuVAGF0Qv8R5nf+DAGtuZVE8x"
        "tQ3JOFmFMcUiTBoulhrmyMLIVpAhTVXt6ZJoY6EWFsjS4yEVADzGyLG3vDvFESvGZU8cdIsH2WPyjWWuleBpJ/znJ+eMlqaS"
        "+hUBWS8g8HrbYf4kXyaHmlzrJA7l+2Ii/CZ+2gjD6YLTf7es4M+2eG6OXUmsZScYQryDjNFJZQ+zyS1aWNBpg08XmsO761KC"
        "tR40+HqmVv5QhS5CMojVnVEzI9xoSjVAi587XfkmRhOCFy5uuq8pGATVO99r/pj36M4Dd6IQDzsDr+xPKVbR3/IghTeMawRc"
        "EZ3Kc/T8FVOVAvItwsYBw7ghuFzdodFJp+s8CEdv751Z8W1DtwLXhaO0eFqCVQAZ6q8Ju86NruBdWzT2QYLpKErTBkLYpe2M"
        "81bLYRJaWrj5FoCsrWyqDQA="
    ),
    ("mixed", 1): (
        "KLUv/WBXDDUUAGKJHiBARacD7/pCiIp0DMPuyN5bSplKsSKk/lDSQ6EeZLe2BGh05l973ul96xfvzO9968NFw1ANF9D63Dtf"
        "H/jU5/l6kApLPsJrreVssNUJdYsc4n2VR83iJGeMMbY40TuHo3a4CRQynMCUPQRBebkUsNFwKoHpTQDVQKYTgRyocdaT9g7x"
        "BFLAoHLufBJIMTk5q4whhBgyMyMiIiRFBUkzBnbijJTxiSEO4swEyIIVG/3FwNYyehI5+G+1pjxyEcj59vlHfLaDllLWs+/P"
        "O2y+DMpFAgvIC42dxYWozYPzr1QRmhE7U8FrJsAULm3zxCEC/ZyThZBlvjaKHH8Xq0Tufxgrqyeaiyk7SMB0egTHdxM34eT2"
        "/wVFxE38TtiPx693CGyEdNvqJDQkSHTHg+eB7NDkevQ2kxWhhWDnI5tFRLmztvxe2+SoZ2mPVekaXFjofFXzxP9F/TWdXbrg"
        "G9ILmtO0BK+0Lb1c3BFa4glEtpRALHas4qNE8zRfo60PPHaLUURBaeu4FC3KtcXvliotMqdy3B4X3ujZJheoZMIx0zPHo9HU"
        "xCcJk3EQmp2eXAyeRY4Xscdxj4jSgjdnrhu+o2EfzfOWzh2GQ9RaQcKcOVEAObY83L1bMsBUAhMTQgSLSbLDs44+RfMaVmph"
        "4EUO6HJkZuH65LFIbmwqXcF8cKHLI58kwgjaAxqwPgCROyTGuR0Y7AkAeolX3HYYEc5E1hHH3MVu8k+RhwlOYjqPB0o8O4xt"
        "5OUefY4h/QnlXfaRrJnmAwslgmnhcnQTpLge6CM1M7WWzitnQ5USchVRasi3CtB1V2jMbYiIZKwW08iISQEXBwK0fClB2uJW"
        "j7lKpAmQtQo="
    ),
    ("mixed", 19): (
        "KLUv/WBXDIUMAAQFbGF5ZXIuOC53ZWlnaHQIMhwzAwMDNRkxATcRMDkJMgw2BjkTMjQYNQUzFzcbMhoxFTIWMQ4xMQsEMw0x"
        "DwcyAgIwFAExMAo4EjkdNhABAQGAm6gwWfsbQI4EQ0NVDyIQCA6YQxAEQRAGQhCEQRieIaghAiIkTnCENwflow5wi6VwBSHy"
        "6jU55cE+ohH2CCXweWZSS+JcTmpTI48BY7Z7mUsXlxSL7g+LVqmaU7wFwNk3yg2FxH4UMGik31cyMIzSg3gp/Ee2ZctUEnQl"
        "5sPTojPTX5O/vU8xCyTgA1/S3ACBKryw6VSCYjWMNlRuxy2wldupScofUCIzQUZvsxMbUyE2fvO8L7shuLIOMDcGho9rqGVF"
        "D9sxj5UwpZ+IjB0zYomR7VYGDdRMrnnz/t2e71wHnDv3MuxEGm53rzMcBmNQ5q+HQXt9pHD4WNGQ8RT+ZBiQf28aZAGSLEeA"
        "vn0c0zOOrTJJwh5uO92PBoEIrHKeG71CfSwc38YuPjVu0Q+vE/ratuOYGzo1lhZIuRQ="
    ),
    ("squares", 19): (
        "KLUv/WAGA50KAEbUJwmg7fDblsJ+N0ckACQAJACJ8hUaJCeBpXQbIOpSqM1ZiOhRSLlPoBdK5Cqk9SmQjUBEHSdTyztgnaS3"
        "UBJyERDeKFayFdKmX/QZqFTPgSTsQ1Bil1i100CX8JSkj5AWAZIZG0GH5GOzSa9pZaP8Ai1gk50ISi6wq0kkugTWKSKPWSAO"
        "26RovRkiH82WUo/cZ7l6oURXLMJ6EMXISFA8G1WoUYoyNDZJ0hqF5hAcwpjkAxAYosijBZU2o6Tobs5ATrA5fUi+xKOO2hef"
        "bwHoeElXTgt1xbiYkoi4M7wo4lO/hLjdvdkmuG3tAVcGA8KSVFph9LCXSdE+KyKW0Vg3LWsvPEjyaC6lmaRagS9lrCVVDQrv"
        "QcZ4Z4jOe6A7cmeAn1qXhXYpfpnmnflNVcEhZoCcFx0sPZAHcTlw/AtCPlFl+gvNLAFFolSXlBg1u4ZXAQ=="
    ),
}
"""By what they hold and the level of compression, in base64."""


def frame(kind: tuple[str, int]) -> bytes:
    return base64.b64decode(FRAMES[kind])


@pytest.mark.parametrize("kind", FRAMES, ids=str)
def test_a_frame_gives_what_was_put_in(kind: tuple[str, int]) -> None:
    assert zstd.decompress(frame(kind)) == CONTENTS[kind[0]]


@pytest.mark.parametrize("kind", FRAMES, ids=str)
def test_its_size_is_told_without_reading_it(kind: tuple[str, int]) -> None:
    data = frame(kind)
    assert zstd.frame_size(b"xy" + data + b"more", 2) == len(data)
    for place in range(len(data)):
        with pytest.raises(ValueError, match="frame"):
            zstd.frame_size(data[:place])


@pytest.mark.parametrize("kind", FRAMES, ids=str)
def test_a_frame_that_is_cut_short_is_an_error(kind: tuple[str, int]) -> None:
    data = frame(kind)
    for place in range(len(data)):
        with pytest.raises(ValueError, match=r"\w"):
            zstd.decompress(data[:place])


@pytest.mark.parametrize("kind", FRAMES, ids=str)
def test_turned_bits_are_an_error_or_other_content_and_nothing_worse(kind: tuple[str, int]) -> None:
    chosen = random.Random(3)
    for _ in range(150):
        data = bytearray(frame(kind))
        data[chosen.randrange(len(data))] ^= 1 << chosen.randrange(8)
        with contextlib.suppress(ValueError):
            zstd.decompress(bytes(data), limit=1 << 20)


def test_no_more_is_unpacked_than_is_allowed() -> None:
    with pytest.raises(ValueError, match="holds"):
        zstd.decompress(frame(("same", 1)), limit=99_999)


@pytest.mark.parametrize("data", [b"", b"x", b"PK\x03\x04", zstd.MAGIC, zstd.MAGIC + b"\x03" + bytes(9)])
def test_what_is_no_frame_is_an_error(data: bytes) -> None:
    with pytest.raises(ValueError, match="frame"):
        zstd.decompress(data)
