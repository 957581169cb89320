-- 0010 · settings that need a restart
--
-- Why:   processes follow a setting that changes while they run; the table says which ones they
--        do not, and show_settings() returns it.
-- Reads: nothing that exists.
-- Locks: ACCESS EXCLUSIVE on pgt_settings, for a moment: a column with a constant default.
-- Undo:  DROP FUNCTION pgtrickle.show_settings(); ALTER TABLE pgtrickle.pgt_settings
--        DROP COLUMN needs_restart; then migrate() of the version before.

ALTER TABLE pgtrickle.pgt_settings ADD COLUMN needs_restart boolean NOT NULL DEFAULT false;

COMMENT ON COLUMN pgtrickle.pgt_settings.needs_restart IS
    'Whether a process that runs goes on with the value that it started with.';

DROP FUNCTION IF EXISTS pgtrickle.show_settings();
