"""The built-in STABLE functions whose answer follows from their arguments and from settings.

STABLE says that a function answers alike within one statement.  Most built-in ones are STABLE
because of a setting such as TimeZone, and those are the same in every refresh.  Others tell of the
session, of the server or of the catalogs: their answer changes without a change of a source.  The
first ones are listed, so that a function of a later PostgreSQL is not followed by mistake.
"""

from __future__ import annotations

import re

# Comparisons and arithmetic of dates and times, and the functions behind casts.
_OPERATIONS = re.compile(
    r"(date|timestamp|timestamptz)_(cmp|eq|ge|gt|le|lt|ne)_(date|timestamp|timestamptz)"
    r"|timestamptz_(mi|pl)_interval|interval_pl_timestamptz|in_range"
)
_JSON_AGGREGATES = re.compile(
    r"(json|jsonb)_(agg|object_agg)(_unique)?(_strict)?(_transfn|_finalfn)?"
)
_LISTED = frozenset(
    name
    for names in (
        # Dates and times.
        "date date_add date_part date_subtract date_trunc extract generate_series make_timestamptz",
        "overlaps time timestamp timestamptz to_char to_date to_number to_timestamp",
        # Texts.
        "anytextcat concat concat_ws format quote_literal quote_nullable textanycat",
        "array_to_string convert convert_from convert_to length",
        "pg_char_to_encoding pg_encoding_to_char getdatabaseencoding",
        # Money, which has a locale.
        "money numeric",
        # JSON and XML.
        "array_to_json json_build_array json_build_object json_populate_record",
        "json_populate_recordset json_to_record json_to_recordset jsonb_build_array",
        "jsonb_build_object jsonb_path_exists_tz jsonb_path_match_tz jsonb_path_query_array_tz",
        "jsonb_path_query_first_tz jsonb_path_query_tz jsonb_populate_record",
        "jsonb_populate_record_valid jsonb_populate_recordset jsonb_to_record jsonb_to_recordset",
        "row_to_json to_json to_jsonb xml xml_is_well_formed",
        # Text search, with the default configuration.
        "get_current_ts_config json_to_tsvector jsonb_to_tsvector phraseto_tsquery plainto_tsquery",
        "to_tsquery to_tsvector ts_debug ts_headline ts_match_tq ts_match_tt ts_parse",
        "ts_token_type websearch_to_tsquery",
        # Types: the labels of an enum are a part of the shape of a source.
        "enum_first enum_last enum_range pg_typeof pg_collation_for pg_basetype pg_input_is_valid",
        "pg_input_error_info",
    )
    for name in names.split()
)
# Their other forms, for a time of day with a zone, depend on the present day.
_FORMS = frozenset(
    {
        ("timezone", "timestamp with time zone"),
        ("timezone", "timestamp without time zone"),
        ("timetz", "timestamp with time zone"),
    }
)


def follows_from_settings(name: str, arguments: str) -> bool:
    """Tell whether a built-in STABLE function gives the same answer in every refresh.

    >>> follows_from_settings("to_char", "interval, text")
    True
    >>> follows_from_settings("pg_backend_pid", "")
    False
    """
    return bool(
        name in _LISTED
        or (name, arguments) in _FORMS
        or _OPERATIONS.fullmatch(name)
        or _JSON_AGGREGATES.fullmatch(name)
    )
