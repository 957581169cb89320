-- 0043 · pre · lock by rows
--
-- Why:   an advisory lock can be taken by whoever may connect; what only we can lock is a row of ours.
-- Reads: versions before this one lock by other means and do not see these: stop them before.
-- Locks: CREATE; ROW EXCLUSIVE on pgt_change_tracking, briefly.
-- Undo:  DROP TABLE pgtrickle.pgt_locks; DROP SEQUENCE pgtrickle_changes.bell_0 (and 1 to 7);
--        pgtrickle cdc rebuild with the version before.

CREATE TABLE pgtrickle.pgt_locks (
    purpose text NOT NULL,
    relid   oid  NOT NULL,

    PRIMARY KEY (purpose, relid),
    CONSTRAINT pgt_locks_have_a_purpose CHECK (purpose IN ('capture', 'buffer', 'watch'))
);
REVOKE ALL ON TABLE pgtrickle.pgt_locks FROM PUBLIC;

COMMENT ON TABLE pgtrickle.pgt_locks IS
    'Rows that are locked while something is changed, and never changed themselves.';
COMMENT ON COLUMN pgtrickle.pgt_locks.purpose IS
    'capture: who changes the capture of a source; buffer: who deletes from its buffer;'
    ' watch: who makes the event triggers.';

INSERT INTO pgtrickle.pgt_locks (purpose, relid)
SELECT p.purpose, t.source_relid
  FROM pgtrickle.pgt_change_tracking AS t
 CROSS JOIN (VALUES ('capture'), ('buffer')) AS p (purpose)
 UNION ALL
SELECT 'watch', 0;

-- A sequence can be read by a capture function without a query, and its value is seen at once by
-- every transaction.  Each holds 32 flags and, above them, until when they count.
CREATE SEQUENCE pgtrickle_changes.bell_0 MINVALUE 0 START 0;
CREATE SEQUENCE pgtrickle_changes.bell_1 MINVALUE 0 START 0;
CREATE SEQUENCE pgtrickle_changes.bell_2 MINVALUE 0 START 0;
CREATE SEQUENCE pgtrickle_changes.bell_3 MINVALUE 0 START 0;
CREATE SEQUENCE pgtrickle_changes.bell_4 MINVALUE 0 START 0;
CREATE SEQUENCE pgtrickle_changes.bell_5 MINVALUE 0 START 0;
CREATE SEQUENCE pgtrickle_changes.bell_6 MINVALUE 0 START 0;
CREATE SEQUENCE pgtrickle_changes.bell_7 MINVALUE 0 START 0;
REVOKE ALL ON SEQUENCE pgtrickle_changes.bell_0, pgtrickle_changes.bell_1, pgtrickle_changes.bell_2,
    pgtrickle_changes.bell_3, pgtrickle_changes.bell_4, pgtrickle_changes.bell_5,
    pgtrickle_changes.bell_6, pgtrickle_changes.bell_7 FROM PUBLIC;

COMMENT ON SEQUENCE pgtrickle_changes.bell_0 IS
    'Whether writers are to ring the bell, and until when; so are the others.';

-- Functions that ask for advisory locks are written anew by the next refresh.
UPDATE pgtrickle.pgt_change_tracking SET layout = NULL;
