-- 0003 · immediate
--
-- Why:   stream tables that their writers maintain: refresh_mode IMMEDIATE (docs/adr/0045).
-- Reads: pgt_stream_tables, for foreign keys.
-- Locks: CREATE only; pgt_stream_tables against writes for the foreign key, for a moment.
-- Undo:  DROP TABLE pgtrickle.pgt_immediate, pgtrickle.pgt_immediate_turns,
--        pgtrickle.pgt_immediate_sources, pgtrickle.pgt_immediate_open;

CREATE TABLE pgtrickle.pgt_immediate (
    pgt_id      bigint  PRIMARY KEY
                        REFERENCES pgtrickle.pgt_stream_tables (pgt_id) ON DELETE CASCADE,
    ready       boolean NOT NULL DEFAULT false,
    reason      text    NOT NULL DEFAULT 'it has not been loaded yet',
    lock_mode   text    NOT NULL,
    lock_reason text    NOT NULL,
    generation  text    NOT NULL,
    max_rows    bigint  NOT NULL,
    excess      text    NOT NULL,
    noted_at    timestamptz NOT NULL DEFAULT clock_timestamp(),

    CONSTRAINT pgt_immediate_lock_mode_known CHECK (lock_mode IN ('none', 'group', 'exclusive')),
    CONSTRAINT pgt_immediate_excess_known CHECK (excess IN ('error', 'defer')),
    CONSTRAINT pgt_immediate_max_rows_positive CHECK (max_rows > 0)
);

COMMENT ON TABLE pgtrickle.pgt_immediate IS
    'Stream tables with refresh_mode IMMEDIATE: whether their triggers follow, and how they lock.';
COMMENT ON COLUMN pgtrickle.pgt_immediate.ready IS
    'Whether writers keep it up to date; otherwise its next refresh computes it anew.';
COMMENT ON COLUMN pgtrickle.pgt_immediate.reason IS
    'Why it is not ready; says nothing if it is.';
COMMENT ON COLUMN pgtrickle.pgt_immediate.lock_mode IS
    'none: writers never wait; group: for writers of the same groups; exclusive: for one another.';
COMMENT ON COLUMN pgtrickle.pgt_immediate.lock_reason IS
    'Why it needs the lock that it takes.';
COMMENT ON COLUMN pgtrickle.pgt_immediate.generation IS
    'A hash of the texts of its functions: another one means that they are made anew.';
COMMENT ON COLUMN pgtrickle.pgt_immediate.max_rows IS
    'The setting immediate_max_delta_rows, when its functions were made.';
COMMENT ON COLUMN pgtrickle.pgt_immediate.excess IS
    'The setting immediate_excess, when its functions were made.';

-- One row for the whole stream table (slot 0), or one for each hash of its groups.  Writers update
-- theirs once a transaction: so they wait for one another, and a writer whose snapshot is older than
-- the last change fails with a serialization error, which it must.
CREATE TABLE pgtrickle.pgt_immediate_turns (
    pgt_id bigint  NOT NULL REFERENCES pgtrickle.pgt_immediate (pgt_id) ON DELETE CASCADE,
    slot   integer NOT NULL,
    xid    xid8,

    PRIMARY KEY (pgt_id, slot)
) WITH (fillfactor = 20);

COMMENT ON TABLE pgtrickle.pgt_immediate_turns IS
    'Which transaction last changed a stream table with refresh_mode IMMEDIATE, or some of its groups.';

CREATE TABLE pgtrickle.pgt_immediate_sources (
    pgt_id       bigint NOT NULL REFERENCES pgtrickle.pgt_immediate (pgt_id) ON DELETE CASCADE,
    source_relid oid    NOT NULL,
    columns      text[] NOT NULL,
    shape        text   NOT NULL,

    PRIMARY KEY (pgt_id, source_relid)
);

COMMENT ON TABLE pgtrickle.pgt_immediate_sources IS
    'The sources for which the functions of an IMMEDIATE stream table were written, and their shape.';

-- A statement fires a trigger before it begins and one when it has ended, for each table that it
-- writes.  Only with the last of the latter all its changes are known.
CREATE TABLE pgtrickle.pgt_immediate_open (
    pgt_id  bigint  NOT NULL,
    xid     xid8    NOT NULL,
    started integer NOT NULL,
    ended   integer NOT NULL,

    PRIMARY KEY (pgt_id, xid)
);

COMMENT ON TABLE pgtrickle.pgt_immediate_open IS
    'How many tables a running statement has begun and ended to write; nobody else ever sees a row.';
