-- 0019 · tests of projects
--
-- Why:   the daemon runs the tests of projects after refreshes, and keeps what they found.
-- Reads: nothing that exists.
-- Locks: ACCESS EXCLUSIVE on pgt_project_tables, for a moment: it gets two columns.
-- Undo:  DROP VIEW pgtrickle.project_test_results; DROP TABLE pgtrickle.pgt_project_test_results;
--        ALTER TABLE pgtrickle.pgt_project_tables DROP COLUMN search_path, DROP COLUMN tested_refresh.

ALTER TABLE pgtrickle.pgt_project_tables
    ADD COLUMN search_path text,
    ADD COLUMN tested_refresh bigint;

COMMENT ON COLUMN pgtrickle.pgt_project_tables.search_path IS
    'Where its tests look for names; NULL: on the path of the role that runs them.';
COMMENT ON COLUMN pgtrickle.pgt_project_tables.tested_refresh IS
    'The refresh after which its tests were last run; NULL: they are to be run.';

CREATE TABLE pgtrickle.pgt_project_test_results (
    pgt_id    bigint      NOT NULL
                          REFERENCES pgtrickle.pgt_project_tables (pgt_id) ON DELETE CASCADE,
    test      text        NOT NULL,
    status    text        NOT NULL,
    rows      bigint,
    problem   text,
    since     timestamptz NOT NULL DEFAULT pg_catalog.now(),
    tested_at timestamptz NOT NULL DEFAULT pg_catalog.now(),

    PRIMARY KEY (pgt_id, test),
    CONSTRAINT pgt_project_test_results_status_known CHECK (status IN ('pass', 'warn', 'fail'))
);

COMMENT ON TABLE pgtrickle.pgt_project_test_results IS
    'What the tests of projects found after the last refresh that changed rows.';
COMMENT ON COLUMN pgtrickle.pgt_project_test_results.since IS 'Since when the test has this status.';
