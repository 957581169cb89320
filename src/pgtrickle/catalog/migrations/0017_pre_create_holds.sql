-- 0017 · pre · create gates, watermarks, pauses and the drain
--
-- Why:   users hold the scheduler back: while a source is being loaded, until sources agree, or for good.
-- Reads: nothing before this version reads or writes the new tables, so old code keeps working.
-- Locks: CREATE TABLE only; the foreign key takes SHARE ROW EXCLUSIVE on pgt_stream_tables, briefly.
-- Undo:  DROP the four tables.

CREATE TABLE pgtrickle.pgt_source_gates (
    source_relid oid         PRIMARY KEY,
    gated        boolean     NOT NULL DEFAULT true,
    gated_at     timestamptz NOT NULL DEFAULT pg_catalog.now(),
    ungated_at   timestamptz,
    gated_by     text        NOT NULL DEFAULT current_user
);

COMMENT ON TABLE pgtrickle.pgt_source_gates IS
    'Sources whose consumers the scheduler leaves alone, as long as they are gated.';

CREATE TABLE pgtrickle.pgt_watermarks (
    source_relid oid         PRIMARY KEY,
    watermark    timestamptz NOT NULL,
    updated_at   timestamptz NOT NULL DEFAULT pg_catalog.now(),
    advanced_by  text        NOT NULL DEFAULT current_user
);

COMMENT ON TABLE pgtrickle.pgt_watermarks IS
    'Up to when a source is complete, as whoever loads it says.';

CREATE TABLE pgtrickle.pgt_watermark_groups (
    group_id       bigint           GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    group_name     text             NOT NULL UNIQUE,
    source_relids  oid[]            NOT NULL,
    tolerance_secs double precision NOT NULL DEFAULT 0,
    created_at     timestamptz      NOT NULL DEFAULT pg_catalog.now(),

    CONSTRAINT pgt_watermark_groups_have_sources
        CHECK (pg_catalog.cardinality(source_relids) >= 2),
    CONSTRAINT pgt_watermark_groups_tolerance_not_negative CHECK (tolerance_secs >= 0)
);

COMMENT ON TABLE pgtrickle.pgt_watermark_groups IS
    'Sources that must be complete up to about the same moment before they are read together.';

CREATE TABLE pgtrickle.pgt_scheduler_pauses (
    pgt_id    bigint      UNIQUE
                          REFERENCES pgtrickle.pgt_stream_tables (pgt_id) ON DELETE CASCADE,
    paused_at timestamptz NOT NULL DEFAULT pg_catalog.now(),
    paused_by text        NOT NULL DEFAULT current_user
);

COMMENT ON TABLE pgtrickle.pgt_scheduler_pauses IS
    'What the scheduler leaves alone: a stream table, or with NULL everything (drained).';

CREATE UNIQUE INDEX pgt_scheduler_pauses_drained
    ON pgtrickle.pgt_scheduler_pauses ((pgt_id IS NULL)) WHERE pgt_id IS NULL;
