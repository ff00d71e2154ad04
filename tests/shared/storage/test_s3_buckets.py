import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexarch.storage.s3_buckets import Buckets

SLUGS = st.from_regex(r"[a-z][a-z0-9_]{1,30}", fullmatch=True)
# docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html
BUCKET_NAME = re.compile(r"(?!.*\.\.)[a-z0-9][a-z0-9.-]*[a-z0-9]")


@given(SLUGS)
def test_every_slug_makes_a_name_that_a_bucket_may_have(slug: str) -> None:
    for template in ("nexarch-{tenant}", "{tenant}-nexarch", "{tenant}"):
        assert BUCKET_NAME.fullmatch(Buckets(template).bucket(slug))


@given(SLUGS, SLUGS)
def test_two_tenants_never_share_a_place(one: str, other: str) -> None:
    for buckets in (Buckets("nexarch-{tenant}"), Buckets("nexarch")):
        places = {(buckets.bucket(slug), buckets.prefix(slug)) for slug in (one, other)}

        assert len(places) == len({one, other})


@pytest.mark.parametrize(
    ("slug", "bucket"), [("acme", "nexarch-acme"), ("big_corp", "nexarch-big-corp"), ("odd_", "nexarch-odd.u")]
)
def test_a_name_says_whose_it_is(slug: str, bucket: str) -> None:
    assert Buckets("nexarch-{tenant}").bucket(slug) == bucket
