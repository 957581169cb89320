-- 0022 · immediate stamp
--
-- Why:   writers of IMMEDIATE stream tables compare one text with what is on record, instead of all
--        that was taken for granted of their sources.
-- Reads: nothing that exists.
-- Locks: ACCESS EXCLUSIVE on pgt_immediate, for a moment: it gets a column. Writers of sources of
--        IMMEDIATE stream tables wait for it.
-- Undo:  ALTER TABLE pgtrickle.pgt_immediate DROP COLUMN stamp; DROP FUNCTION
--        pgtrickle.stamp_immediate(bigint), pgtrickle.changes_in_place(oid); then migrate() of the
--        version before, and a refresh of each IMMEDIATE stream table.

ALTER TABLE pgtrickle.pgt_immediate ADD COLUMN stamp text;

COMMENT ON COLUMN pgtrickle.pgt_immediate.stamp IS
    'What stamp_immediate() said of its sources when its functions were made; as long as it says the'
    ' same, nothing else has to be compared.';
