"""The routines of SQL that list every option, made from the definition of the options.

They are one of the files of ``sql_api``: see ``migrate.py``.  A new option changes the arguments of
the procedures, so its migration drops them as they were.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from pgtrickle.catalog.asking_procedures import Argument, Procedure, write_procedure
from pgtrickle.model.text.names import quote_literal
from pgtrickle.options.option import Option, OptionVerb
from pgtrickle.options.stream_table import OPTIONS, options_of

_CREATE = {
    "create_stream_table": "Create a stream table and, unless initialize is false, load it. With"
    " the sink 'ducklake' it has a copy in the lake.",
    "create_stream_table_if_not_exists": "Create a stream table, unless one of this name exists;"
    " that one stays as it is.",
    "create_or_replace_stream_table": "Create a stream table, or change the one of this name to"
    " match this definition; options that are left out stay.",
}
_ALTER = (
    "Change the query or the options of a stream table; NULL leaves an option as it is. A"
    " max_delta_fraction of 'default' brings the setting back, a sink of 'none' ends the copy in"
    " the lake."
)

# Where an option is found: of a stream table s and, if it has one, its copy k in the lake.
STORED: Mapping[str, str] = MappingProxyType(
    {
        "schedule": "s.schedule",
        "refresh_mode": "s.refresh_mode",
        "cdc_mode": "s.requested_cdc_mode",
        "max_delta_fraction": "s.max_delta_fraction",
        "engine": "s.engine",
        "tier": "s.tier",
        "fuse": "s.fuse",
        "fuse_ceiling": "s.fuse_ceiling",
        "fuse_sensitivity": "s.fuse_sensitivity",
        "diamond_consistency": "s.diamond_consistency",
        "diamond_schedule_policy": "s.diamond_schedule_policy",
        "sink": "CASE WHEN k.pgt_id IS NOT NULL THEN 'ducklake' END",
        "ducklake_sink_path": "k.sink_path",
        "ducklake_table": "quote_ident(k.lake_schema) || '.' || quote_ident(k.lake_table)",
        "ducklake_partition_by": "k.partition_by",
    }
)

_SPEC = """
CREATE OR REPLACE FUNCTION pgtrickle.stream_table_spec(
    name text, schemas name[] DEFAULT current_schemas(false))
RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT jsonb_build_object(
               'name', format('%I.%I', s.pgt_schema, s.pgt_name), 'query', s.original_query,
               'search_path', s.query_search_path, 'owner', s.owner_role,
               {pairs})
      FROM pgtrickle.pgt_stream_tables AS s
      LEFT JOIN pgtrickle.pgt_ducklake_sinks AS k ON k.pgt_id = s.pgt_id
     WHERE s.pgt_id = pgtrickle.find_stream_table($1, $2)
$$;

COMMENT ON FUNCTION pgtrickle.stream_table_spec(text, name[]) IS
    'The definition of a stream table as JSON.';
"""
_CALLS = """
CREATE OR REPLACE FUNCTION pgtrickle.write_definition_calls(spec jsonb)
RETURNS SETOF text
LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT unnest(ARRAY[
               format('SET search_path = %s', coalesce(nullif(spec ->> 'search_path', ''), '''''')),
               concat(format('CALL pgtrickle.create_or_replace_stream_table(%L, %L',
                             spec ->> 'name', spec ->> 'query'),
               {create},
               CASE WHEN NOT (spec -> 'initialize')::boolean
                    THEN ', initialize => false' END, ')'),
               concat(format('CALL pgtrickle.alter_stream_table(%L', spec ->> 'name'),
               {alter}, ')')])
$$;

COMMENT ON FUNCTION pgtrickle.write_definition_calls(jsonb) IS
    'The calls that create a stream table from its description, and change one that exists to'
    ' match.';
"""
_HEAD = "-- The routines that list every option; made by catalog/option_routines.py.\n"


def write_option_routines() -> str:
    """Return the statements that define the routines."""
    return "\n".join([_HEAD, *_procedures(), _spec(), _calls()])


def _procedures() -> Iterator[str]:
    name: Argument = ("name", "text", None)
    for verb, meaning in _CREATE.items():
        arguments = (name, ("query", "text", None), *_arguments(OptionVerb.CREATE))
        yield write_procedure(Procedure(verb, arguments, meaning))
    arguments = (name, ("query", "text", "NULL"), *_arguments(OptionVerb.ALTER))
    yield write_procedure(Procedure("alter_stream_table", arguments, _ALTER))


def _arguments(verb: OptionVerb) -> Iterator[Argument]:
    """Yield the name, type and default of each argument of a verb."""
    for one in options_of(verb):
        default = one.word if verb is OptionVerb.CREATE else None
        yield one.name, one.sql_type(verb), _literal(default)


def _literal(value: object) -> str:
    if value is None:
        return "NULL"
    return str(value).lower() if isinstance(value, bool) else quote_literal(str(value))


def _spec() -> str:
    kept = [one.name for one in OPTIONS.values() if one.kept]
    pairs = [f"'{name}', {STORED[name]}" for name in kept]
    return _SPEC.format(pairs=",\n               ".join(pairs))


def _calls() -> str:
    kept = [one for one in OPTIONS.values() if one.kept]
    create = [one for one in kept if OptionVerb.CREATE in one.verbs and not _is_brought_back(one)]
    alter = [one for one in kept if one not in create]
    return _CALLS.format(create=_exported(create), alter=_exported(alter))


def _is_brought_back(one: Option) -> bool:
    """Tell whether only alter can bring the default back, where a stream table is another."""
    return bool(one.reset) and one.kind is not str


def _exported(options: Iterable[Option]) -> str:
    """Write each option as a named argument; nothing, where it is NULL and has no word for that."""
    parts = []
    for one in options:
        value = f"spec ->> '{one.name}'"
        if one.reset:
            value = f"coalesce({value}, '{one.reset}')"
        quoted = (
            f"({value})" if one.kind is not str and not one.reset else f"quote_literal({value})"
        )
        parts.append(f"', {one.name} => ' || {quoted}")
    return ",\n               ".join(parts)
