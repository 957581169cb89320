-- 0018 · pre · add fuses
--
-- Why:   a sudden mass change is often a mistake: the scheduler stops before it and asks.
-- Reads: nothing before this version reads or writes the new columns, whose defaults change nothing.
-- Locks: ACCESS EXCLUSIVE on pgt_stream_tables, briefly: no row is rewritten.
-- Undo:  DROP the new columns; their checks go with them.

ALTER TABLE pgtrickle.pgt_stream_tables
    ADD COLUMN fuse             text    NOT NULL DEFAULT 'off',
    ADD COLUMN fuse_ceiling     bigint,
    ADD COLUMN fuse_sensitivity double precision,
    ADD COLUMN fuse_blown_at    timestamptz,
    ADD COLUMN fuse_reason      text,
    ADD COLUMN fuse_bridged     boolean NOT NULL DEFAULT false,
    ADD CONSTRAINT pgt_stream_tables_fuse_is_known CHECK (fuse IN ('off', 'on', 'auto')),
    ADD CONSTRAINT pgt_stream_tables_fuse_ceiling_positive CHECK (fuse_ceiling > 0),
    ADD CONSTRAINT pgt_stream_tables_fuse_sensitivity_above_one CHECK (fuse_sensitivity > 1);

COMMENT ON COLUMN pgtrickle.pgt_stream_tables.fuse IS
    'off; on: blows above the ceiling; auto: also above what is usual, times the sensitivity.';
COMMENT ON COLUMN pgtrickle.pgt_stream_tables.fuse_bridged IS
    'The next refresh passes whatever it finds: someone has looked and decided.';
