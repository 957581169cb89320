"""The procedures of SQL that ask the daemon, and raise the error with which it answers.

They are one of the files of ``sql_api``: see ``migrate.py``.  Each writes a request and waits (see
40_requests.sql).  They commit, so they have no SET clause, and every name in them is qualified.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from pgtrickle.model.text.names import quote_literal

Argument: TypeAlias = tuple[str, str, str | None]  # its name, type and default


@dataclass(frozen=True, slots=True)
class Procedure:
    """A procedure that makes the request of its name; its arguments are those of the request."""

    name: str
    arguments: tuple[Argument, ...]
    meaning: str
    result: str = "jsonb"
    names_of: str = ""  # the argument that the request calls ``names``


# What is NULL is left to the daemon, as it is for the client and the commands.
_NAME: Argument = ("name", "text", None)
_GROUP: Argument = ("group_name", "text", None)
_NODES: Argument = ("nodes", "text[]", None)
_SOURCES: Argument = ("sources", "text[]", "NULL")
_PROCEDURES = (
    Procedure(
        "rename_stream_table",
        (_NAME, ("new_name", "text", None)),
        "Rename a stream table or, with schema.name, move it to another schema; its consumers "
        "follow.",
    ),
    Procedure(
        "drop_stream_table",
        (_NAME, ("cascade", "bool", "false")),
        "Drop a stream table; with cascade, its consumers too.",
    ),
    Procedure(
        "refresh_stream_table",
        (_NAME, ('"full"', "bool", "false")),
        'Bring a stream table up to date; with "full", recompute it.',
    ),
    Procedure("resume_stream_table", (_NAME,), "Resume a suspended stream table."),
    Procedure(
        "repair_stream_table",
        (_NAME,),
        "Restore the capture, the guard and the status of a stream table; the next refresh reloads"
        " it.",
        result="text",
    ),
    Procedure(
        "verify_stream_table",
        (_NAME,),
        "Compare a stream table with PostgreSQL's own answer to its query.",
    ),
    Procedure(
        "snapshot_stream_table",
        (_NAME, ("target", "text", "NULL"), ("to_lake", "bool", "false")),
        "Copy the rows and the state of a stream table, at one frontier; return the name of the"
        " table with the rows. With to_lake its copy in the lake has the rows.",
        result="text",
    ),
    Procedure(
        "restore_from_snapshot",
        (_NAME, ("source", "text", None)),
        "Give a stream table the rows, the state and the frontier of one of its snapshots.",
    ),
    Procedure(
        "drop_snapshot",
        (('"table"', "text", None),),
        "Drop a snapshot and its table.",
    ),
    Procedure(
        "enable_outbox",
        (
            _NAME,
            ("retention_hours", "float8", "24"),
            ("inline_threshold_rows", "int4", "10000"),
        ),
        "Let every refresh of a stream table append its changes to an outbox, or change what its"
        " outbox keeps.",
    ),
    Procedure(
        "disable_outbox",
        (_NAME, ("if_exists", "bool", "false")),
        "Take the outbox of a stream table away, with its entries and its consumer groups.",
    ),
    Procedure(
        "create_inbox",
        (
            _NAME,
            ('"schema"', "text", "NULL"),
            ("max_retries", "int4", "3"),
            ("with_dead_letter", "bool", "true"),
            ("with_stats", "bool", "true"),
            ("schedule_seconds", "int4", "5"),
            ("retention_hours", "float8", "72"),
        ),
        "Create a table that receives messages once, with stream tables of those that wait and"
        " those that have failed, and of figures.",
    ),
    Procedure(
        "drop_inbox",
        (_NAME, ("if_exists", "bool", "false")),
        "Drop an inbox, with its stream tables and its messages.",
    ),
    Procedure(
        "enable_inbox_ordering",
        (
            _NAME,
            ("aggregate_column", "text", "'aggregate_id'"),
            ("sequence_column", "text", "'sequence_num'"),
            ("skip_dead_letters", "bool", "false"),
        ),
        "Give an inbox a stream table with the next message of each aggregate.",
    ),
    Procedure(
        "disable_inbox_ordering",
        (_NAME,),
        "Take the order of an inbox away, with its stream table.",
    ),
    Procedure(
        "enable_inbox_priority",
        (
            _NAME,
            ("priority_column", "text", "'priority'"),
            ("urgent_from", "float8", "10"),
            ("schedule_seconds", "int4", "1"),
        ),
        "Give an inbox a stream table with the urgent messages, which is refreshed more often.",
    ),
    Procedure("disable_inbox_priority", (_NAME,), "Take the stream table of urgent messages away."),
    Procedure(
        "promote_shadow",
        (_NAME,),
        "Put the query of a stream table's shadow in force, with its contents.",
    ),
    Procedure(
        "cancel_shadow",
        (_NAME,),
        "End the shadow build of a stream table, which stays as it is.",
    ),
    Procedure(
        "compare_shadow",
        (_NAME, ("max_rows", "int8", "100")),
        "How the rows and the columns of a stream table would change by its shadow.",
    ),
    Procedure(
        "validate_query",
        (("query", "text", None),),
        "Check whether and how a query could be maintained, and list every obstacle.",
    ),
    Procedure(
        "bulk_create",
        (("definitions", "jsonb", None),),
        "Create several stream tables, all or none.",
    ),
    Procedure(
        "bulk_alter_stream_tables",
        (("names", "text[]", None), ("params", "jsonb", None)),
        "Make the same changes to several stream tables.",
    ),
    Procedure(
        "bulk_drop_stream_tables",
        (("names", "text[]", None),),
        "Drop several stream tables, in this order.",
    ),
    Procedure(
        "explain_stream_table",
        (_NAME, ("format", "text", "'text'"), ("with_analyze", "bool", "false")),
        "Show how a stream table is maintained: as text, json, dot, mermaid or html. With_analyze "
        "runs the reads and stages of the next refresh, measures them, and rolls back.",
        result="text",
    ),
    Procedure(
        "explain_delta",
        (_NAME,),
        "The statements by which the engine computes a change of a stream table.",
        result="text",
    ),
    Procedure(
        "explain_query_rewrite",
        (("query", "text", None),),
        "What each pass makes of a query: as PostgreSQL binds it, as algebra, as stages.",
    ),
    Procedure(
        "diamond_groups",
        (),
        "The stream tables that are refreshed together, their order, and whether the first or the "
        "last of them decides when.",
    ),
    Procedure(
        "diagnose_errors",
        (_NAME,),
        "The latest errors of a stream table, what each means and what to do.",
    ),
    Procedure(
        "setup_self_monitoring",
        (("schedule", "text", "'1m'"),),
        "Create stream tables over the history of refreshes: efficiency, anomalies and "
        "buffer_trends, in the schema pgtrickle_monitoring.",
    ),
    Procedure(
        "teardown_self_monitoring",
        (),
        "Drop the stream tables over the history of refreshes.",
    ),
    Procedure(
        "cache_stats",
        (),
        "The counts of the daemon's cache of compiled queries: entries, plans, hits, misses, "
        "evictions.",
    ),
    Procedure(
        "clear_caches",
        (),
        "Make the daemon forget its compiled queries and forecasts; return how many queries there "
        "were.",
        result="int4",
    ),
    Procedure(
        "pause_scheduler",
        (_NODES,),
        "Hold back stream tables; running refreshes finish.",
        names_of="nodes",
    ),
    Procedure(
        "resume_scheduler",
        (_NODES,),
        "Release stream tables that were paused.",
        names_of="nodes",
    ),
    Procedure(
        "create_refresh_group",
        (_GROUP, ("members", "text[]", None), ("isolation", "text", "NULL")),
        "Put stream tables into a group: they are refreshed at one moment and committed together;"
        " with read_committed, each on its own.",
        names_of="members",
    ),
    Procedure("drop_refresh_group", (_GROUP,), "Drop a refresh group; its members stay."),
    Procedure(
        "pause_cdc",
        (_SOURCES,),
        "Stop capturing the changes of these sources, or of all, in every session.",
        names_of="sources",
    ),
    Procedure(
        "resume_cdc",
        (_SOURCES,),
        "Capture these sources, or all that are paused, again; the next refresh reloads the stream"
        " tables.",
        names_of="sources",
    ),
    Procedure(
        "rebuild_cdc_triggers",
        (),
        "Create the capture triggers and functions of every source again, and missing buffers.",
    ),
    Procedure(
        "reset_fuse",
        (_NAME, ("action", "text", "'apply'")),
        "Reset a blown fuse: the next refresh applies the change, or reinitializes the stream "
        "table.",
    ),
    Procedure(
        "attach_ducklake_table",
        (
            _NAME,
            ("lake_table", "text", None),
            ("columns", "text[]", "NULL"),
            ("catalog_schema", "text", "NULL"),
            ("compaction_policy", "text", "NULL"),
        ),
        "Attach a table of the lake under this name: PostgreSQL keeps a copy of its rows, which "
        "stream tables can read.",
    ),
    Procedure(
        "detach_ducklake_table",
        (_NAME,),
        "Detach a table of the lake and drop the copy of its rows; refused while a stream table "
        "reads it.",
    ),
    Procedure(
        "show_as_of",
        (
            _NAME,
            ("as_of", "text", None),
            ("columns", "text[]", "NULL"),
            ("max_rows", "int8", "100"),
        ),
        "Rows of a stream table as its copy in the lake had them: in a snapshot of the lake by its "
        "number, or in the newest up to a moment. By default 100, at most 10,000.",
    ),
    Procedure(
        "move_ducklake_catalog",
        (("to_schema", "text", "NULL"), ("from_schema", "text", "NULL")),
        "Move the tables of a lake's catalog to another schema, with everything that names them.",
    ),
)

_TEMPLATE = """CREATE OR REPLACE PROCEDURE pgtrickle.{name}({arguments})
LANGUAGE plpgsql
AS $$
DECLARE
    failure pgtrickle.pgt_failure;{declared}
