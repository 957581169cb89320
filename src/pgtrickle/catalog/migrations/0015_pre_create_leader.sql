-- 0015 · pre · create the leader's lease
--
-- Why:   several daemons may run for availability, and one of them decides what is refreshed when.
-- Reads: nothing before this version reads or writes the new table, so old code keeps working.
-- Locks: CREATE TABLE only.
-- Undo:  DROP TABLE pgtrickle.pgt_leader;

CREATE TABLE pgtrickle.pgt_leader (
    only_one    boolean     PRIMARY KEY DEFAULT true CHECK (only_one),
    owner       text        NOT NULL,
    acquired_at timestamptz NOT NULL,
    expires_at  timestamptz NOT NULL
);

COMMENT ON TABLE pgtrickle.pgt_leader IS
    'Which daemon schedules refreshes, and until when unless it says that it lives.';
