"""The default remedy of each error, shown if the error has no hint of its own.

``NAME`` stands for the stream table.  A remedy must be valid wherever the error is raised; advice
for one place belongs in the hint there.
"""

from __future__ import annotations

from typing import Final

_ANOTHER_QUERY = "Give it a query that can be maintained: pgtrickle alter NAME --query SQL."
_BY_ITSELF = "Nothing, unless it persists: the scheduler retries by itself."
_MIGRATE = "Install the version of pgtrickle that last migrated the catalog, or a later one."
_CALL_AGAIN = "Repeat the call."

REMEDIES: Final = {
    "ST101": _ANOTHER_QUERY,
    "ST102": _ANOTHER_QUERY,
    "ST103": _ANOTHER_QUERY,
    "ST104": _ANOTHER_QUERY,
    "ST105": "Create the missing object again under the same name, or give the stream table"
    " another query: pgtrickle alter NAME --query SQL.",
    "ST106": _ANOTHER_QUERY,
    "ST107": _ANOTHER_QUERY,
    "ST108": _ANOTHER_QUERY,
    "ST109": _ANOTHER_QUERY,
    "ST110": _ANOTHER_QUERY,
    "ST111": "Raise max_fixpoint_iterations, or limit the rows that the queries derive from their"
    " own rows.",
    "ST112": "Raise compile_timeout_ms, or split the query into stream tables.",
    "ST201": "Check the name: pgtrickle list. If the table was dropped without pgtrickle, run:"
    " pgtrickle drop NAME.",
    "ST202": "Choose another name.",
    "ST203": "Run: pgtrickle init.",
    "ST204": _MIGRATE,
    "ST205": _MIGRATE,
    "ST206": "Run the daemon as the owner of the stream table, or as a member of that role.",
    "ST207": "Drop those first, or drop all of them with --cascade.",
    "ST208": "Choose another name.",
    "ST209": _BY_ITSELF,
    "ST210": "Nothing: the process that took the stream table over, or migrated, refreshes it.",
    "ST211": "Resume it if it is suspended: pgtrickle alter NAME --status ACTIVE.",
    "ST212": "Check the changes. To apply them: pgtrickle refresh NAME, or reset the fuse.",
    "ST213": "Drop and create it again, or choose a query with the columns of the table.",
    "ST214": "Nothing: the refresh was cancelled, and nothing was changed.",
    "ST215": "Let a role that you trust own the schemas of pgtrickle, and let no other role change"
    " them.",
    "ST216": "Run: pgtrickle migrate.",
    "ST217": "Choose another name, or drop the snapshot: pgtrickle snapshot drop SNAPSHOT.",
    "ST218": "Check the name: pgtrickle snapshot list.",
    "ST219": "Load the stream table anew: pgtrickle refresh NAME --full. The rows of the snapshot"
    " can still be read.",
    "ST220": "Follow the hint: change the refresh mode, or dissolve the group, before you restore.",
    "ST221": "Follow the hint: give the stream table a copy, bring it up to date, or take the"
    " snapshot without --to-lake; compare snapshots in a lake with: pgtrickle snapshot diff.",
    "ST222": "Drop the snapshot, and load the stream table anew with: pgtrickle refresh --full. Let"
    " only pgtrickle expire snapshots of this lake.",
    "ST223": "Give what pgtrickle dump --format yaml has written; a script is run by psql. If the"
    " file is damaged, dump the definitions again.",
    "ST224": "Install the version of pgtrickle that wrote the dump, or a later one.",
    "ST225": "Look at the last shadow build: pgtrickle shadow status NAME; begin another with:"
    " pgtrickle alter NAME --shadow-build --query SQL.",
    "ST226": "Follow the hint: replace the query without a shadow, or end the shadow build that"
    " goes on: pgtrickle shadow cancel NAME.",
    "ST227": "Begin again when there are fewer changes, or raise the setting shadow_converged_ms.",
    "ST228": "Create what the detail lists, or grant the privileges; then repeat it: pgtrickle"
    " restore FILE.",
    "ST229": "Drop or rename what is not wanted, or repeat with --replace: it becomes what the dump"
    " says.",
    "ST301": "Create the source again under the same name, or drop the stream table: pgtrickle drop"
    " NAME.",
    "ST302": "Undo the change of the source, or give the stream table a query that fits: pgtrickle"
    " alter NAME --query; or drop and create it again: pgtrickle drop NAME.",
    "ST303": "GRANT the missing privilege to the owner of the stream table.",
    "ST304": "Rename the column.",
    "ST305": "Resume the capture: pgtrickle cdc resume.",
    "ST306": "Undo the change, or let the query mean this: pgtrickle repair NAME.",
    "ST308": "Use another type, or let an administrator trust its owner: GRANT that role to"
    " pgtrickle's role.",
    "ST309": "Remove the trigger, rule or policy that the error names from the table.",
    "ST320": "Fix the condition that the error names, or capture by triggers: pgtrickle"
    " alter NAME --cdc-mode trigger.",
    "ST321": "Use compatible versions of the server and pgtrickle; meanwhile capture by"
    " triggers: pgtrickle alter NAME --cdc-mode trigger.",
    "ST322": "Nothing: triggers take over, and the consumers of the source are rebuilt.",
    "ST323": "Nothing: triggers take over, and the consumers of the source are rebuilt.",
    "ST401": "Nothing, unless it persists: the scheduler retries. Check that the server runs.",
    "ST402": "Install Java 17 or newer, and set JAVA_HOME for the daemon.",
    "ST403": "Nothing, unless it persists: Spark is restarted. See the log of the daemon.",
    "ST404": "Free disk space, memory or connections of the PostgreSQL server.",
    "ST405": "Exclude such values in the query, or let PostgreSQL answer it: pgtrickle alter"
    " NAME --refresh-mode FULL.",
    "ST406": "Nothing: the next refresh rebuilds the contents. If the error returns, find the other"
    " writer of the table.",
    "ST407": "Correct the data, or guard the expression in the query. If the data has been"
    " corrected: pgtrickle refresh NAME --full.",
    "ST408": "Nothing, unless it persists: the error names the holder of the lock.",
    "ST409": "Give Spark's driver more memory: PGTRICKLE_SPARK_DRIVER_MEMORY.",
    "ST410": _BY_ITSELF,
    "ST411": "Give pgtrickle.connect() a running session, or none.",
    "ST420": "Write fewer rows at once, or raise immediate_max_delta_rows, or set immediate_excess"
    " to defer; then refresh the stream table.",
    "ST501": "Correct the setting that the error names.",
    "ST502": "Upgrade the server to PostgreSQL 15 or newer.",
    "ST503": "Read the server's log in the directory that the error names.",
    "ST504": "Connect to the primary, or wait until this server is promoted.",
    "ST508": "Install the extra that the error names, such as pip install 'pgtrickle[spark]'.",
    "ST506": "Correct the file that the error names.",
    "ST507": "Correct the files as the error says, and apply the project again.",
    "ST505": "Promise the age that the error names or more, or make the refresh quicker.",
    "ST601": "Start a daemon: pgtrickle run.",
    "ST602": "Raise pg_trickle.request_timeout, or submit the request and check it later.",
    "ST603": _CALL_AGAIN,
    "ST604": _CALL_AGAIN,
    "ST605": "Correct the call as the error says.",
    "ST606": "Wait until some of them end, or end some.",
    "ST701": "Set up the lake's catalog, or give the sink another one.",
    "ST702": "Nothing, unless it persists: check that the storage of the lake is writable.",
    "ST703": "Check the sink: pgtrickle sink status.",
    "ST704": "Keep the column that the error names out of the query, or change its type in the"
    " lake.",
    "ST705": "Attach the lake table again.",
    "ST706": "Attach the lake table again; keep snapshots for longer than the daemon may be down.",
    "ST707": _BY_ITSELF,
    "ST708": "Correct the paths in the lake's catalog.",
    "ST709": "Compare the columns of the stream table and of the lake table. If you drop the lake"
    " table in DuckDB, it is written again; then run: pgtrickle sink retry NAME.",
    "ST710": "Check that this machine reaches the storage of the lake; reads are retried by"
    " themselves.",
    "ST801": "Give it one: pgtrickle outbox enable NAME.",
    "ST802": "Begin again: take the contents and the position at one moment (outbox_position), and"
    " follow the changes after it.",
    "ST803": "Name a consumer group that is yours, or create one under another name.",
    "ST804": "Poll again: another consumer has the entries now, or they were committed.",
    "ST805": "Let the query shorten the value, or end the outbox: pgtrickle outbox disable NAME.",
    "ST820": "Correct it as the hint says, and check it: pgtrickle relay validate.",
    "ST821": "Check the name: pgtrickle relay list.",
    "ST822": "Nothing, unless it persists: the relay tries again by itself. Try the receiver with:"
    " pgtrickle relay test PIPELINE.",
    "ST823": "Correct the credentials, or create what is missing there; the relay tries again by"
    " itself.",
    "ST824": "Look at it: pgtrickle relay dead-letters PIPELINE. Let the receiver accept it, then:"
    " pgtrickle relay replay PIPELINE.",
    "ST825": "Let sender and receiver run the same version, or one that reads both.",
    "ST826": "Nothing: this relay takes over when the other one ends.",
    "ST827": "Set the variable, or write the file, where the relay runs, and start it again.",
    "ST828": "Let them be accepted or read, then: pgtrickle relay (or inbound) replay PIPELINE.",
    "ST840": "Give what the hint asks for: a number in its range, or a column that the table has.",
    "ST841": "Look at `inbox_status()`; ask for SELECT on the table of the inbox.",
    "ST842": "Undo what was done to the table, or drop the inbox and create it again.",
    "ST843": "Start the broker, or wait: the relay tries again by itself.",
    "ST844": "Check the credentials, the topic or queue, and the rights of the pipeline.",
    "ST845": "Correct what the pipeline says of its messages, then replay the dead letters.",
    "ST846": "Let it begin again: `pgtrickle inbound resume NAME --again`.",
    "ST901": "Rebuild it: pgtrickle repair NAME. If that does not help, drop and create it"
    " again, and report the error: it is a bug in pgtrickle.",
}


def remedy_for(code: str, name: str) -> str:
    """Return the remedy for an error of a stream table; empty for a code of a newer version.

    >>> remedy_for("ST306", "public.revenue")
    'Undo the change, or let the query mean this: pgtrickle repair public.revenue.'
    """
    return REMEDIES.get(code, "").replace("NAME", name)
