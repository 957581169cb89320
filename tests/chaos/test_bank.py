"""The bank of the chaos run, without accidents: its stream tables show what they promise."""

from __future__ import annotations

from random import Random

import psycopg

import pgtrickle
from tests.chaos.bank import ACCOUNTS, STREAM_TABLES, TRANSFER, difference
from tests.chaos.run import open_bank
from tests.fakes.engine import DuckDbEngine


def test_bank_is_right_after_each_refresh(database: str) -> None:
    random = Random(3)
    open_bank(database)
    with (
        pgtrickle.connect(database, engine=DuckDbEngine()) as trickle,
        psycopg.connect(database, autocommit=True) as connection,
    ):
        for _ in range(20):
            payer, payee = random.sample(range(1, ACCOUNTS + 1), 2)
            connection.execute(TRANSFER, {"payer": payer, "payee": payee, "amount": 7})
        # As the daemon does it: what belongs together, in one transaction.
        reports = [
            report
            for unit in trickle.daemon.shape().units
            for report in trickle.daemon.refresh_unit(unit.members)
        ]
        wrong = {
            one.name: connection.execute(one.wrong.encode()).fetchall() for one in STREAM_TABLES
        }
        different = [
            connection.execute(difference(one).encode()).fetchone() for one in STREAM_TABLES
        ]
        groups = trickle.daemon.shape().groups
        connection.execute("ALTER TABLE balances DISABLE TRIGGER pgtrickle_guard")
        connection.execute("UPDATE balances SET balance = balance + 1 WHERE id = 5")
        found = [
            one.name for one in STREAM_TABLES if connection.execute(one.wrong.encode()).fetchall()
        ]

    assert {report.action.value for report in reports} <= {"DIFFERENTIAL", "NO_DATA"}
    assert not any(wrong.values())
    assert different == [(0,)] * 20
    assert max(map(len, groups)) > 10  # it is rich in diamonds
    assert found == ["balances"]  # what is wrong would be seen
