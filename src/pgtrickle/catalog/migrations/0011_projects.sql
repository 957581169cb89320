-- 0011 · projects
--
-- Why:   a stream table can belong to a project of files, which says what it should be.
-- Reads: nothing that exists.
-- Locks: SHARE ROW EXCLUSIVE on pgt_stream_tables, for a moment: the new table refers to it.
-- Undo:  DROP VIEW pgtrickle.project_tables; DROP TABLE pgtrickle.pgt_project_tables.

CREATE TABLE pgtrickle.pgt_project_tables (
    pgt_id     bigint      PRIMARY KEY
                           REFERENCES pgtrickle.pgt_stream_tables (pgt_id) ON DELETE CASCADE,
    project    text        NOT NULL,
    target     text        NOT NULL,
    file       text        NOT NULL,
    owner      text,
    tags       text[]      NOT NULL DEFAULT '{}',
    tests      jsonb       NOT NULL DEFAULT '[]',
    applied    jsonb       NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT pg_catalog.now(),
    applied_by text        NOT NULL DEFAULT current_user
);

COMMENT ON TABLE pgtrickle.pgt_project_tables IS
    'The stream tables that projects of files say, and what they said when they were last applied.';
COMMENT ON COLUMN pgtrickle.pgt_project_tables.owner IS
    'Who answers for it, as its file says; the role that owns the table is another thing.';
COMMENT ON COLUMN pgtrickle.pgt_project_tables.tests IS
    'What its file says about its rows, as a list of statements.';
COMMENT ON COLUMN pgtrickle.pgt_project_tables.applied IS
    'The definition that was applied: what differs from it without a change of the file was altered in the'
    ' database.';
