-- 0018 · relay
--
-- Why:   a relay delivers the entries of outboxes to other systems (docs/relay.md): its pipelines,
--        how far each is, and the messages that receivers refuse.
-- Reads: nothing that exists.
-- Locks: none on what exists.
-- Undo:  DROP TABLE pgtrickle.pgt_relay_dead_letters, pgtrickle.pgt_relay_states,
--        pgtrickle.pgt_relay_pipelines CASCADE; then migrate() of the version before.

CREATE TABLE pgtrickle.pgt_relay_pipelines (
    pipeline   text        PRIMARY KEY,
    pgt_id     bigint      NOT NULL
                           REFERENCES pgtrickle.pgt_stream_tables (pgt_id) ON DELETE CASCADE,
    definition jsonb       NOT NULL,
    created_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    updated_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),

    CONSTRAINT pgt_relay_pipelines_name_fits CHECK (pipeline ~ '^[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}$'),
    CONSTRAINT pgt_relay_pipelines_object CHECK (pg_catalog.jsonb_typeof(definition) = 'object')
);
CREATE INDEX pgt_relay_pipelines_by_stream_table ON pgtrickle.pgt_relay_pipelines (pgt_id);

COMMENT ON TABLE pgtrickle.pgt_relay_pipelines IS
    'What relays deliver where.  Only the owner reads it: options name receivers and their secrets.';

CREATE TABLE pgtrickle.pgt_relay_states (
    pipeline        text        PRIMARY KEY,
    pgt_id          bigint      NOT NULL,
    sink            text        NOT NULL,
    outbox_id       bigint,
    in_contents     boolean,
    row_number      bigint,
    sent_outbox_id  bigint,
    sent_contents   boolean,
    sent_row_number bigint,
    paused          boolean     NOT NULL DEFAULT false,
    state           text        NOT NULL DEFAULT 'new',
    since           timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    holder          text,
    held_until      timestamptz,
    messages        bigint      NOT NULL DEFAULT 0,
    retries         bigint      NOT NULL DEFAULT 0,
    in_flight       integer     NOT NULL DEFAULT 0,
    error_code      text,
    error           text,
    hint            text,
    wake            bigint      NOT NULL DEFAULT 0,
    sent_at         timestamptz
) WITH (fillfactor = 50);

COMMENT ON TABLE pgtrickle.pgt_relay_states IS 'How far each pipeline of a relay is, and how it does.';
COMMENT ON COLUMN pgtrickle.pgt_relay_states.outbox_id IS
    'Where it goes on: after this row of this entry; NULL: at its beginning.';
COMMENT ON COLUMN pgtrickle.pgt_relay_states.sent_outbox_id IS 'The last message that was delivered.';
COMMENT ON COLUMN pgtrickle.pgt_relay_states.held_until IS
    'Until when no other relay than its holder may deliver.';
COMMENT ON COLUMN pgtrickle.pgt_relay_states.wake IS
    'Counts the calls of resume_relay: a relay that waits tries again.';

CREATE TABLE pgtrickle.pgt_relay_dead_letters (
    dead_letter_id bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    pipeline       text        NOT NULL,
    pgt_id         bigint      NOT NULL,
    outbox_id      bigint      NOT NULL,
    in_contents    boolean     NOT NULL,
    row_number     bigint      NOT NULL,
    op             text        NOT NULL,
    key            text,
    before         text,
    after          text,
    schema_version integer     NOT NULL,
    data_timestamp timestamptz,
    error_code     text        NOT NULL,
    error          text        NOT NULL,
    failed_at      timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    replay_at      timestamptz,

    UNIQUE (pipeline, pgt_id, outbox_id, in_contents, row_number)
);

COMMENT ON TABLE pgtrickle.pgt_relay_dead_letters IS
    'Messages that receivers refused, with the later ones of their keys, until they are replayed.';
COMMENT ON COLUMN pgtrickle.pgt_relay_dead_letters.replay_at IS
    'Since when the relay is to deliver it again.';

ALTER TABLE pgtrickle.pgt_relay_pipelines ENABLE ROW LEVEL SECURITY;
ALTER TABLE pgtrickle.pgt_relay_states ENABLE ROW LEVEL SECURITY;
ALTER TABLE pgtrickle.pgt_relay_dead_letters ENABLE ROW LEVEL SECURITY;
