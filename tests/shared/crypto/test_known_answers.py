"""Known answers of the Java implementation of FLOE (Snowflake-Labs/floe-specification, Apache-2.0)."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from nexarch.crypto.floe import Message
from nexarch.crypto.layout import NONCE_LENGTH, Format, ObjectDamaged
from nexarch.crypto.segments import Opener, Sealer

KEY = bytes(32)
AAD = b"This is AAD"


@dataclass(frozen=True, kw_only=True)
class KnownAnswer:
    case: str
    segment_length: int
    rotation_mask: int
    plaintext: bytes
    ciphertext: bytes

    @property
    def form(self) -> Format:
        return Format(prefix=b"", segment_length=self.segment_length, rotation_mask=self.rotation_mask)

    @property
    def segments(self) -> list[bytes]:
        starts = range(self.form.header_length, len(self.ciphertext), self.segment_length)
        return [self.ciphertext[start : start + self.segment_length] for start in starts]

    def random(self) -> Callable[[int], bytes]:
        """Return what gives out the IV and the nonces that the reference implementation drew."""
        drawn = iter([self.ciphertext[10:42]] + [segment[4 : 4 + NONCE_LENGTH] for segment in self.segments])
        return lambda _size: next(drawn)


KNOWN_ANSWERS = [
    KnownAnswer(
        case="a short last segment",
        segment_length=64,
        rotation_mask=20,
        plaintext=bytes.fromhex(
            "ef2bc51a89cd7a2b3253bd5be50a6489cf9b200ea7452256c4be5653cb387cb0dec1a51c3270cfeb65d0a784c780d001"
            "9412303d23e70486660dc182b494e4e7cdbb0b"
        ),
        ciphertext=bytes.fromhex(
            "00000000004000000020805f0152a4286ed9cf0fe9659611f6c9766e101170927576640a27e50c4590b0444d57bb9de5"
            "60dc64a78acc22810cba84dc49a30825e97b7e1b074e7c69c398ffffffff73b3b469d616f2669ddb89e8930450f15986"
            "7de5a252dbbb24a4f6477d97d3ce9fc752537be0a4414beec7f587cc604abe893e34314add36a1763b8affffffff38b3"
            "1dbfac7c629a1910b6508a27ab14bb7da2545fc186754a51a1f301b2e1957fcd119dbaa7fa571c9ed9817ddcd4002452"
            "55f305d90f26b8a2a60900000023cb1121d1186a16b066081c08f65761c063cd45881e8f36d733bbe97fef2e23"
        ),
    ),
    KnownAnswer(
        case="a key for every four segments",
        segment_length=40,
        rotation_mask=2,
        plaintext=bytes.fromhex(
            "1c79058d26a13b0cac41256ca000c75b8938f2378c76e2d01308d9a9e2240ea4d30086565a748049fa45efcbdaf51c31"
            "7f3f403747b09f856e4e516624906a347a2bae2a5079576eb340ac4367611439c40d54"
        ),
        ciphertext=bytes.fromhex(
            "00000000002800000020bcff1ac58da5913ecd816a609cd111829060413f4e6fc975fcd7924865bf57e8ce413a982032"
            "7c6cb03a613b9208bdcb8941c3b9ed7698a47cbf540ff20dbe7effffffff1d46a3b8256de57fd4cc768c57f1eb0d04da"
            "ff23edf52629979c06e55a8c3a188252d159ffffffff122818aa0f01912d473e414ca6b16009cdcf437802aa7f7abcc6"
            "aa0e0567b55027f26fc2ffffffff7b3c05915ff86d433f96fe003e0874666c0691cbdf827702927f46d072bf40e82e0c"
            "1d01ffffffff138c8a17e461985bbd1952fc8fcdf0470ab8bc3dfef8413e7fef8e18e592c7697a2814c7ffffffff1851"
            "eb4596328bb46f8e1f51a8079590fef03a2dd36175ead47fc2de8d3d7eb2c24e829cffffffff2a0b2ea2edb81889b8ba"
            "78cea4a1090ba759de7e2ed660e01530729f5e2e8a39fe34435effffffff5681b49f7e01cc19aeec4858e607443239b2"
            "e7ade1f8beeb8833a9640fa0a9d3f8a5617effffffff5517335d118b8c5fd8b7e1a45ca801338778dd451ff2175b168f"
            "77d8deeac011a12cfcd4ffffffff38fd26287078599380825bc5e6a58c232147603721a76475b3b110dbb7e9a53ef815"
            "468effffffff905ea3ae3074a8f1548185dd9bf11ced3cd3bce3e0c0e5f1d331136da1db68874a99a0e500000023f837"
            "01a68fb679ad1d8fd4c3b9721bd8df4f1c6acd466a4b110a6f7a90b8b0"
        ),
    ),
    KnownAnswer(
        case="a full last segment",
        segment_length=40,
        rotation_mask=20,
        plaintext=bytes.fromhex("935e679e8deaeecc300777f90606d92c"),
        ciphertext=bytes.fromhex(
            "00000000002800000020ea1abfaa4f4aeb96c152ae87eace05f91ad5e1a7f4bec7dc92b79e6ea9d925cd29315fb4c1c3"
            "034c71162de9eede6095147a37171b78d0316f25d0124a04d8deffffffffa3b026ca128af0b79bafb550f9d298864fc5"
            "a413355c17d822e0acf6a78b6ae25b5df56600000028a34316dedf6ccc1a96d6de3e1d612b36b43a025b429dc539b96c"
            "a79bca0eb4ab0d3b0412"
        ),
    ),
    KnownAnswer(
        case="an empty last segment",
        segment_length=40,
        rotation_mask=20,
        plaintext=bytes.fromhex("b83fb512012054a0195ff30074ebd4a8"),
        ciphertext=bytes.fromhex(
            "00000000002800000020e4fd1738289ec2a831a32ff254bc176033f565de7f15928355b3a8bb4694a67b3e5dbb9e3bb6"
            "608743b2451f6fd129a31d83b455a67eaf11be3b882dd8d3b10fffffffff1fdfeebb9f3d2c4af5f556e481d8c73c8ad1"
            "286a4a2cf73580f5eef7cd20922b5c430ddbffffffff777bc2da2eb1d497f77657cc4eb211fa9c5280b1f0cab8d6c9c3"
            "4a81c37140079c3d5cb1000000201832f5ffdd0e8529483ee8032c2fcd25779ddf459dcdd57fb3ba8d80"
        ),
    ),
]
every_answer = pytest.mark.parametrize("answer", KNOWN_ANSWERS, ids=lambda answer: answer.case)


@every_answer
def test_a_known_answer_decrypts(answer: KnownAnswer) -> None:
    opener = Opener(KEY, AAD, stored_size=len(answer.ciphertext), plaintext_size=None, form=answer.form)

    plaintext = opener.update(answer.ciphertext)

    opener.finish()
    assert plaintext == answer.plaintext


@pytest.mark.parametrize(
    "answer", [a for a in KNOWN_ANSWERS if a.case != "an empty last segment"], ids=lambda answer: answer.case
)
def test_a_known_answer_is_sealed_to_the_byte(answer: KnownAnswer) -> None:
    sealer = Sealer(KEY, AAD, form=answer.form, random=answer.random())

    sealed = sealer.update(answer.plaintext) + sealer.finish()

    assert sealed == answer.ciphertext


@every_answer
def test_a_known_answer_is_sealed_to_the_byte_segment_by_segment(answer: KnownAnswer) -> None:
    # The only way to an empty last segment after full ones: a Sealer never writes that.
    random = answer.random()
    message = Message(answer.form, KEY, random(32), AAD)
    step = answer.form.segment_plaintext
    buffer = memoryview(bytearray(answer.segment_length))
    sealed = message.header

    for number, segment in enumerate(answer.segments):
        piece = memoryview(answer.plaintext)[number * step : (number + 1) * step]
        last = number == len(answer.segments) - 1
        length = message.seal_segment(number, piece, random(NONCE_LENGTH), buffer, last=last)
        assert length == len(segment)
        sealed += buffer[:length]

    assert sealed == answer.ciphertext


def test_an_empty_last_segment_after_full_ones_is_refused_where_the_size_is_known() -> None:
    answer = next(a for a in KNOWN_ANSWERS if a.case == "an empty last segment")

    with pytest.raises(ObjectDamaged, match="not 16 bytes sealed"):
        Opener(KEY, AAD, stored_size=len(answer.ciphertext), plaintext_size=16, form=answer.form)
