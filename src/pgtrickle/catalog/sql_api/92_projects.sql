-- Projects: which stream tables files define, and what those say of them

CREATE OR REPLACE VIEW pgtrickle.project_tables AS
SELECT s.pgt_id, s.pgt_schema, s.pgt_name, p.project, p.target, p.file, p.owner, p.tags, p.tests,
       p.applied_at, p.applied_by
  FROM pgtrickle.pgt_project_tables AS p
  JOIN pgtrickle.pgt_stream_tables AS s ON s.pgt_id = p.pgt_id;

COMMENT ON VIEW pgtrickle.project_tables IS
    'The stream tables that projects define: their files, owners, tags and tests, and when they were applied.';

CREATE OR REPLACE VIEW pgtrickle.project_test_results AS
SELECT s.pgt_id, s.pgt_schema, s.pgt_name, p.project, p.target, r.test, r.status, r.rows, r.problem,
       r.since, r.tested_at
  FROM pgtrickle.pgt_project_test_results AS r
  JOIN pgtrickle.pgt_project_tables AS p ON p.pgt_id = r.pgt_id
  JOIN pgtrickle.pgt_stream_tables AS s ON s.pgt_id = r.pgt_id;

COMMENT ON VIEW pgtrickle.project_test_results IS
    'What the tests of projects found after the last refresh that changed rows: the rows that contradict each,'
    ' and since when.';
