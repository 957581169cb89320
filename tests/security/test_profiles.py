"""Plans hold values of the sources: only who can act as the owner measures and sees them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.labs.lab import Lab
from tests.security.bench import Bench
from tests.security.serving import refused, serving, stocked
from tests.security.test_guests import trust

ANALYZE = "CALL pgtrickle.explain_st('shop.revenue', with_analyze => true)"
LIST = "SELECT count(*) FROM pgtrickle.list_profiles('shop.revenue')"


@pytest.fixture
def lab(bench: Bench) -> Iterator[Lab]:
    with stocked(bench, "attacker") as made:
        made.run(f"SELECT pgtrickle.grant_access('{bench.roles['reader']}', 'reader')")
        made.run("INSERT INTO shop.orders VALUES (77, 'secret region', 1)")
        made.trickle.explain_stream_table("shop.revenue", with_analyze=True)
        yield made


def test_others_see_no_profile(bench: Bench, lab: Lab) -> None:
    assert lab.value(LIST) == 1

    assert bench.value("attacker", LIST) == 0
    assert bench.value("attacker", "SELECT count(*) FROM pgtrickle.pgt_profiles") == 0
    assert refused(bench.open("reader"), LIST) == "42501"


@pytest.mark.parametrize("who", ["reader", "attacker", "writer"])
def test_guests_keep_and_forget_no_profile(bench: Bench, lab: Lab, who: str) -> None:
    for statement in (
        "DELETE FROM pgtrickle.pgt_profiles",
        "UPDATE pgtrickle.pgt_profiles SET total_ms = 0",
        "INSERT INTO pgtrickle.pgt_profiles (pgt_id, taken_at, action, reason, total_ms, figures)"
        " VALUES (1, now(), '', '', 0, '{}')",
    ):
        assert refused(bench.open(who), statement) == "42501"


def test_an_operator_measures_only_what_is_his(bench: Bench, lab: Lab) -> None:
    trust(bench)
    with serving(lab):
        attacker = bench.open("attacker")
        assert refused(attacker, ANALYZE) == "ST206"
        bench.run("admin", "GRANT {owner} TO {attacker}")
        [(found,)] = attacker.execute(ANALYZE).fetchall()
    assert found["ran"]
    assert bench.value("attacker", LIST) == 2