BEGIN
    {asks}
    IF failure.detail IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message,
              DETAIL = failure.detail, HINT = failure.hint;
    ELSIF failure.code IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = failure.code, MESSAGE = failure.message,
              HINT = failure.hint;
    END IF;{answers}
END
$$;

COMMENT ON PROCEDURE pgtrickle.{name}({types}) IS
    {meaning};
"""
_ANSWER = "\n    answer  pg_catalog.jsonb;"
_JSON_TEXT = "pg_catalog.jsonb_build_array(answer) OPERATOR(pg_catalog.->>) 0"
_ANSWERS = {  # how the answer becomes the result, by the type of that
    "jsonb": "",
    "int4": "\n    result := answer::pg_catalog.int4;",
    "text": f"\n    result := {_JSON_TEXT};",
}
_HEAD = "-- The procedures that ask the daemon; made by catalog/asking_procedures.py.\n"
_PERFORM = (
    "CALL pgtrickle.await_request("
    "perform_request.verb, perform_request.arguments, result, failure);"
)
# Not one transaction: the daemon sees what was written when it has been committed.
_WRITE = """CALL pgtrickle.find_obstacle(failure);
    IF failure.code IS NULL THEN
        EXECUTE write_and_refresh.sql;
        COMMIT;
        CALL pgtrickle.await_request('refresh_stream_table', pg_catalog.jsonb_build_object(
            'name', write_and_refresh.stream_table_name,
            'full', false), result, failure);
    END IF;"""
# A request carries JSON, which has no intervals.
_SET_SLA = """CALL pgtrickle.await_request('set_stream_table_sla', pg_catalog.jsonb_build_object(
        'name', set_stream_table_sla.name,
        'sla_s', EXTRACT(epoch FROM set_stream_table_sla.sla)), result, failure);"""
# For people, who would see the lines of a result padded to the longest of them.
_EXPLAIN = """CALL pgtrickle.await_request('explain_stream_table', pg_catalog.jsonb_build_object(
        'name', explain.name, 'format', 'text'), answer, failure);"""


_EXPLAIN_ST = """CALL pgtrickle.await_request(
        'explain_stream_table', pg_catalog.jsonb_build_object(
            'name', explain_st.name, 'format', 'json', 'with_analyze', explain_st.with_analyze),
        answer, failure);"""
_OBJECT = f"\n    result := ({_JSON_TEXT})::pg_catalog.jsonb;"


def write_asking_procedures() -> str:
    """Return the statements that define the procedures, all but those that list every option."""
    return "\n".join([_HEAD, *map(write_procedure, _PROCEDURES), *_special_procedures()])


def write_procedure(procedure: Procedure) -> str:
    """Return the statements that define a procedure."""
    name, kind = procedure.name, procedure.result
    pairs = [f"'{_key(procedure, one)}', {name}.{one}" for one, _, _ in procedure.arguments]
    built = ",\n        ".join(pairs)
    result = "result" if kind == "jsonb" else "answer"
    return _write(
        name,
        procedure.arguments,
        f"CALL pgtrickle.await_request('{name}', pg_catalog.jsonb_build_object(\n"
        f"        {built}), {result}, failure);",
        procedure.meaning,
        result=kind,
        answers=_ANSWERS[kind],
    )


def _key(procedure: Procedure, argument: str) -> str:
    return "names" if argument == procedure.names_of else argument.strip('"')


def _special_procedures() -> Iterator[str]:
    level: list[Argument] = [_NAME, ("sla", "interval", None)]
    meaning = (
        "Promise an age that the contents of a stream table do not exceed, and choose its tier and "
        "schedule by it; NULL takes the promise away."
    )
    yield _write("set_stream_table_sla", level, _SET_SLA, meaning)
    asked: list[Argument] = [("verb", "text", None), ("arguments", "jsonb", None)]
    meaning = (
        "Ask the daemon for something, wait until it is done, and raise its error if there is one."
    )
    yield _write("perform_request", asked, _PERFORM, meaning)
    written: list[Argument] = [("sql", "text", None), ("stream_table_name", "text", None)]
    meaning = "Run a statement, commit it, and wait until a stream table shows its effect."
    yield _write("write_and_refresh", written, _WRITE, meaning)
    analyzed: list[Argument] = [_NAME, ("with_analyze", "bool", None)]
    meaning = (
        "The plan of a stream table as an object; with_analyze, the figures of its next refresh, "
        "whose reads and stages run and are rolled back."
    )
    yield _write("explain_st", analyzed, _EXPLAIN_ST, meaning, answers=_OBJECT)
    meaning = "Print how a stream table is maintained, as a message: in psql, line by line."
    told = f"\n    RAISE INFO USING MESSAGE = {_JSON_TEXT};"
    yield _write("explain", [_NAME], _EXPLAIN, meaning, result="", answers=told)


def _write(
    name: str,
    arguments: Iterable[Argument],
    asks: str,
    meaning: str,
    *,
    result: str = "jsonb",
    answers: str = "",
) -> str:
    listed = [
        f"{argument} pg_catalog.{kind}{'' if default is None else f' DEFAULT {default}'}"
        for argument, kind, default in arguments
    ]
    types = [kind for _, kind, _ in arguments]
    if result:
        listed.append(f"INOUT result pg_catalog.{result} DEFAULT NULL")
        types.append(result)
    return _TEMPLATE.format(
        name=name,
        arguments=",".join(f"\n    {one}" for one in listed),
        declared=_ANSWER if answers else "",
        asks=asks,
        answers=answers,
        types=", ".join(types),
        meaning=quote_literal(meaning),
    )
