"""The expressions that Spark evaluates as PostgreSQL does, by example, and those that are refused.

tests/spark/test_expressions.py evaluates every translated expression over the edge values of its
family on both sides; docs/expressions.md is generated from here, so it says yes only where a test
does.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

_INT2 = ("-32768", "-1", "0", "1", "7", "32767")
_INT4 = ("-2147483648", "-7", "-1", "0", "1", "2", "7", "2147483647")
_INT8 = ("-9223372036854775808", "-10", "-1", "0", "3", "2147483648", "9223372036854775807")
_FLOAT4 = ("NaN", "Infinity", "-Infinity", "-0", "0", "1.5", "-2.5", "1e-45", "3.4028235e38", "7")
_FLOAT8 = (
    *("NaN", "Infinity", "-Infinity", "-0", "0", "0.5", "-1.5", "2.5", "5e-324", "1e300"),
    *("1.7976931348623157e308", "-9223372036854775808", "4503599627370497.5", "0.1", "-3"),
)
_MONEY = ("0", "0.01", "-0.01", "2.50", "-2.50", "99999.99", "-99999.99", "1.05")
_ANY_NUMERIC = ("0", "1.005", "-1.005", "-2.5", "123456.125", "0.0000001", "7", "-0.5")
_WIDE = ("9" * 30, "-1", "0", "12345678901234567890")
_TEXTS = (
    *("", " ", "a", "A", "abc", " abc ", "aabbaa", "é", "É", "ß", "😀", "a😀b", "x,y,,z"),
    *("100%", "a_c", "a\\b", "line\nbreak", "it's {x}", "e\u0301", "I", "İ", "12", "\t tab"),
)
_SHORT = ("", "a", "b", ",", "😀", "a%", "a\\_c", "_", "é", "\\\\", "bb")
_DATES = (
    *("2024-02-29", "2023-12-31", "1970-01-01", "0001-01-01", "0001-12-31 BC", "4713-01-01 BC"),
    *("9999-12-31", "10000-01-01", "2021-01-03", "1582-10-10", "0044-03-15 BC"),
)
_MOMENTS = (
    *("2024-02-29 23:59:59.999999", "2024-01-31 00:00:00", "1969-12-31 23:59:59.5"),
    *(
        "2024-03-10 02:30:00",
        "2024-11-03 01:30:00.000001",
        "0001-01-01 00:00:00",
        "2021-01-03 12:00",
    ),
    *("0044-03-15 12:34:56.7 BC", "4713-02-01 00:00:00 BC", "10000-01-01 00:00:00.12"),
    *("9999-12-31 23:00:00", "2000-08-31 10:20:30"),
)
_INSTANTS = (
    *("2024-03-10 06:59:59.999999+00", "2024-03-10 07:00:00+00", "2024-11-03 05:30:00+00"),
    *("2024-11-03 06:30:00+00", "infinity", "-infinity", "1970-01-01 00:00:00+00"),
)


@dataclass(frozen=True, slots=True)
class Values:
    """A column of edge values; NULL is always among them."""

    type: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Family:
    """Expressions over the same columns.

    Columns whose name ends in 2 are combined with every value of the others.
    """

    title: str
    note: str
    columns: dict[str, Values]
    translated: tuple[str, ...]
    refused: tuple[tuple[str, str], ...] = ()  # with the reason

    def rows(self) -> list[dict[str, str | None]]:
        """Return the combinations of edge values."""
        first = [name for name in self.columns if not name.endswith("2")]
        second = [name for name in self.columns if name.endswith("2")]
        return [
            {name: self._value(name, i if name in first else j) for name in self.columns}
            for i, j in product(range(self._longest(first)), range(self._longest(second)))
        ]

    def _longest(self, names: list[str]) -> int:
        return max((len(self.columns[name].values) + 1 for name in names), default=1)

    def _value(self, name: str, position: int) -> str | None:
        values = (*self.columns[name].values, None)
        return values[position % len(values)]


INTEGERS = Family(
    "Integers",
    "Overflow and division by zero are errors on both sides. Division truncates toward zero, and"
    " a remainder has the sign of the dividend.",
    {
        "s": Values("smallint", _INT2),
        "i": Values("integer", _INT4),
        "l": Values("bigint", _INT8),
        "s2": Values("smallint", _INT2),
        "i2": Values("integer", _INT4),
        "l2": Values("bigint", _INT8),
    },
    (
        *("i + i2", "i - i2", "i * i2", "i / i2", "i % i2", "l + l2", "l - l2", "l * l2", "l / l2"),
        *("l % l2", "s + s2", "s * s2", "s / s2", "s % s2", "i + l2", "s - i2", "s * l2", "l / i2"),
        *("mod(i, i2)", "i / 2 * i2", "- i", "- s", "- l", "abs(i)", "abs(l)", "abs(s)"),
        *("i & i2", "l | l2", "s # s2", "~ i", "i + 3000000000", "i < l2", "s = i2", "l <> l2"),
        *("i::smallint", "l::integer", "i::bigint", "l::smallint", "i::double precision"),
        *("l::double precision", "l::real", "i::numeric", "l::numeric * l2::numeric"),
        *("i::numeric(4,2)", "l::numeric(20,1)", "i::text", "l::text", "s::varchar(3)"),
        *(
            "i::boolean",
            "i IN (1, 2, 7)",
            "i NOT IN (1, 2)",
            "l IN (0, i2)",
            "i = ANY (ARRAY[s2, 3])",
        ),
        *("l <> ALL (ARRAY[1, NULL])", "i < ANY (ARRAY[i2, 0])", "i >= ALL (ARRAY[i2, 0])"),
        *("i BETWEEN i2 AND 7", "NULLIF(i, i2)", "COALESCE(i, i2, 0)", "GREATEST(i, i2)"),
        *("LEAST(l, l2, i)", "i IS DISTINCT FROM i2", "i IS NOT DISTINCT FROM l2", "i IS NULL"),
        *("COALESCE(i, i2) IS NOT NULL", "CASE i WHEN i2 THEN 'x' WHEN 7 THEN 'y' ELSE 'z' END"),
        *("CASE WHEN i2 <> 0 THEN i / i2 END", "'-2147483648'::integer + i", "NULL::integer"),
        *("CASE WHEN i > 0 THEN i2 ELSE NULL END", "-5 % i2"),
    ),
    (
        ("i << i2", "the result of a shift by more than the width depends on the machine"),
        ("power(i::double precision, 2::double precision)", "the last digit is the library's"),
        ("chr(i)", "Spark's CHR knows 256 characters"),
        ("to_char(i, '999')", "formats"),
        ("gcd(i, i2)", "no such function"),
    ),
)

FLOATS = Family(
    "Floating-point numbers",
    "NaN equals itself and is the greatest value. Overflow to infinity and underflow to zero are"
    " errors, as in PostgreSQL. Rounding is half to even.",
    {
        "f": Values("double precision", _FLOAT8),
        "r": Values("real", _FLOAT4),
        "f2": Values("double precision", _FLOAT8),
        "r2": Values("real", _FLOAT4),
    },
    (
        *("f + f2", "f - f2", "f * f2", "f / f2", "r + r2", "r - r2", "r * r2", "r / r2", "f + r2"),
        *("r / f2", "(f + 1::double precision) * (f2 - 1::double precision)", "- f", "- r"),
        *(
            "abs(f)",
            "abs(r)",
            "round(f)",
            "trunc(f)",
            "floor(f)",
            "ceil(f)",
            "ceiling(f * 2::float8)",
        ),
        *("sign(f)", "sqrt(f)", "sqrt(abs(f))", "floor(r)", "f = f2", "f <> f2", "f < f2"),
        *("f >= f2", "r = r2", "r < f2", "f IS NOT DISTINCT FROM f2", "GREATEST(f, f2)"),
        *("LEAST(f, f2)", "GREATEST(r, r2)", "f IN (0, 2.5, 'NaN')", "f NOT IN (0, 1)"),
        "f IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)",
        *("f::smallint", "f::integer", "f::bigint", "r::integer", "r::bigint", "f::real"),
        *("r::double precision", "COALESCE(f, f2)", "NULLIF(f, f2)", "f > 'Infinity'::float8"),
        *("CASE WHEN f2 <> 0 THEN f END", "f * 1.5", "'1e+300'::float8 * f2"),
    ),
    (
        ("f::text", "Spark prints other digits"),
        ("f::numeric", "PostgreSQL keeps fifteen digits"),
        ("exp(f)", "the last digit is the library's"),
        ("ln(f)", "the last digit is the library's"),
        ("f ^ f2", "the last digit is the library's"),
        ("cbrt(f)", "the last digit is the library's"),
        ("sin(f)", "the last digit is the library's"),
    ),
)

NUMERICS = Family(
    "Numerics",
    "Exact up to 38 digits; a result that needs more is an error. Rounding is half away from zero."
    " The number of digits of a quotient follows PostgreSQL's own rule and depends on the values."
    " So a division is translated only if the divisor is a constant whose reciprocal terminates,"
    " if the numeric(p,s) is short enough for an exact quotient, and only to compare, round or cast"
    " it.",
    {
        "m": Values("numeric(7,2)", _MONEY),
        "u": Values("numeric", _ANY_NUMERIC),
        "w": Values("numeric(30,0)", _WIDE),
        "p": Values("numeric(30,28)", ("0", "0.5", "99." + "9" * 28, "-0." + "0" * 27 + "1")),
        "m2": Values("numeric(7,2)", _MONEY),
        "u2": Values("numeric", _ANY_NUMERIC),
        "i2": Values("integer", ("-3", "0", "2", "2147483647")),
    },
    (
        *("m + m2", "m - m2", "m * m2", "m % m2", "u + u2", "u - u2", "u * u2", "u % u2", "m + u2"),
        *("m * i2", "i2 - m", "w - 1", "w % i2", "m * (1 - m2)", "u * u2 * m2", "- u", "abs(u)"),
        *(
            "mod(u, m2)",
            "m / 100 > m2",
            "m / 100.0 = 0.025",
            "round(m / 8, 3)",
            "round(m * (1 + m2 / 100), 2)",
            "(m / '-0.5'::numeric)::integer",
            "CASE WHEN m / 100 < 1 THEN m END",
        ),
        *("round(m)", "round(u)", "round(u, 2)", "round(m, 1)", "round(m, -2)", "round(u, -1)"),
        *("trunc(u)", "trunc(u, 2)", "trunc(m * m2, 3)", "trunc(m, -2)", "ceil(u)", "floor(u)"),
        *("ceil(m)", "floor(m)", "sign(u)", "sign(m - m2)", "u = u2", "u < m2", "w > u2", "w = m2"),
        *("p < u2", "m = 2.5", "u >= 1.005", "m <> i2", "m IN (2.5, 0.01)", "u IN (m2, 7)"),
        *("u IS NOT DISTINCT FROM m2", "GREATEST(u, m2)", "LEAST(m, i2)", "COALESCE(m, u2, 0)"),
        *("NULLIF(u, m2)", "CASE WHEN m > m2 THEN m ELSE u2 END", "m::integer", "u::bigint"),
        *(
            "u::smallint",
            "m::numeric(6,1)",
            "u::numeric(14,2)",
            "m::numeric",
            "u::double precision",
        ),
        *(
            "m::double precision",
            "p::double precision",
            "w::double precision",
            "u::real",
            "w::real",
        ),
        *(
            "(m + m2)::text",
            "(m * m2)::text",
            "(m % m2)::text",
            "round(m, 4)::text",
            "abs(-m)::text",
        ),
        *("scale(m * m2)", "scale(round(m, 1))", "scale(CASE WHEN m > 0 THEN m ELSE 0 END)"),
        *("CASE WHEN m > 0 THEN m END::text", "scale(i2::numeric)"),
        *("round(m, 1)::text", "trunc(m, -1)::text", "floor(m)::text", "sign(m)::text"),
        *("m::text", "(u)::numeric(20,3)::text", "'-1.50'::numeric + u", "NULL::numeric"),
        *("12345678901234567890 + m", "u * 0.5"),
    ),
    (
        ("m / m2", "the digits of the quotient depend on its value"),
        ("u / 100", "the digits of the dividend are not known"),
        ("scale(u * u2)", "how many digits each value has is lost"),
        ("COALESCE(m, 0)::text", "either side has digits of its own"),
        ("m / 3 > m2", "the quotient does not end"),
        (
            "m / 100",
            "its displayed digits depend on its value; in a comparison it is translated",
        ),
        ("(m / 100)::text", "its displayed digits depend on its value"),
        ("p * p", "56 digits after the point"),
        ("u::text", "its number of printed digits is lost"),
        ("sqrt(m)", "digits by PostgreSQL's own rule"),
        ("power(m, 2)", "digits by PostgreSQL's own rule"),
        ("round(m, i2)", "Spark has to know the digits beforehand"),
        ("m::numeric(40,2)", "more than 38 digits"),
        ("u = 'NaN'::numeric", "no NaN among Spark's decimals"),
        ("div(m, m2)", "no such function"),
    ),
)

TEXT = Family(
    "Text",
    "Characters are code points on both sides. Texts compare and sort by their bytes, so only the"
    " collation C gives an order; equality works under every deterministic collation. Upper and"
    ' lower case and ILIKE need an explicit `COLLATE "C"`.',
    {
        "t": Values('text COLLATE "C"', _TEXTS),
        "g": Values("text COLLATE other", _TEXTS),
        "v": Values('varchar(20) COLLATE "C"', _TEXTS),
        "c": Values('char(5) COLLATE "C"', ("", "a", "abc", "é", " b")),
        "t2": Values('text COLLATE "C"', _SHORT),
        "g2": Values("text COLLATE other", _SHORT),
        "c2": Values('char(5) COLLATE "C"', ("", "a", "ab", "é")),
        "k2": Values("integer", ("-2", "-1", "0", "1", "2", "3", "2147483647", "-2147483648")),
        "b2": Values("boolean", ("true", "false")),
    },
    (
        *("t = t2", "t <> t2", "t < t2", "t >= t2", "g = g2", "g <> g2", "c = c2", "v = t2"),
        *('g COLLATE "C" < g2', "t IS DISTINCT FROM t2", "t = ANY (ARRAY['a', 'é', t2])"),
        *("v IN ('a', 'abc')", "g NOT IN ('a', 'abc')", "c IN ('a', 'abc')", "c <> 'ab'"),
        *("t || t2", "t || k2", "g || 'x' || g2", "t || b2", "v || t2", "c::text || t2"),
        *("concat(t, t2, k2, b2)", "concat(NULL, t)", "concat_ws(t2, t, v, k2)"),
        *("length(t)", "char_length(v)", "length(c)", "octet_length(t)", "length(t || t2)"),
        *("substring(t, 2)", "substring(t, 2, 2)", "substring(t FROM -1 FOR 3)", "substr(t, k2)"),
        *("substring(t, k2, 2)", "substring(t, 2, k2)", "substring(t || t2, k2, k2)"),
        *(
            "left(t, 2)",
            "left(t, k2)",
            "left(t, -1)",
            "right(t, 2)",
            "right(t, k2)",
            "right(t || t2, -1)",
        ),
        *("btrim(t)", "ltrim(t)", "rtrim(t)", "btrim(t, t2)", "ltrim(t, 'ab')", "rtrim(t, '😀b')"),
        *("trim(BOTH 'a' FROM t)", "trim(LEADING FROM t)", "replace(t, t2, 'x')"),
        *("replace(t, 'a', t2)", "translate(t, 'aé😀', 'xy')", "translate(t, t2, 'q')"),
        *("position(t2 IN t)", "strpos(t, t2)", "strpos(g, 'b')", "starts_with(t, t2)", "t ^@ 'a'"),
        *(
            "lpad(t, 5, '*')",
            "rpad(t, 5, 'é😀')",
            "lpad(t, 3)",
            "lpad(t, 7, t2)",
            "rpad(t, -1, 'x')",
        ),
        *("reverse(t)", "repeat(t, 3)", "repeat(t2, 0)", "split_part(t, ',', 2)", "ascii(t)"),
        *("split_part(t, t2, 1)", "split_part(t, ',', k2)", "split_part(t, '', -1)"),
        *('upper(t COLLATE "C")', 'lower(g COLLATE "C")', "t::varchar(2)", "v::text", "c::text"),
        *("GREATEST(t, t2)", "LEAST(t, t2, 'm')", "COALESCE(t, t2)", "NULLIF(t, t2)"),
        *("CASE WHEN b2 THEN t ELSE t2 END", "'it''s {t} /* x */' || t", r"E'back\\slash' || t"),
        *(
            "b2::text",
            "b2::integer",
            "b2 = (t = t2)",
            "b2 < true",
            "b2 IS NOT TRUE",
            "b2 IS UNKNOWN",
        ),
        *(
            "(t = t2) IS FALSE",
            "(t = t2) IS NOT FALSE",
            "b2 AND t = 'a'",
            "b2 OR t = 'a'",
            "NOT b2",
        ),
        "(t = t2) IS NOT UNKNOWN",
    ),
    (
        ("g < g2", "the order is the collation's"),
        ("k2::text < b2::text", "the order is the database's"),
        ("GREATEST(g, g2)", "the order is the collation's"),
        ("c < c2", "blanks do not count"),
        ("upper(t)", "the locale decides what a letter is"),
        ("lower(g)", "the locale decides what a letter is"),
        ("initcap(t)", "the locale decides what a letter is"),
        ("t::integer", "each side reads numbers in its own way"),
        ("t::date", "each side reads dates in its own way"),
        ("repeat(t, k2)", "a text over 1 GB"),
        ("md5(t)", "depends on the server's encoding"),
        ("concat(c, t)", "with the blanks of char(n)"),
        ("overlay(t placing t2 from 2)", "no test"),
        ("octet_length(c)", "with the blanks of char(n)"),
        ("to_number(t, '999')", "formats"),
    ),
)

PATTERNS = Family(
    "Patterns",
    "LIKE with a constant or a computed pattern. A regular expression must be a constant made of"
    " plain characters, escaped punctuation, `.`, brackets of ASCII letters and digits, groups,"
    " alternatives, quantifiers, and `^` and `$` at its ends.",
    {
        "t": Values('text COLLATE "C"', _TEXTS),
        "g": Values("text COLLATE other", _TEXTS),
        "t2": Values('text COLLATE "C"', _SHORT),
    },
    (
        *(
            "t LIKE 'a%'",
            "t NOT LIKE 'a%'",
            "t LIKE '%b_'",
            "t LIKE ''",
            "t LIKE '_'",
            "t LIKE '__'",
        ),
        *(r"t LIKE 'a\_c'", r"t LIKE '100\%'", r"t LIKE '\a%'", r"t LIKE 'a\\b'", r"t LIKE '%\\%'"),
        *("t LIKE t2", "t NOT LIKE t2", "t LIKE '%' || t2 || '%'", "g LIKE 'a%'", "g LIKE '%é%'"),
        *(
            "t LIKE ANY (ARRAY['a%', t2])",
            "t NOT LIKE ALL (ARRAY['a%', '%b'])",
            "t LIKE 'line%break'",
        ),
        *(
            "t COLLATE \"C\" ILIKE 'A%'",
            't COLLATE "C" NOT ILIKE t2',
            "g COLLATE \"C\" ILIKE '%É%'",
        ),
        *(
            "t ~ 'b'",
            "t ~ '^a'",
            "t !~ '^a'",
            "t ~ 'c$'",
            "t ~ '^a.b$'",
            "t ~ '^(a|x).*'",
            "t ~ 'k$'",
        ),
        *("t ~ '[0-9]+'", "t ~ '^[^a-z]*$'", "t ~ '(aa|bb){2}'", "t ~ 'a{2,3}b?'", r"t ~ '\{x\}'"),
        *("t ~ 'a|b'", "g ~ '^[a-c]+$'", "t COLLATE \"C\" ~* '^[A-C]+$'", "t ~ 'line.break'"),
        r't COLLATE "C" !~* \'I\''.replace("\\'", "'"),
    ),
    (
        ("t ILIKE 'a%'", "the locale decides what a letter is"),
        ("t ~* 'a'", "the locale decides what a letter is"),
        (r"t ~ '\d'", "the locale decides what a digit is"),
        (r"t ~ '\mword'", "Java has other constraints"),
        ("t ~ '[[:alpha:]]'", "the locale decides what a letter is"),
        ("t ~ '^a|b$'", "anchors in alternatives"),
        ("t ~ '(?i)a'", "options inside the pattern"),
        ("t ~ 'a+?'", "quantifiers that are not greedy"),
        ("t ~ t2", "not a constant"),
        ("t SIMILAR TO 'a%'", "PostgreSQL converts it to its own regular expression"),
        (r"t LIKE 'a\'", "PostgreSQL fails only if it evaluates that part"),
    ),
)

MOMENTS = Family(
    "Dates and timestamps",
    "A timestamp with time zone can be compared, moved by hours, minutes and seconds, and converted"
    " to UTC; expressions that depend on the session's time zone are refused. Intervals must be"
    " constants. If PostgreSQL's answer for an infinite date is an infinite number, the refresh"
    " fails with ST407.",
    {
        "d": Values("date", _DATES),
        "z": Values("timestamp", _MOMENTS),
        "w": Values("timestamptz", _INSTANTS),
        "d2": Values("date", ("2024-03-01", "0001-01-01 BC", "2020-02-29", "5874897-12-31")),
        "z2": Values("timestamp", ("2024-03-01", "1969-12-31 23:59:59.999999")),
        "w2": Values("timestamptz", ("2024-11-03 05:30:00+00", "infinity")),
        "n2": Values("integer", ("0", "-1", "31", "2147483647")),
    },
    (
        *(
            "d = d2",
            "d < d2",
            "d >= d2",
            "z = z2",
            "z < z2",
            "w < w2",
            "w = w2",
            "d <= z2",
            "z > d::date",
        ),
        *("d = '2024-02-29'", "z >= '2024-01-31 00:00:00'", "w < '2024-03-10 03:00:00-04'"),
        *("d BETWEEN '2020-01-01' AND d2", "d IN ('2024-02-29', d2)", "d IS DISTINCT FROM d2"),
        *("GREATEST(d, d2)", "LEAST(z, z2)", "COALESCE(w, w2)", "NULLIF(d, d2)"),
        *("d - d2", "d + 1", "d - 1", "d + n2", "1 + d", "d2 - n2", "d2 + 365"),
        *("z + '1 mon'::interval", "z - '1 mon'::interval", "z + '1 year 1 mon 1 day'::interval"),
        *(
            "z + '02:30:00'::interval",
            "z - '1 day 00:00:00.5'::interval",
            "z - '7000 years'::interval",
            "d + '1 mon'::interval",
        ),
        *("z + '-1 mons +30 days'::interval", "d - '13 mons'::interval", "'1 day'::interval + z"),
        *("w + '01:00:00'::interval", "w - '00:00:00.000001'::interval", "d::timestamp", "z::date"),
        *(
            "EXTRACT(year FROM d)",
            "EXTRACT(month FROM d)",
            "EXTRACT(day FROM d)",
            "EXTRACT(dow FROM d)",
        ),
        *(
            "EXTRACT(isodow FROM d)",
            "EXTRACT(doy FROM d)",
            "EXTRACT(week FROM d)",
            "EXTRACT(quarter FROM d)",
        ),
        *(
            "EXTRACT(isoyear FROM d)",
            "EXTRACT(epoch FROM d)",
            "EXTRACT(year FROM z)",
            "EXTRACT(hour FROM z)",
        ),
        *("EXTRACT(minute FROM z)", "EXTRACT(second FROM z)", "EXTRACT(milliseconds FROM z)"),
        *("EXTRACT(microseconds FROM z)", "EXTRACT(epoch FROM z)", "EXTRACT(epoch FROM z - z2)"),
        *("EXTRACT(dow FROM z)", "EXTRACT(week FROM z)", "EXTRACT(year FROM d) * 2"),
        *("EXTRACT(second FROM z)::text", "EXTRACT(milliseconds FROM z)::text"),
        *("EXTRACT(microseconds FROM z)::text", "EXTRACT(epoch FROM z)::text"),
        *(
            "EXTRACT(epoch FROM d)::text",
            "CASE WHEN w < 'infinity' AND w > '-infinity' THEN EXTRACT(epoch FROM w) END",
        ),
        *(
            "date_trunc('microseconds', z)",
            "date_trunc('milliseconds', z)",
            "date_trunc('second', z)",
        ),
        *(
            "date_trunc('minute', z)",
            "date_trunc('hour', z)",
            "date_trunc('day', z)",
            "date_trunc('week', z)",
        ),
        *("date_trunc('month', z)", "date_trunc('quarter', z)", "date_trunc('year', z)"),
        *(
            "w AT TIME ZONE 'UTC'",
            "z AT TIME ZONE 'UTC'",
            "d::text",
            "z::text",
            "d::text || z::text",
        ),
        *(
            "CASE WHEN d < d2 THEN d ELSE d2 END",
            "d = 'infinity'::date",
            "z < 'infinity'::timestamp",
        ),
    ),
    (
        ("z - z2", "an interval is not computed with"),
        ("w::date", "the session's time zone decides"),
        ("d < w2", "the session's time zone decides"),
        ("z = w2", "the session's time zone decides"),
        ("w::text", "the session's time zone decides"),
        ("w + '1 day'::interval", "the session's time zone decides"),
        ("EXTRACT(hour FROM w)", "the session's time zone decides"),
        ("date_trunc('day', w)", "the session's time zone decides"),
        ("date_trunc('day', d)", "the session's time zone decides"),
        ("w AT TIME ZONE 'Europe/Berlin'", "two databases of time zones"),
        ("EXTRACT(century FROM d)", "no test"),
        ("date_trunc('decade', z)", "no test"),
        ("age(z, z2)", "an interval is not computed with"),
        ("to_char(z, 'YYYY')", "formats"),
        ("z + make_interval(days => n2)", "an interval has to be a constant"),
    ),
)

INFINITE = Family(
    "Infinite dates and timestamps",
    "They keep their position in the order and stay infinite when they are moved.",
    {
        "d": Values("date", ("infinity", "-infinity", "2024-02-29")),
        "z": Values("timestamp", ("infinity", "-infinity", "2024-02-29 01:02:03")),
        "w": Values("timestamptz", ("infinity", "-infinity", "2024-02-29 01:02:03+00")),
        "d2": Values("date", ("infinity", "-infinity", "2024-03-01")),
    },
    (
        *("d < d2", "d = d2", "d <= z", "z = d2", "d + 7", "d - 7", "d - d2", "d2 - d"),
        *("z + '1 mon'::interval", "z - '01:00:00'::interval", "d + '1 day'::interval"),
        *("w + '01:00:00'::interval", "d::timestamp", "z::date", "w AT TIME ZONE 'UTC'"),
        *(
            "z AT TIME ZONE 'UTC'",
            "date_trunc('month', z)",
            "d::text",
            "z::text",
            "GREATEST(d, d2)",
        ),
    ),
)

OTHERS = Family(
    "Other types",
    "A uuid, bytea or time travels as its text, which has the same equality and order as the value;"
    " an enum can only be compared for equality. Other types are passed through, never used in"
    " computations.",
    {
        "u": Values("uuid", ("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "0" * 32)),
        "y": Values("bytea", ("\\x", "\\x00ff", "\\x01")),
        "c": Values("time", ("00:00", "24:00", "12:00:00.5", "12:00:00")),
        "e": Values("mood", ("sad", "very happy")),
        "j": Values("jsonb", ('{"a": 1}', "null")),
        "u2": Values("uuid", ("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",)),
        "y2": Values("bytea", ("\\x", "\\x01")),
        "c2": Values("time", ("12:00:00.5", "23:59:59.999999")),
        "e2": Values("mood", ("sad",)),
        "x2": Values("interval", ("1 day", "24:00")),
    },
    (
        *("u = u2", "u < u2", "y = y2", "y > y2", "c = c2", "c < c2", "e = e2", "e <> e2"),
        *("u = 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", "c >= '12:00:00'", "y IN ('\\x', '\\x01')"),
        *(
            "e IS NOT DISTINCT FROM e2",
            "COALESCE(e, e2)",
            "CASE WHEN u = u2 THEN j END",
            "NULLIF(u, u2)",
        ),
        "j IS NULL",
    ),
    (
        ("e < e2", "the order is the enum's own"),
        ("x2 = '1 day'::interval", "24 hours are one day"),
        ("j = '{}'::jsonb", "equal values have several texts"),
        ("j ->> 'a'", "only PostgreSQL looks into jsonb"),
        ("c + '01:00:00'::interval", "no test"),
    ),
)

# Answers that PostgreSQL has and Spark cannot hold: an error, never something near it.
OUT_OF_REACH: tuple[tuple[str, str, str], ...] = (
    ("numeric(38,0)", "9" * 38, "v + 1"),
    ("numeric(38,0)", "9" * 38, "v * v"),
    ("numeric(38,0)", "9" * 38, "v > 0.5"),
    ("numeric(38,0)", "9" * 38, "GREATEST(v, 0.5)"),
    ("numeric(38,0)", "9" * 38, "round(v, -1)"),
    ("numeric", "0.00000000000000000001", "v * v"),
    ("date", "infinity", "EXTRACT(year FROM v)"),
    ("timestamp", "-infinity", "EXTRACT(epoch FROM v)"),
    ("timestamp", "294246-12-31", "v + '1 year'::interval"),
    ("timestamptz", "294246-12-31 23:59:59+00", "v + '300:00:00'::interval"),
    ("date", "300000-01-01", "v + '1 day'::interval"),
)

FAMILIES = (INTEGERS, FLOATS, NUMERICS, TEXT, PATTERNS, MOMENTS, INFINITE, OTHERS)
