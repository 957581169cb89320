-- 0016 · paces
--
-- Why:   which stream tables fall behind their schedules, and how far their intervals are stretched,
--        is visible and lasts when another daemon takes over; so is a scheduler without room.
-- Reads: nothing that exists.
-- Locks: SHARE ROW EXCLUSIVE on pgt_stream_tables and ACCESS EXCLUSIVE on pgt_leader, for a moment:
--        the new table refers to the one, the other gets a column without a default.
-- Undo:  DROP TABLE pgtrickle.pgt_paces; ALTER TABLE pgtrickle.pgt_leader DROP COLUMN saturation;

CREATE TABLE pgtrickle.pgt_paces (
    pgt_id           bigint           PRIMARY KEY
                                      REFERENCES pgtrickle.pgt_stream_tables (pgt_id)
                                      ON DELETE CASCADE,
    late             integer          NOT NULL,
    stretch          integer          NOT NULL,
    interval_seconds double precision NOT NULL,
    took_seconds     double precision NOT NULL,
    late_at          timestamptz      NOT NULL DEFAULT clock_timestamp(),
    stretched_at     timestamptz,

    CONSTRAINT pgt_paces_late_not_negative CHECK (late >= 0),
    CONSTRAINT pgt_paces_stretch_known CHECK (stretch BETWEEN 1 AND 8)
);

COMMENT ON TABLE pgtrickle.pgt_paces IS
    'The stream tables whose last refreshes took longer than their intervals; who keeps up is not here.';
COMMENT ON COLUMN pgtrickle.pgt_paces.late IS
    'Consecutive refreshes that took longer than the stretched interval.';
COMMENT ON COLUMN pgtrickle.pgt_paces.stretch IS
    'How many times the interval of its schedule a stream table is left alone.';
COMMENT ON COLUMN pgtrickle.pgt_paces.stretched_at IS
    'Since when the interval is stretched as far as it is; NULL: it is not.';

ALTER TABLE pgtrickle.pgt_leader ADD COLUMN saturation jsonb;

COMMENT ON COLUMN pgtrickle.pgt_leader.saturation IS
    'Why refreshes that are due wait for room, how many, and since when; NULL: none does.';
