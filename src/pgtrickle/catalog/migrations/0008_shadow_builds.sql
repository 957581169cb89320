-- 0008 · shadow builds
--
-- Why:   a new query of a stream table can be loaded beside the old one, follow it, and be compared
--        with it before it takes its place (docs/shadow-builds.md); alter_stream_table has more options.
-- Reads: pgt_stream_tables, for foreign keys.
-- Locks: CREATE only; pgt_stream_tables against writes for the foreign keys, for a moment.
-- Undo:  cancel every shadow build; DROP TABLE pgtrickle.pgt_shadow_builds; DROP PROCEDURE
--        pgtrickle.alter_stream_table; then migrate() of the version before.

CREATE TABLE pgtrickle.pgt_shadow_builds (
    pgt_id             bigint      PRIMARY KEY
                                   REFERENCES pgtrickle.pgt_stream_tables (pgt_id) ON DELETE CASCADE,
    shadow_id          bigint      UNIQUE
                                   REFERENCES pgtrickle.pgt_stream_tables (pgt_id) ON DELETE SET NULL,
    shadow_name        text        NOT NULL,
    query              text        NOT NULL,
    state              text        NOT NULL DEFAULT 'loading',
    hold               boolean     NOT NULL,
    allow_breaking     boolean     NOT NULL,
    rounds             integer     NOT NULL DEFAULT 0,
    stalled            integer     NOT NULL DEFAULT 0,
    failures           integer     NOT NULL DEFAULT 0,
    rows_loaded        bigint      NOT NULL DEFAULT 0,
    lag_changes        bigint,
    least_lag          bigint,
    last_round_ms      double precision,
    next_round_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    estimated_ready_at timestamptz,
    last_error         text,
    last_error_code    text,
    started_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at           timestamptz,

    CONSTRAINT pgt_shadow_builds_state_known CHECK (state IN (
        'loading', 'following', 'ready', 'promoted', 'cancelled', 'failed'))
);

COMMENT ON TABLE pgtrickle.pgt_shadow_builds IS
    'The latest shadow build of each stream table: a new query that is loaded beside the old one.';
COMMENT ON COLUMN pgtrickle.pgt_shadow_builds.shadow_id IS
    'The stream table with the new query; NULL once it is gone.';
COMMENT ON COLUMN pgtrickle.pgt_shadow_builds.hold IS
    'Whether it waits for promote_shadow when it has caught up.';
COMMENT ON COLUMN pgtrickle.pgt_shadow_builds.rounds IS
    'How many refreshes the shadow had, the first load included.';
COMMENT ON COLUMN pgtrickle.pgt_shadow_builds.stalled IS
    'How many refreshes in a row were long and brought the shadow no closer.';
COMMENT ON COLUMN pgtrickle.pgt_shadow_builds.lag_changes IS
    'How many captured changes the latest refresh of the shadow left.';
COMMENT ON COLUMN pgtrickle.pgt_shadow_builds.next_round_at IS
    'When a daemon refreshes the shadow again.';

-- Its arguments change.
DROP PROCEDURE IF EXISTS pgtrickle.alter_stream_table(
    text, text, text, text, text, text, text, text, text, text, bigint, double precision, text, text,
    text, text, text, text, jsonb);
