-- 0006 · versions of daemons
--
-- Why:   a daemon tells which Spark it brings; version() and daemons() return more columns.
-- Reads: daemons of before have no Spark on record until they are replaced.
-- Locks: ACCESS EXCLUSIVE on pgt_daemons, for a moment: the column has no default.
-- Undo:  ALTER TABLE pgtrickle.pgt_daemons DROP COLUMN spark; DROP FUNCTION pgtrickle.version(),
--        pgtrickle.daemons(); then migrate() of the version before.

ALTER TABLE pgtrickle.pgt_daemons ADD COLUMN spark text;

COMMENT ON COLUMN pgtrickle.pgt_daemons.spark IS 'The version of PySpark that it runs.';

DROP FUNCTION IF EXISTS pgtrickle.version(), pgtrickle.daemons();
