-- 0026 · how snapshots were copied
--
-- Why:   a restore need not compare rows that were there before the copy, and are there still.
-- Reads: nothing; the new columns are NULL for the snapshots that exist, which are compared in full.
-- Locks: ACCESS EXCLUSIVE on pgt_snapshots, for a moment: nothing is rewritten.
-- Undo:  ALTER TABLE pgtrickle.pgt_snapshots DROP COLUMN copied_relid, DROP COLUMN settled_before,
--        DROP COLUMN copied_by;

ALTER TABLE pgtrickle.pgt_snapshots
    ADD COLUMN copied_relid   oid,
    ADD COLUMN settled_before xid8,
    ADD COLUMN copied_by      xid;

COMMENT ON COLUMN pgtrickle.pgt_snapshots.copied_relid IS
    'The table whose rows were copied; NULL: not known, or a lake has the rows.';
COMMENT ON COLUMN pgtrickle.pgt_snapshots.settled_before IS
    'All transactions before this one had ended when the rows were copied.';
COMMENT ON COLUMN pgtrickle.pgt_snapshots.copied_by IS
    'The transaction that wrote the rows of the copy; a row by another one was changed later.';
